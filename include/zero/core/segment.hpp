// SPDX-License-Identifier: Apache-2.0
#pragma once
// A stretch of a rank's elements that belongs to one tensor, with what the optimizer must know of
// that tensor.

#include <zero/core/size.hpp>

namespace zero {

/// Elements [begin, end) of a range of one unit. `end` is a multiple of 64 elements and may include
/// padding after the tensor's last element, which holds zeros and has zero gradient: kernels need
/// no tails.
struct Segment {
  Index begin = 0;     ///< first element, in the slice
  Index end = 0;       ///< one past the last, a multiple of 64
  Index tensor = 0;    ///< number of the tensor in the model
  Index first = 0;     ///< element of the tensor that stands at `begin`
  float decay = 1;     ///< multiplies the optimizer's weight decay
  float lr_scale = 1;  ///< multiplies the learning rate
  Index trained = 0;   ///< number of the tensor among those that are trained
};

}  // namespace zero
