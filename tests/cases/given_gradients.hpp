// SPDX-License-Identifier: Apache-2.0
#pragma once
// A model whose gradients are given: a batch is the gradient of every trainable element, in order
// of description, before the loss scale, and the loss is 0, or what `loss` says of the batch. So a
// test says what each rank contributes, and what is left to see is what reduction, clipping and
// update make of it.

#include <zero/model/model.hpp>

#include <string>
#include <vector>

namespace cases {

using zero::at;
using zero::Index;

/// Forward over all units, backward in the opposite order, adding the batch to the gradients.
/// Parameters are gathered and not looked at. Any device that runs host code.
struct GivenGradients {
  using Batch = std::vector<float>;

  zero::Units description;
  double (*loss)(Batch const&) = nullptr;

  zero::Units units() const { return description; }

  template <class Pass>
  void operator()(Pass& pass, Batch const& batch) const {
    if (loss != nullptr) {
      pass.stream().enqueue(
          [to = pass.loss(), x = loss(batch)] { *Pass::Device::resolve(to.address()) += x; });
    }
    int const num_units = static_cast<int>(description.size());
    for (int u = 0; u < num_units; ++u) pass.forward(u).end();
    if constexpr (Pass::trains) {
      Index begin = std::ssize(batch);
      for (int u = num_units; u-- > 0;) {
        auto [parameters, gradients] = pass.backward(u);
        for (Index i = std::ssize(description[at(u)].tensors); i-- > 0;) {
          begin -= gradients[i].size();
          if (begin < 0) break;
          add(pass, gradients[i], batch.data() + begin);
        }
      }
      if (begin != 0)
        throw zero::InvalidArgument("GivenGradients: a batch of " + std::to_string(batch.size()) +
                                    " elements does not fit the model");
    }
  }

 private:
  template <class Pass>
  static void add(Pass& pass, zero::View<typename Pass::Gradient, typename Pass::Device> to,
                  float const* from) {
    pass.stream().enqueue([to, from, scale = pass.loss_scale()] {
      using Gradient = typename Pass::Gradient;
      Gradient* const g = Pass::Device::resolve(to.address());
      float const s = *Pass::Device::resolve(scale.address());
      for (Index i = 0; i < to.size(); ++i)
        g[i] = static_cast<Gradient>(static_cast<float>(g[i]) + s * from[i]);
    });
  }
};

}  // namespace cases
