// SPDX-License-Identifier: Apache-2.0
#pragma once
// A model's parameters and gradients in plain vectors, and the pass over them that a hand-written
// training loop would make: one rank, no library underneath. Tests and benches hold the library
// against it.

#include <zero/device/host.hpp>
#include <zero/model/model.hpp>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

namespace gpt2 {

/// Every tensor of a model, unit by unit, in ordinary memory.
/// @tparam P type of the parameters
/// @tparam G type of the gradients
template <class P, class G = P>
class PlainMemory {
 public:
  /// @param seed of the initial values; tensors are numbered through all units
  PlainMemory(zero::Units const& units, std::uint64_t seed) {
    zero::Index number = 0;
    for (zero::Unit const& unit : units) {
      auto& unit_parameters = parameters.emplace_back();
      auto& unit_gradients = gradients.emplace_back();
      for (zero::Tensor const& tensor : unit.tensors) {
        auto const count = zero::at(tensor.elements());
        auto& values = unit_parameters.emplace_back(count);
        unit_gradients.emplace_back(tensor.trainable ? count : 0);
        for (std::size_t i = 0; i < count; ++i) {
          values[i] =
              static_cast<P>(tensor.initial.value(seed, number, static_cast<zero::Index>(i)));
        }
        ++number;
      }
    }
  }

  void clear_gradients() {
    for (auto& unit : gradients) {
      for (auto& tensor : unit) std::fill(tensor.begin(), tensor.end(), G{});
    }
  }

  std::vector<std::vector<std::vector<P>>> parameters;  ///< [unit][tensor][element]
  std::vector<std::vector<std::vector<G>>>
      gradients;  ///< [unit][tensor][element]; frozen tensors have none
};

/// One pass over a PlainMemory; gradients are added to.
/// @tparam Trains whether the model makes its backward
template <class P, class G, bool Trains>
class PlainPass {
 public:
  static constexpr bool trains = Trains;
  using Parameter = P;
  using Gradient = G;
  using Device = zero::Host;

  /// The tensors of a unit, as spans.
  template <class T, class Owner>
  struct Lease {
    Owner* tensors;
    std::span<T> operator[](int tensor) const {
      return (*tensors)[static_cast<std::size_t>(tensor)];
    }
  };

  explicit PlainPass(PlainMemory<P, G>& memory, float scale = 1)
      : memory_(&memory), scale_(scale) {}

  Lease<P const, std::vector<std::vector<P>> const> forward(int unit) const {
    return {&memory_->parameters[static_cast<std::size_t>(unit)]};
  }
  std::pair<Lease<P const, std::vector<std::vector<P>> const>,
            Lease<G, std::vector<std::vector<G>>>>
  backward(int unit) const {
    return {forward(unit), {&memory_->gradients[static_cast<std::size_t>(unit)]}};
  }
  std::span<double> loss() { return {&loss_, 1}; }
  std::span<float const> loss_scale() const { return {&scale_, 1}; }

 private:
  PlainMemory<P, G>* memory_;
  double loss_ = 0;
  float scale_ = 1;
};

}  // namespace gpt2
