// SPDX-License-Identifier: Apache-2.0
#pragma once
// Initial values as part of a tensor's description: a function of the element, so that a rank
// writes the values it owns, and nothing full is ever held.

#include <zero/core/hash.hpp>
#include <zero/core/noise.hpp>
#include <zero/core/product.hpp>
#include <zero/device/host_elementwise.hpp>

#include <bit>
#include <functional>
#include <utility>

namespace zero {

/// What a tensor's elements are at first. Random kinds are keyed by (seed, tensor, element): the
/// same values at every stage, world and rank.
class Initial {
 public:
  /// The same everywhere.
  static Initial constant(double value) { return {Kind::constant, value, 0}; }
  /// Independent normal values, keyed by seed, tensor and element.
  static Initial normal(double standard_deviation, double mean = 0) {
    return {Kind::normal, mean, standard_deviation};
  }
  /// In [low, high).
  static Initial uniform(double low, double high) { return {Kind::uniform, low, high}; }
  /// value(element) with the element's number in the tensor, row-major, from 0; must be the same on
  /// every rank.
  static Initial function(std::function<float(Index)> value) {
    Initial result{Kind::function, 0, 0};
    result.function_ = std::move(value);
    return result;
  }

  /// Zeros.
  Initial() = default;

  /// The value of one element.
  /// @param seed Options::seed
  /// @param tensor,element numbers in the model and, row-major, in the tensor
  float value(std::uint64_t seed, Index tensor, Index element) const {
    switch (kind_) {
      case Kind::constant:
        return static_cast<float>(a_);
      case Kind::normal:
        return static_cast<float>(a_ + product(b_, noise_normal(seed, tensor, element)));
      case Kind::uniform:
        return static_cast<float>(a_ + product(b_ - a_, noise_uniform(seed, tensor, element)));
      case Kind::function:
        return function_(element);
    }
    return 0;
  }

  /// Equal where the values are, but for functions, which all have one hash.
  std::uint64_t hash() const {
    return Hash()
        .add(static_cast<Index>(kind_))
        .add(std::bit_cast<std::uint64_t>(a_))
        .add(std::bit_cast<std::uint64_t>(b_))
        .value();
  }

 private:
  enum class Kind { constant, normal, uniform, function };
  Initial(Kind kind, double a, double b) : kind_(kind), a_(a), b_(b) {}

  Kind kind_ = Kind::constant;
  double a_ = 0;
  double b_ = 0;
  std::function<float(Index)> function_;
};

/// to[i] = initial value of element first + i of the tensor. `initial` outlives the work.
template <class T, RunsHostCode D>
void initialise(typename D::Stream& stream, View<T, D> to, Initial const& initial,
                std::uint64_t seed, Index tensor, Index first) {
  stream.enqueue([to, &initial, seed, tensor, first] {
    T* const x = D::resolve(to.address());
    for (Index i = 0; i < to.size(); ++i)
      x[i] = static_cast<T>(initial.value(seed, tensor, first + i));
  });
}

/// A device that can write initial values of type T.
template <class D, class T>
concept CanInitialise = Device<D> &&
    requires(typename D::Stream& s, View<T, D> to, Initial const& i, std::uint64_t seed) {
  initialise(s, to, i, seed, Index{}, Index{});
};

static_assert(CanInitialise<Host, float> && CanInitialise<Host, bf16>);

}  // namespace zero
