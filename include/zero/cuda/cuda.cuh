// SPDX-License-Identifier: Apache-2.0
#pragma once
// Everything that needs nvcc, and with it what a program on GPUs includes beside zero.hpp.

#include <zero/cuda/cast.cuh>           // assign, add
#include <zero/cuda/decide.cuh>         // the decision of a step
#include <zero/cuda/device.hpp>         // a GPU as a device
#include <zero/cuda/flatten.cuh>        // gradients that lie in buffers of their own
#include <zero/cuda/initialise.cuh>     // initial values
#include <zero/cuda/nccl_backend.cuh>   // launch<cuda::Nccl>
#include <zero/cuda/shared_device.cuh>  // launch<cuda::SharedDevice>
#include <zero/cuda/squares.cuh>        // norm and overflow
#include <zero/cuda/tier.cuh>           // state in the host's memory beside a GPU
#include <zero/cuda/transfer.hpp>       // fill, copy
#include <zero/cuda/trust_ratio.cuh>    // norms a tensor, for optimizers with trust ratios
#include <zero/cuda/update.cuh>         // optimizers
