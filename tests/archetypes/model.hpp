// SPDX-License-Identifier: Apache-2.0
#pragma once
// A model with nothing but what the concept asks: a batch that is only referred to, a description,
// and a call that uses each thing a pass offers.

#include <zero/model/model.hpp>
#include <zero/step/pass.hpp>

#include <utility>

namespace archetype {

/// A micro-batch that can be neither made nor copied here.
class Batch {
 public:
  Batch() = delete;
  Batch(Batch const&) = delete;
  Batch& operator=(Batch const&) = delete;
};

/// Visits one unit in each way. Moves, and does not copy.
class Model {
 public:
  using Batch = archetype::Batch;

  Model() = delete;
  Model(Model&&) noexcept;
  Model& operator=(Model&&) = delete;

  zero::Units units() const;

  template <class Pass>
  void operator()(Pass& pass, Batch const&) {
    auto weights = pass.forward(0);
    use(weights[0].address(), weights.flat().address());
    weights.end();
    use(pass.loss().address(), pass.loss_scale().address());
    use(&pass.stream(), &pass.context());
    if constexpr (Pass::trains) {
      auto [parameters, gradients] = pass.backward(0);
      use(parameters[0].address(), gradients[0].address());
      auto moved = std::move(gradients);
      use(moved.flat().address(), nullptr);
      if (moved.first()) moved.end();
      auto overwritten = pass.backward(0, zero::Fill::overwrite);
      overwritten.gradients.end();
    }
  }

 private:
  static void use(void const*, void const*);
};

}  // namespace archetype
