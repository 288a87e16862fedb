// SPDX-License-Identifier: Apache-2.0
#pragma once
// The buffers of one slice, and updates of them as the step makes them.

#include <zero/device/host_elementwise.hpp>
#include <zero/optim/trust_ratio.hpp>

#include <vector>

namespace optim_test {

using zero::at;
using zero::Decision;
using zero::Host;
using zero::Index;
using zero::Segment;
using zero::View;

/// @tparam P as in zero::Update
template <class O, class P = float>
struct Slice {
  using Storage = zero::StorageOf<P>;

  std::vector<typename Storage::Master> weights;
  std::vector<typename Storage::State> states;
  std::vector<typename Storage::Parameter> rounded;  ///< empty where weights are the parameters
  std::vector<Segment> segments;
  std::vector<double> norms{};  ///< [ranks, tensors, 2], where there are trust ratios
  Index ranks = 1;
  Index tensors = 1;
  std::uint64_t seed = 1;

  explicit Slice(Index n)
      : weights(at(n)), states(at(O::num_states * n)), segments{{0, n, 0, 0, 1, 1}} {}
  Index size() const { return std::ssize(weights); }

  template <class G>
  zero::Update<O, G, P, Host> of(O const& optimizer, std::vector<G> const& gradients,
                                 Decision const& decision) {
    zero::Update<O, G, P, Host> u{optimizer,
                                  {gradients.data(), size()},
                                  {weights.data(), size()},
                                  {states.data(), std::ssize(states)},
                                  {rounded.data(), std::ssize(rounded)},
                                  {segments.data(), std::ssize(segments)},
                                  {&decision, 1},
                                  seed};
    if constexpr (zero::HasTrustRatio<O>)
      u.norms = {{norms.data(), std::ssize(norms)}, ranks, tensors};
    return u;
  }

  template <class G>
  void update(O const& optimizer, std::vector<G> const& gradients, Decision const& decision,
              Host device = {}) {
    auto stream = device.stream();
    zero::update(stream, of(optimizer, gradients, decision));
  }

  /// Measures the norms as a rank does that has `slices` slices, from row `first`.
  template <class G>
  void measure(O const& optimizer, std::vector<G> const& gradients, Decision const& decision,
               Index first = 0, Index slices = 1) {
    zero::HostStream stream;
    norms.resize(at(ranks * tensors * 2));
    zero::measure_norms(stream, of(optimizer, gradients, decision),
                        View<double, Host>(norms.data(), std::ssize(norms)),
                        zero::NormSlices{first, slices, size() / slices, tensors});
  }

  float weight(Index i) const {
    if constexpr (Storage::splits) {
      return join(rounded[at(i)], weights[at(i)]);
    } else {
      return weights[at(i)];
    }
  }
  float state(int k, Index i) const { return static_cast<float>(states[at(k * size() + i)]); }
};

template <class O>
Decision good(Index t, O const& optimizer, float factor = 1) {
  Decision d;
  d.updates = t;
  d.factor = factor;
  d.learning_rate = optimizer.learning_rate(t);
  return d;
}

}  // namespace optim_test
