// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a rank keeps of a model's weights and state, written from the host: the other direction of
// report/slices.hpp, over all that is kept here: at stage 0 whole tensors, else slices.

#include <zero/report/slices.hpp>

namespace zero::detail {

/// A stretch of one tensor that this rank keeps.
struct OwnedPiece {
  int unit = 0;
  Index tensor = 0;    ///< in its unit
  Index first = 0;     ///< first element, counted in the tensor
  Index elements = 0;  ///< how many
  Index begin = 0;     ///< where it starts in the unit's trainable, or frozen, part
};

/// Floats as they are kept, rounded to nearest; of floats no copy.
template <class T>
class Rounded {
 public:
  explicit Rounded(std::span<float const> values) : values_(values.size()) {
    for (std::size_t i = 0; i < values.size(); ++i) values_[i] = static_cast<T>(values[i]);
  }
  T const* data() const { return values_.data(); }

 private:
  std::vector<T> values_;
};
template <>
class Rounded<float> {
 public:
  explicit Rounded(std::span<float const> values) : values_(values) {}
  float const* data() const { return values_.data(); }

 private:
  std::span<float const> values_;
};

template <class T, class X>
void write_range(X& x, Slot<typename X::Device>& slot, Index begin, Index n, T const* from) {
  auto claim = slot.template on<T>(x.compute);
  copy_in(x.compute, claim.view(begin, n), from);
  claim.end();
  x.wait();
}

/// Elements of what this rank keeps of a unit's trainable, or frozen, part, wherever that is.
template <class T, class X>
void write_parameters(Parameters<X>& parameters, int u, bool trainable, Index begin, Index n,
                      T const* from) {
  X& x = parameters.context();
  if constexpr (X::Sharding::parameter_tier != Tier::device) {
    if (x.shares.stores_parameters(u))
      return x.tiers.write_parameters(u, trainable ? 0 : 1, begin, n, from);
  }
  Index const place = begin + (trainable ? 0 : x.shares.frozen_begin(u));
  write_range(x, parameters.kept(u), place, n, from);
}

/// Sets float weights, and the parameters that they round to, from element `begin` of a unit's
/// trainable part on; within what this rank keeps. Waits.
template <class X, Optimizer O>
void write_weights(Parameters<X>& parameters, OptimizerState<X, O>& state, int u, Index begin,
                   std::span<float const> values) {
  X& x = state.context();
  Index const n = std::ssize(values);
  Index const first = begin - x.shares.owned_begin(u, x.rank());
  Index const in_parameters = x.shares.owned_in_parameters(u, x.rank()) + first;
  if constexpr (X::splits_master) {
    std::vector<typename X::Parameter> upper(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) upper[i] = UpperHalf(values[i]).rounded();
    write_parameters(parameters, u, true, in_parameters, n, upper.data());
  } else {
    Rounded<typename X::Parameter> const rounded(values);
    write_parameters(parameters, u, true, in_parameters, n, rounded.data());
  }
  if constexpr (OptimizerState<X, O>::offloads) {
    if (x.shares.offloads(u)) return state.offloaded().write_weights(u, first, n, values.data());
  }
  if constexpr (X::splits_master) {
    std::vector<LowerHalf> lower(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) lower[i] = LowerHalf(values[i]);
    write_range(x, state.master_slot(u), first, n, lower.data());
  } else if constexpr (X::has_master) {
    write_range(x, state.master_slot(u), first, n, values.data());
  }
}

/// The same for the optimizer's number k, rounded to nearest where it is kept shorter.
template <class X, Optimizer O>
void write_state(OptimizerState<X, O>& state, int k, int u, Index begin,
                 std::span<float const> values) {
  X& x = state.context();
  Index const first = begin - x.shares.owned_begin(u, x.rank());
  if constexpr (OptimizerState<X, O>::offloads) {
    if (x.shares.offloads(u))
      return state.offloaded().write_states(u, k, first, std::ssize(values), values.data());
  }
  Rounded<typename X::State> const kept(values);
  write_range(x, state.state_slot(u), k * x.shares.owned(u) + first, std::ssize(values),
              kept.data());
}

/// Sets every number of the optimizer to 0, as before the first step. Waits.
template <class X, Optimizer O>
void clear_states(OptimizerState<X, O>& state) {
  X& x = state.context();
  for (int u = 0; u < x.layout.size(); ++u) {
    if constexpr (OptimizerState<X, O>::offloads) {
      if (x.shares.offloads(u)) {
        state.offloaded().rewrite(
            u, [&](Index, auto, auto states, auto) { fill_zero(x.tiers.host, states); });
        continue;
      }
    }
    auto claim = state.state_slot(u).template on<typename X::State>(x.compute);
    fill_zero(x.compute, claim.view(0, x.shares.owned(u) * O::num_states));
  }
  x.wait();
}

/// The same for the parameters of frozen tensors, counted in the unit's frozen part.
template <class X>
void write_frozen(Parameters<X>& parameters, int u, Index begin, std::span<float const> values) {
  X& x = parameters.context();
  Rounded<typename X::Parameter> const rounded(values);
  bool const slices = x.shares.sharded_parameters(u);
  Index const kept = slices ? x.layout.frozen_slice_begin(u, x.rank()) : 0;
  write_parameters(parameters, u, false, begin - kept, std::ssize(values), rounded.data());
}

}  // namespace zero::detail
