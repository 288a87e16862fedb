// SPDX-License-Identifier: Apache-2.0
#pragma once
// How a model describes its parameters: ordered units of named tensors. Nothing is allocated by a
// description.

#include <zero/model/initial.hpp>

#include <algorithm>
#include <string>
#include <unordered_set>
#include <vector>

namespace zero {

/// One parameter tensor, row-major.
struct Tensor {
  std::string name;          ///< unique in the model
  std::vector<Index> shape;  ///< extents, each >= 0; empty: one element
  Initial initial{};         ///< values at step 0; zeros unless given
  float decay = 1;           ///< multiplies the optimizer's weight decay for this tensor
  float lr_scale = 1;        ///< multiplies the learning rate for this tensor
  bool trainable = true;     ///< false: no gradient, no optimizer state, never reduced nor updated

  /// Product of the extents.
  /// @throws InvalidArgument beyond 64 bits
  Index elements() const {
    Index n = 1;
    bool const empty = std::ranges::find(shape, Index{0}) != shape.end();
    for (Index extent : shape) n = checked_product(empty ? 1 : n, extent, "shape", name);
    return empty ? 0 : n;
  }
};

/// What is gathered, reduced and released together: a transformer block, an embedding. A tensor
/// that two places of the model use (tied weights) stands in one unit, which is visited twice.
struct Unit {
  std::string name;             ///< unique in the model
  std::vector<Tensor> tensors;  ///< in the order of their places

  /// Some of its elements are trainable: it has a gradient.
  bool trains() const {
    return std::ranges::any_of(tensors,
                               [](Tensor const& t) { return t.trainable && t.elements() > 0; });
  }
};

/// A model, in the order of its units' numbers.
using Units = std::vector<Unit>;

/// Checks a description.
/// @throws InvalidArgument naming the unit or tensor: nothing trainable, a repeated or empty name,
///   a negative extent, a size beyond 64 bits
inline void validate(Units const& units) {
  std::unordered_set<std::string> unit_names;
  std::unordered_set<std::string> tensor_names;
  Index trainable = 0;
  Index total = 0;
  auto const refuse = [](std::string const& text) { throw InvalidArgument("model: " + text); };
  for (Unit const& unit : units) {
    if (unit.name.empty()) refuse("a unit has no name");
    if (!unit_names.insert(unit.name).second) refuse("two units are named '" + unit.name + "'");
    for (Tensor const& tensor : unit.tensors) {
      if (tensor.name.empty()) refuse("a tensor of unit '" + unit.name + "' has no name");
      if (!tensor_names.insert(tensor.name).second)
        refuse("two tensors are named '" + tensor.name + "'");
      for (Index extent : tensor.shape) {
        if (extent < 0)
          refuse("tensor '" + tensor.name + "' has the extent " + std::to_string(extent));
      }
      Index const n = tensor.elements();
      if (n > (Index{1} << 60) - total)
        refuse("more than 2^60 elements, with tensor '" + tensor.name + "'");
      total += n;
      if (tensor.trainable) trainable += n;
    }
  }
  if (units.empty()) refuse("it has no units");
  if (trainable == 0)
    refuse("none of its " + std::to_string(total) +
           " elements is trainable; there is nothing to train");
}

}  // namespace zero
