// SPDX-License-Identifier: Apache-2.0
#pragma once
// An optimizer that is chosen at run time, where a trainer of each would take long to compile.

#include <zero/optim/optimizer_hash.hpp>

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace zero {

namespace detail {

/// One value of each type: trivially copyable where all are, and walked on any device.
template <class... T>
struct Each;
template <class T>
struct Each<T> {
  T head{};
};
template <class T, class U, class... V>
struct Each<T, U, V...> {
  T head{};
  Each<U, V...> tail{};
};

template <class E>
constexpr bool has_tail = requires(E const& e) {
  e.tail;
};

/// Calls f with the k-th value.
ZERO_CALLS_CALLERS_FUNCTOR
template <class E, class F>
ZERO_HOST_DEVICE decltype(auto) with_value(int k, E& each, F const& f) {
  if constexpr (has_tail<E>) {
    if (k > 0) return with_value(k - 1, each.tail, f);
  }
  return f(each.head);
}
/// Calls f with the k-th value of each.
ZERO_CALLS_CALLERS_FUNCTOR
template <class E, class G, class F>
ZERO_HOST_DEVICE decltype(auto) with_values(int k, E& each, G& other, F const& f) {
  if constexpr (has_tail<E>) {
    if (k > 0) return with_values(k - 1, each.tail, other.tail, f);
  }
  return f(each.head, other.head);
}

template <class O>
using ConstantsOf = decltype(std::declval<O const&>().constants(Index{}));

template <class T, class First, class... Rest>
constexpr int place_of() {
  if constexpr (std::same_as<T, First>) {
    return 0;
  } else {
    return 1 + place_of<T, Rest...>();
  }
}

}  // namespace detail

/// One of several optimizers that keep as many numbers an element, by what it was made from: the
/// same bits and the same hash as that one, one trainer for all of them. Updates of the host run
/// the chosen one's own update_range; a kernel asks at each element.
/// @tparam O Optimizers of one num_states, none with a trust ratio, which makes updates of another
///   shape
template <Optimizer... O>
requires(sizeof...(O) > 0 && (!HasTrustRatio<O> && ...)) class OneOf {
 public:
  static constexpr int num_states = std::max({int{O::num_states}...});  ///< of each of them
  static_assert(((O::num_states == num_states) && ...),
                "OneOf: the optimizers must keep the same number of states an element");
  using Constants = detail::Each<detail::ConstantsOf<O>...>;  ///< of one update

  /// It is `chosen` from now on.
  template <class Chosen>
  requires(std::same_as<Chosen, O> || ...) explicit(false) OneOf(Chosen const& chosen)
      : chosen_(detail::place_of<Chosen, O...>()) {
    detail::with_value(chosen_, all_, [&](auto& place) {
      if constexpr (std::same_as<std::remove_reference_t<decltype(place)>, Chosen>) place = chosen;
    });
  }

  int index() const { return chosen_; }  ///< of the chosen one's type in O
  /// Calls f with the chosen one.
  ZERO_CALLS_CALLERS_FUNCTOR
  template <class F>
  ZERO_HOST_DEVICE decltype(auto) visit(F const& f) const {
    return detail::with_value(chosen_, all_, f);
  }
  /// Calls f with the chosen one and its constants.
  ZERO_CALLS_CALLERS_FUNCTOR
  template <class F>
  ZERO_HOST_DEVICE decltype(auto) visit(Constants const& constants, F const& f) const {
    return detail::with_values(chosen_, all_, constants, f);
  }

  /// @throws InvalidArgument as the chosen one's validate(), where it has one
  void validate() const {
    visit([](auto const& o) {
      if constexpr (requires { o.validate(); }) o.validate();
    });
  }
  /// Of update t, from 1.
  ZERO_HOST_DEVICE float learning_rate(Index t) const {
    return visit([t](auto const& o) { return o.learning_rate(t); });
  }
  /// What update t, from 1, needs of its number alone; only the chosen one's are made.
  ZERO_HOST_DEVICE Constants constants(Index t) const {
    Constants made{};
    detail::with_values(chosen_, all_, made, [t](auto const& o, auto& c) { c = o.constants(t); });
    return made;
  }
  /// The direction of one element in the update of these constants, before the learning rate, from
  /// its `weight` and `gradient`; moves its `states`, [num_states]. `decay` is the tensor's
  /// multiplier.
  ZERO_HOST_DEVICE float direction(Constants const& constants, float weight, float gradient,
                                   float* states, float decay) const {
    return visit(constants, [&](auto const& o, auto const& c) {
      return o.direction(c, weight, gradient, states, decay);
    });
  }

 private:
  int chosen_ = 0;
  detail::Each<O...> all_{};
};

/// That of the one which `optimizer` was made from.
template <class... O>
std::uint64_t hash(OneOf<O...> const& optimizer) {
  return optimizer.visit([](auto const& chosen) { return hash(chosen); });
}

/// Elements [begin, end) of `u` by the chosen one's own, with its vectors where it has some.
template <class G, class P, class... O>
void update_range(ElementUpdate<OneOf<O...>, G, P> const& u, Index begin, Index end) {
  u.optimizer.visit(u.constants, [&]<class Chosen>(Chosen const& chosen, auto const& constants) {
    ElementUpdate<Chosen, G, P> const part{chosen,   constants, u.gradients, u.weights,
                                           u.states, u.rounded, u.elements,  u.factor,
                                           u.noise,  u.segment, u.rate};
    update_range(part, begin, end);
  });
}

}  // namespace zero
