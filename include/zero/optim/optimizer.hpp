// SPDX-License-Identifier: Apache-2.0
#pragma once
// What an optimizer is: numbers kept an element, and a function from a gradient to a direction.

#include <zero/core/dtype.hpp>
#include <zero/core/host_device.hpp>
#include <zero/core/product.hpp>
#include <zero/core/segment.hpp>
#include <zero/device/host_workers.hpp>
#include <zero/optim/decision.hpp>
#include <zero/optim/storage.hpp>

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace zero {

/// An element-wise optimizer, copied into kernels by value. All its functions are ZERO_HOST_DEVICE.
/// - O::num_states: numbers kept an element, all 0 at first.
/// - learning_rate(t): rate of update number t, from 1.
/// - constants(t): what the formula needs of t alone, computed once an update.
/// - direction(constants, weight, gradient, states, decay): moves the states of one element and
///   returns the direction; the weight becomes weight - learning rate x lr_scale x direction.
///   `decay` is the tensor's multiplier.
/// An element whose gradient and weight are 0 must keep them 0: padding relies on it. The bits are
/// the same on every machine where sums of products are written with product() (core/product.hpp).
template <class O>
concept Optimizer = std::is_trivially_copyable_v<O> &&
    requires(O const& o, Index t, float x, float* states) {
  { O::num_states } -> std::convertible_to<int>;
  { o.learning_rate(t) } -> std::same_as<float>;
  o.constants(t);
  { o.direction(o.constants(t), x, x, states, x) } -> std::same_as<float>;
};

/// An optimizer whose rate is scaled a tensor, by trust_ratio(|weights|, |directions|), L2 norms of
/// the whole tensor: its update is made in two passes, the first of which only measures. Both call
/// direction on the same states, so it must depend on its arguments alone. For others none of this
/// is compiled, planned or sent.
template <class O>
concept HasTrustRatio = Optimizer<O> && requires(O const& o, double norm) {
  { o.trust_ratio(norm, norm) } -> std::same_as<float>;
};

/// What of an optimizer depends on the update number alone, for decide().
template <Optimizer O>
struct LearningRateOf {
  O optimizer;  ///< asked for its rate
  /// Rate of update t, from 1.
  ZERO_HOST_DEVICE float operator()(Index t) const { return optimizer.learning_rate(t); }
  /// The formula's constants in update t, from 1.
  ZERO_HOST_DEVICE auto constants(Index t) const { return optimizer.constants(t); }
};

/// Sums of squares of all tensors' weights and directions, [ranks, tensors, 2]: row r is what the
/// r-th slices hold. A tensor's sum is added in the order of rows.
template <class D>
struct TensorNorms {
  View<double const, D> sums;  ///< [ranks, tensors, 2]
  Index ranks = 1;             ///< rows
  Index tensors = 0;           ///< that are trained
};
/// In place of TensorNorms, where an optimizer needs none.
struct NoNorms {};
/// What an update of O is given of the norms.
template <class O, class D>
using NormsOf = std::conditional_t<HasTrustRatio<O>, TensorNorms<D>, NoNorms>;

/// One update of one unit's owned slice of n elements.
/// @tparam G type of the gradients
/// @tparam P type of the parameters, or a Stored
/// @tparam D device
template <class O, class G, class P, class D>
struct Update {
  using Storage = StorageOf<P>;               ///< types of master, states and parameters
  O optimizer;                                ///< copied into the kernel
  View<G const, D> gradients;                 ///< [n], sums over ranks and micro-batches
  View<typename Storage::Master, D> weights;  ///< [n], the float weights, or their remainders
  View<typename Storage::State, D> states;    ///< [num_states, n]
  /// [n], the parameters where they are not the float weights; else empty
  View<typename Storage::Parameter, D> rounded;
  View<Segment const, D>
      segments;  ///< cover the n elements without padding between them that is not zero
  View<Decision const, D> decision;  ///< [1], made for this optimizer
  std::uint64_t seed = 0;            ///< of the noise that rounds 16-bit states
  NormsOf<O, D> norms{};             ///< of whole tensors, for trust ratios
};

/// The arithmetic of an update, element by element: what a kernel of any device calls.
template <class O, class G, class P>
struct ElementUpdate {
  using Storage = StorageOf<P>;  ///< types of master, states and parameters
  /// The optimizer's, of one update.
  using Constants = decltype(std::declval<O const&>().constants(Index{}));

  O optimizer;                           ///< as in Update
  Constants constants;                   ///< of the update
  G const* gradients;                    ///< [n]
  typename Storage::Master* weights;     ///< [n]
  typename Storage::State* states;       ///< [num_states, n]
  typename Storage::Parameter* rounded;  ///< null where the weights are the parameters
  Index elements;                        ///< n
  float factor;                          ///< of the decision
  StateNoise noise;                      ///< rounds 16-bit states
  Segment segment{};                     ///< in which the elements lie
  float rate = 0;                        ///< learning rate x lr_scale x trust ratio, of the segment

  /// The float weight of element i.
  ZERO_HOST_DEVICE float weight(Index i) const {
    if constexpr (Storage::splits) {
      return join(rounded[i], weights[i]);
    } else {
      return weights[i];
    }
  }
  /// The direction of an element.
  /// @param i the element
  /// @param state [num_states], the moved states
  ZERO_HOST_DEVICE float direction(Index i, float* state) const {
    for (int j = 0; j < O::num_states; ++j) state[j] = static_cast<float>(states[j * elements + i]);
    float const gradient = product(factor, static_cast<float>(gradients[i]));
    return optimizer.direction(constants, weight(i), gradient, state, segment.decay);
  }
  /// Updates element i.
  ZERO_HOST_DEVICE void operator()(Index i) const {
    float state[O::num_states > 0 ? O::num_states : 1];
    float const step = direction(i, state);
    float const w = weight(i) - product(rate, step);
    for (int j = 0; j < O::num_states; ++j) {
      if constexpr (std::is_same_v<typename Storage::State, float>) {
        states[j * elements + i] = state[j];
      } else {
        Index const element = segment.first + (i - segment.begin);
        states[j * elements + i] = round_by_chance(state[j], noise(segment.tensor, element, j));
      }
    }
    if constexpr (Storage::splits) {
      rounded[i] = UpperHalf(w).rounded();
      weights[i] = LowerHalf(w);
    } else {
      weights[i] = w;
      if (rounded != nullptr) rounded[i] = static_cast<typename Storage::Parameter>(w);
    }
  }
};

/// The rate of a segment: for an optimizer with trust ratios, scaled by its tensor's.
/// @param optimizer of the update
/// @param learning_rate of the decision
/// @param segment in which the elements lie
/// @param sums, ranks, tensors of TensorNorms; not read where O has none
template <class O>
ZERO_HOST_DEVICE float segment_rate(O const& optimizer, float learning_rate, Segment const& segment,
                                    double const* sums, Index ranks, Index tensors) {
  float const rate = learning_rate * segment.lr_scale;
  if constexpr (HasTrustRatio<O>) {
    double squares[2] = {0, 0};
    for (Index r = 0; r < ranks; ++r) {
      squares[0] += sums[2 * (r * tensors + segment.trained)];
      squares[1] += sums[2 * (r * tensors + segment.trained) + 1];
    }
    return rate * optimizer.trust_ratio(std::sqrt(squares[0]), std::sqrt(squares[1]));
  } else {
    return rate;
  }
}

/// @param who what asks for it
/// @param begin, end of a range of elements
/// @throws InvalidArgument unless both are multiples of 64 elements: kernels have no tails
inline void require_multiples(std::string_view who, Index begin, Index end) {
  if (begin % alignment_elements == 0 && end % alignment_elements == 0) return;
  throw InvalidArgument(std::string(who) + ": found elements " + std::to_string(begin) + " to " +
                        std::to_string(end) +
                        "; expected multiples of 64, as a layout's slices and segments have");
}

namespace detail {

/// Whether two of `count` addresses lie a multiple of 2^28 bytes apart, up to a kilobyte: then the
/// caches of some processors hold a line of one of them at a time (adam_kernel.hpp).
inline bool collide(std::uintptr_t const* addresses, int count) {
  for (int a = 0; a < count; ++a) {
    for (int b = 0; b < count; ++b) {
      if (a != b && (addresses[a] - addresses[b]) % (std::uintptr_t{1} << 28) < 1024) return true;
    }
  }
  return false;
}

/// Whether rows of an update do, walked in step: weights and states, which update_block copies, of
/// one another and of the gradients and parameters beside them.
template <class O, class G, class P>
bool rows_collide(ElementUpdate<O, G, P> const& u, Index begin) {
  std::uintptr_t rows[2 + O::num_states];
  int count = 0;
  auto const add = [&](auto const* row) {
    rows[count++] = reinterpret_cast<std::uintptr_t>(row + begin);
  };
  add(u.weights);
  for (int j = 0; j < O::num_states; ++j) add(u.states + j * u.elements);
  if (collide(rows, count)) return true;
  auto const beside = [&](auto const* row) {
    rows[count] = reinterpret_cast<std::uintptr_t>(row + begin);
    return collide(rows, count + 1);
  };
  return beside(u.gradients) || (u.rounded != nullptr && beside(u.rounded));
}

/// A block of 64 elements from `begin`, by way of copies of its weights and states: lines that
/// collide are fetched twice a block, not once an element.
template <class O, class G, class P>
void update_block(ElementUpdate<O, G, P> const& u, Index begin) {
  constexpr Index n = alignment_elements;
  ElementUpdate<O, G, P> block = u;
  using Storage = typename ElementUpdate<O, G, P>::Storage;
  typename Storage::Master weights[n];
  typename Storage::State states[(O::num_states > 0 ? O::num_states : 1) * n];
  block.gradients = u.gradients + begin;
  block.weights = weights;
  block.states = states;
  if (u.rounded != nullptr) block.rounded = u.rounded + begin;
  block.elements = n;
  block.segment.begin -= begin;  // the element of the tensor stays the same
  std::copy_n(u.weights + begin, n, weights);
  for (int j = 0; j < O::num_states; ++j)
    std::copy_n(u.states + j * u.elements + begin, n, states + j * n);
  for (Index i = 0; i < n; ++i) block(i);
  std::copy_n(weights, n, u.weights + begin);
  for (int j = 0; j < O::num_states; ++j)
    std::copy_n(states + j * n, n, u.states + j * u.elements + begin);
}

/// Elements [begin, end) of one segment, multiples of 64, one by one.
template <class O, class G, class P>
void update_elements(ElementUpdate<O, G, P> const& u, Index begin, Index end) {
  if (rows_collide(u, begin)) {
    for (Index i = begin; i < end; i += alignment_elements) update_block(u, i);
  } else {
    for (Index i = begin; i < end; ++i) u(i);
  }
}

}  // namespace detail

/// Updates elements [begin, end) of one segment of `u`, multiples of 64 elements. An optimizer may
/// bring its own beside its type, of the same bits.
/// @throws InvalidArgument where a border is no multiple of 64
template <class O, class G, class P>
void update_range(ElementUpdate<O, G, P> const& u, Index begin, Index end) {
  require_multiples("update_range", begin, end);
  detail::update_elements(u, begin, end);
}

namespace detail {

/// The arithmetic of an update whose addresses the host can dereference.
template <class O, class G, class P, class D>
ElementUpdate<O, G, P> resolve(Update<O, G, P, D> const& u, Decision const& decision) {
  bool const rounds = u.rounded.size() > 0;
  return {u.optimizer,
          u.optimizer.constants(decision.updates),
          D::resolve(u.gradients.address()),
          D::resolve(u.weights.address()),
          D::resolve(u.states.address()),
          rounds ? D::resolve(u.rounded.address()) : nullptr,
          u.weights.size(),
          decision.factor,
          {u.seed, decision.updates}};
}

}  // namespace detail

/// Applies an update in one pass: mean, clip, states, weights and rounding. Touches nothing when
/// the decision skips.
/// @throws InvalidArgument, where the stream runs it and before anything has changed, unless the
///   elements and every segment's borders are multiples of 64
template <class O, class G, class P, RunsHostCode D>
void update(typename D::Stream& stream, Update<O, G, P, D> u) {
  stream.enqueue([u, workers = workers_of(stream)] {
    Decision const decision = *D::resolve(u.decision.address());
    if (decision.skip != 0) return;
    ElementUpdate<O, G, P> const all = detail::resolve(u, decision);
    Segment const* const segments = D::resolve(u.segments.address());
    require_multiples("update", 0, u.weights.size());
    for (Index k = 0; k < u.segments.size(); ++k)
      require_multiples("update", segments[k].begin, segments[k].end);
    double const* sums = nullptr;
    Index ranks = 0;
    Index tensors = 0;  ///< that are trained
    if constexpr (HasTrustRatio<O>) {
      sums = D::resolve(u.norms.sums.address());
      ranks = u.norms.ranks;
      tensors = u.norms.tensors;
    }
    workers.run(u.weights.size(), [&](Index begin, Index end) {
      ElementUpdate<O, G, P> part = all;
      for (Index k = 0; k < u.segments.size(); ++k) {
        part.segment = segments[k];
        Index const from = std::max(begin, part.segment.begin);
        Index const to = std::min(end, part.segment.end);
        if (from >= to) continue;
        part.rate = segment_rate(part.optimizer, decision.learning_rate, part.segment, sums, ranks,
                                 tensors);
        update_range(part, from, to);
      }
    });
  });
}

/// Which slices measure_norms measures: `count` of them, of `elements` each, one after the other in
/// what an update covers; the sums of the k-th go to row `first` + k of [ranks, tensors, 2].
struct NormSlices {
  Index first = 0;     ///< row of the first slice
  Index count = 1;     ///< slices
  Index elements = 0;  ///< of one slice
  Index tensors = 0;   ///< that are trained
};

/// A device that can decide and apply the step of an optimizer: what decision.hpp, optimizer.hpp
/// and, for trust ratios, trust_ratio.hpp offer to devices that run host code.
template <class D, class O, class P, class G>
concept CanUpdate = Device<D> && Optimizer<O> &&
    requires(typename D::Stream& s, View<double, D> record, View<Decision, D> decision,
             View<Segment, D> segments, Decision* host, LearningRateOf<O> rate, View<G, D> mark) {
  start_record(s, record, std::uint64_t{});
  mark_not_finite(s, View<double const, D>(record), record);
  mark_not_finite(s, View<double const, D>(record), mark);
  mark_not_finite(s, View<G const, D>(mark), record);
  decide(s, View<double const, D>(record), decision, DecisionInputs{}, rate);
  update(s, std::declval<Update<O, G, P, D>>());
  update(s, std::declval<Update<O, float, P, D>>());
  copy_in(s, segments, std::declval<Segment const*>());
  copy_in(s, decision, host);
  copy_out(s, host, View<Decision const, D>(decision));
  requires !HasTrustRatio<O> || requires {
    measure_norms(s, std::declval<Update<O, G, P, D>>(), record, NormSlices{});
    measure_norms(s, std::declval<Update<O, float, P, D>>(), record, NormSlices{});
  };
};

}  // namespace zero
