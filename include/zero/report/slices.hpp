// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a rank owns, read tensor by tensor: its slices, so that the ranks together see every element
// once, at every stage. For looking at a model, comparing it and writing it down.

#include <zero/step/optimizer_state.hpp>

#include <algorithm>
#include <bit>
#include <concepts>
#include <span>
#include <vector>

namespace zero {

namespace detail {

template <class T, class X>
void read_range(X& context, Slot<typename X::Device>& slot, Index begin, Index n, T* to) {
  auto claim = slot.template on<T>(context.compute);
  copy_out(context.compute, to, View<T const, typename X::Device>(claim.view(begin, n)));
  claim.end();
  context.wait();
}

/// Elements of what this rank keeps of a unit's trainable, or frozen, part, wherever that is.
template <class T, class X>
void read_parameters(Parameters<X>& parameters, int u, bool trainable, Index begin, Index n,
                     T* to) {
  X& context = parameters.context();
  if constexpr (X::Sharding::parameter_tier != Tier::device) {
    if (context.shares.stores_parameters(u))
      return context.tiers.read_parameters(u, trainable ? 0 : 1, begin, n, to);
  }
  Index const place = begin + (trainable ? 0 : context.shares.frozen_begin(u));
  read_range(context, parameters.kept(u), place, n, to);
}

/// Float weights of elements [begin, begin + n) of a unit's trainable part, which this rank owns.
template <class X, Optimizer O>
void read_weight_range(Parameters<X>& parameters, OptimizerState<X, O>& state, int u, Index begin,
                       Index n, float* to) {
  X& context = state.context();
  Index const first = begin - context.shares.owned_begin(u, context.rank());
  Index const in_parameters = context.shares.owned_in_parameters(u, context.rank()) + first;
  if constexpr (OptimizerState<X, O>::offloads) {
    if (context.shares.offloads(u)) return state.offloaded().read_weights(u, first, n, to);
  }
  if constexpr (X::splits_master) {
    std::vector<bf16> upper(at(n));
    std::vector<LowerHalf> lower(at(n));
    read_parameters(parameters, u, true, in_parameters, n, upper.data());
    read_range(context, state.master_slot(u), first, n, lower.data());
    for (std::size_t i = 0; i < upper.size(); ++i) to[i] = join(upper[i], lower[i]);
  } else if constexpr (X::has_master) {
    read_range(context, state.master_slot(u), first, n, to);
  } else {
    read_parameters(parameters, u, true, in_parameters, n, to);
  }
}

/// The same of the optimizer's number k.
template <class X, Optimizer O>
void read_state_range(OptimizerState<X, O>& state, int k, int u, Index begin, Index n, float* to) {
  X& context = state.context();
  Index const first = begin - context.shares.owned_begin(u, context.rank());
  if constexpr (OptimizerState<X, O>::offloads) {
    if (context.shares.offloads(u)) return state.offloaded().read_states(u, k, first, n, to);
  }
  Index const place = k * context.shares.owned(u) + first;
  using S = typename X::State;
  if constexpr (std::same_as<S, float>) {
    read_range(context, state.state_slot(u), place, n, to);
  } else {
    std::vector<S> kept(at(n));
    read_range(context, state.state_slot(u), place, n, kept.data());
    for (std::size_t i = 0; i < kept.size(); ++i) to[i] = static_cast<float>(kept[i]);
  }
}

/// Parameters of elements [begin, begin + n) of a unit's frozen part, which this rank keeps.
template <class X>
void read_frozen_range(Parameters<X>& parameters, int u, Index begin, Index n,
                       typename X::Parameter* to) {
  X& context = parameters.context();
  bool const slices = context.shares.sharded_parameters(u);
  Index const kept = slices ? context.layout.frozen_slice_begin(u, context.rank()) : 0;
  read_parameters(parameters, u, false, begin - kept, n, to);
}

/// Brings this rank's slice of each unit's trainable, or frozen, part to the host in tiles and
/// hands out the pieces. @param read (unit, first element of the part, count, T* to)
template <class T, class X, class F, class Read>
void read_slices(X& context, bool trainable, F& f, Read read) {
  constexpr Index tile = Index{1} << 18;
  Layout const& layout = context.layout;
  std::vector<T> host;
  for (int u = 0; u < layout.size(); ++u) {
    Index const rank = context.rank();
    Index const slice = trainable ? layout.slice(u) : layout.frozen_slice(u);
    Index const begin =
        trainable ? layout.slice_begin(u, rank) : layout.frozen_slice_begin(u, rank);
    for (Index done = 0; done < slice; done += tile) {
      Index const n = std::min(tile, slice - done);
      host.resize(at(n));
      read(u, begin + done, n, host.data());
      layout.pieces(u, trainable, begin + done, n, [&](PlacedTensor const& t, Piece const& p) {
        f(t, p.first, std::span<T const>(host.data() + p.begin, at(p.elements)));
      });
    }
  }
}

}  // namespace detail

/// Calls f(PlacedTensor, first element, std::span<float const>) for the float weights of this
/// rank's slices of trainable tensors. Waits. Communication: none.
template <class X, Optimizer O, class F>
void read_weights(Parameters<X>& parameters, OptimizerState<X, O>& state, F f) {
  detail::read_slices<float>(state.context(), true, f, [&](int u, Index begin, Index n, float* to) {
    detail::read_weight_range(parameters, state, u, begin, n, to);
  });
}

/// The same for the optimizer's number k, from 0 to O::num_states - 1.
template <class X, Optimizer O, class F>
void read_state(OptimizerState<X, O>& state, int k, F f) {
  detail::read_slices<float>(state.context(), true, f, [&](int u, Index begin, Index n, float* to) {
    detail::read_state_range(state, k, u, begin, n, to);
  });
}

/// The same for the parameters of frozen tensors, as std::span<Parameter const>.
template <class X, class F>
void read_frozen(Parameters<X>& parameters, F f) {
  using P = typename X::Parameter;
  detail::read_slices<P>(parameters.context(), false, f, [&](int u, Index begin, Index n, P* to) {
    detail::read_frozen_range(parameters, u, begin, n, to);
  });
}

/// A hash of all weights, padding excluded, equal at every stage and on every rank: the 64-bit sum
/// over elements of mix(tensor, element, bits), of the float weights where trainable, of the
/// parameters where frozen. Waits, and every rank calls it. Communication: one exchange of a word.
template <class X, Optimizer O>
std::uint64_t parameters_hash(Parameters<X>& parameters, OptimizerState<X, O>& state) {
  std::uint64_t mine = 0;
  auto const bits = [](auto x) -> std::uint64_t {
    if constexpr (std::same_as<decltype(x), float>) {
      return std::bit_cast<std::uint32_t>(x);
    } else {
      return x.bits;
    }
  };
  auto const add_all = [&](PlacedTensor const& t, Index first, auto values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::uint64_t const element = static_cast<std::uint64_t>(first) + i;
      mine += mix(mix(static_cast<std::uint64_t>(t.number), element), bits(values[i]));
    }
  };
  read_weights(parameters, state, add_all);
  read_frozen(parameters, add_all);
  std::uint64_t sum = 0;
  for (std::uint64_t word : state.context().exchange(std::span(&mine, 1), "parameters hash"))
    sum += word;
  return sum;
}

/// Something made of the parts, such as a Trainer.
template <class T>
concept HasParts = requires(T& trainer) {
  trainer.synchronize();
  trainer.context();
  trainer.parameters();
  trainer.optimizer_state();
};

/// Waits for the trainer, then as above.
template <HasParts T, class F>
void read_weights(T& trainer, F f) {
  trainer.synchronize();
  read_weights(trainer.parameters(), trainer.optimizer_state(), f);
}
/// Waits for the trainer, then as above.
template <HasParts T, class F>
void read_state(T& trainer, int k, F f) {
  trainer.synchronize();
  read_state(trainer.optimizer_state(), k, f);
}
/// Waits for the trainer, then as above.
template <HasParts T, class F>
void read_frozen(T& trainer, F f) {
  trainer.synchronize();
  read_frozen(trainer.parameters(), f);
}
/// Waits for the trainer, then as above.
template <HasParts T>
std::uint64_t parameters_hash(T& trainer) {
  trainer.synchronize();
  return parameters_hash(trainer.parameters(), trainer.optimizer_state());
}

}  // namespace zero
