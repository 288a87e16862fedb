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

template <class T, class X>
void write_range(X& x, Slot<typename X::Device>& slot, Index begin, Index n, T const* from) {
  auto claim = slot.template on<T>(x.compute);
  copy_in(x.compute, claim.view(begin, n), from);
  claim.end();
  x.wait();
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
  using P = typename X::Parameter;
  if constexpr (!X::has_master) {
    write_range(x, parameters.kept(u), in_parameters, n, values.data());
  } else {
    std::vector<P> rounded(values.size());
    if constexpr (X::splits_master) {
      std::vector<LowerHalf> lower(values.size());
      for (std::size_t i = 0; i < values.size(); ++i) {
        rounded[i] = UpperHalf(values[i]).rounded();
        lower[i] = LowerHalf(values[i]);
      }
      write_range(x, state.master_slot(u), first, n, lower.data());
    } else {
      for (std::size_t i = 0; i < values.size(); ++i) rounded[i] = static_cast<P>(values[i]);
      write_range(x, state.master_slot(u), first, n, values.data());
    }
    write_range(x, parameters.kept(u), in_parameters, n, rounded.data());
  }
}

/// The same for the optimizer's number k, rounded to nearest where it is kept shorter.
template <class X, Optimizer O>
void write_state(OptimizerState<X, O>& state, int k, int u, Index begin,
                 std::span<float const> values) {
  X& x = state.context();
  Index const first = k * x.shares.owned(u) + begin - x.shares.owned_begin(u, x.rank());
  std::vector<typename X::State> kept(values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    kept[i] = static_cast<typename X::State>(values[i]);
  write_range(x, state.state_slot(u), first, std::ssize(values), kept.data());
}

/// Sets every number of the optimizer to 0, as before the first step. Waits.
template <class X, Optimizer O>
void clear_states(OptimizerState<X, O>& state) {
  X& x = state.context();
  for (int u = 0; u < x.layout.size(); ++u) {
    auto claim = state.state_slot(u).template on<typename X::State>(x.compute);
    fill_zero(x.compute, claim.view(0, x.shares.owned(u) * O::num_states));
  }
  x.wait();
}

/// The same for the parameters of frozen tensors, counted in the unit's frozen part.
template <class X>
void write_frozen(Parameters<X>& parameters, int u, Index begin, std::span<float const> values) {
  X& x = parameters.context();
  using P = typename X::Parameter;
  std::vector<P> rounded(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) rounded[i] = static_cast<P>(values[i]);
  bool const slices = x.shares.sharded_parameters(u);
  Index const kept = slices ? x.layout.frozen_slice_begin(u, x.rank()) : 0;
  write_range(x, parameters.kept(u), x.shares.frozen_begin(u) + begin - kept, std::ssize(values),
              rounded.data());
}

}  // namespace zero::detail
