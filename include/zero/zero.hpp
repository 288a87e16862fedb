// SPDX-License-Identifier: Apache-2.0
#pragma once
// Everything that needs a C++20 compiler and nothing else: the table of contents, in the order in
// which a program comes to it.

#if defined(__cplusplus) && __cplusplus < 202002L
#error "zero is C++20: compile with -std=c++20 or later"
#endif

// clang-format off

// What numbers, bytes and ranks are.
#include <zero/core/version.hpp>        // version
#include <zero/core/dtype.hpp>          // bf16, fp16
#include <zero/core/noise.hpp>          // noise keyed by element
#include <zero/device/flatten.hpp>      // gradients that lie in buffers of their own
#include <zero/device/host.hpp>         // the host as a device
#include <zero/comm/single_rank.hpp>    // one rank
#include <zero/comm/threads.hpp>        // ranks as threads
#include <zero/comm/recording.hpp>      // what goes over the wire, counted
#include <zero/launch/threads.hpp>      // launch<Threads>
#include <zero/launch/agree.hpp>        // ranks that decide together

// What is trained, and how.
#include <zero/model/model.hpp>         // tensors, units, visits, the Model concept
#include <zero/model/sample_order.hpp>  // a rank's part of an epoch
#include <zero/policy/policies.hpp>     // Sharded<Stage, Offload>, precisions
#include <zero/policy/options.hpp>      // run-time options
#include <zero/optim/adamw.hpp>         // AdamW; learning-rate schedules
#include <zero/optim/adam.hpp>          // Adam, with L2 regularisation
#include <zero/optim/lamb.hpp>          // Lamb
#include <zero/optim/lion.hpp>          // Lion
#include <zero/optim/adagrad.hpp>       // Adagrad
#include <zero/optim/sgd.hpp>           // Sgd, with momentum and Nesterov
#include <zero/optim/one_of.hpp>        // one of these, chosen at run time
#include <zero/optim/momentum.hpp>      // a momentum that cycles

// What is known before anything is allocated.
#include <zero/shard/layout.hpp>        // who owns what
#include <zero/step/memory_plan.hpp>    // bytes of a rank
#include <zero/report/wire_plan.hpp>    // elements and bytes that a step sends

// A step, phase by phase.
#include <zero/step/gather.hpp>         // 1: full parameters for a visit
#include <zero/step/reduce.hpp>         // 2: sums of gradients
#include <zero/step/clip.hpp>           // 3: the norm, and the decision of the step
#include <zero/step/update.hpp>         // 4: the optimizer
#include <zero/step/publish.hpp>        // 5: updates sent to the other ranks
#include <zero/step/trainer.hpp>        // all of it

// What lies below the device.
#include <zero/tier/tier_plan.hpp>      // bytes of host memory and of files
#include <zero/tier/host_side.hpp>      // the host's memory beside a device
#include <zero/tier/tiers.hpp>          // gradients that come down, parameters that are fetched
#include <zero/tier/offloaded_state.hpp>  // the update there

// What is told of a run.
#include <zero/report/progress.hpp>     // a progress line
#include <zero/report/metrics.hpp>      // a row a step
#include <zero/report/slices.hpp>       // weights and state, read by tensor; parameters_hash

// clang-format on
