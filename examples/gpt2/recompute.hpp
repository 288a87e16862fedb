// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a forward pass leaves out for the backward pass to make again.

namespace gpt2 {

/// What is made again in a block's backward pass, so that it need not be kept.
enum class Recompute {
  none,   ///< nothing
  cheap,  ///< outputs of norms and of the activation: no product is made twice
  block,  ///< everything but the block's input
};

}  // namespace gpt2
