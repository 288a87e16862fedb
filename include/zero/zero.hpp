// SPDX-License-Identifier: Apache-2.0
#pragma once
// Everything that needs a C++20 compiler and nothing else, in the order of a step.

#include <zero/comm/recording.hpp>      // what goes over the wire, counted
#include <zero/comm/single_rank.hpp>    // one rank
#include <zero/comm/threads.hpp>        // ranks as threads
#include <zero/core/dtype.hpp>          // bf16, fp16
#include <zero/core/noise.hpp>          // noise keyed by element
#include <zero/device/host.hpp>         // the host as a device
#include <zero/launch/threads.hpp>      // launch<Threads>
#include <zero/model/model.hpp>         // tensors, units, visits, the Model concept
#include <zero/model/sample_order.hpp>  // a rank's part of an epoch
#include <zero/optim/adamw.hpp>         // AdamW; learning-rate schedules
#include <zero/optim/momentum.hpp>      // a momentum that cycles
#include <zero/policy/options.hpp>      // run-time options
#include <zero/policy/policies.hpp>     // Sharded<Stage, Offload>, precisions
#include <zero/report/metrics.hpp>      // a row a step
#include <zero/report/progress.hpp>     // a progress line
#include <zero/report/slices.hpp>       // weights and state, read by tensor; parameters_hash
#include <zero/report/wire_plan.hpp>    // elements a step sends, before anything is allocated
#include <zero/shard/layout.hpp>        // who owns what
#include <zero/step/clip.hpp>           // phase 3
#include <zero/step/gather.hpp>         // phase 1
#include <zero/step/memory_plan.hpp>    // bytes, before anything is allocated
#include <zero/step/publish.hpp>        // phase 5
#include <zero/step/reduce.hpp>         // phase 2
#include <zero/step/trainer.hpp>        // the step
#include <zero/step/update.hpp>         // phase 4
