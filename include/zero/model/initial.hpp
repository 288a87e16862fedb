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
  /// How values come about.
  enum class Kind {
    constant,  ///< one value
    normal,    ///< of a mean and a standard deviation
    uniform,   ///< between two ends
    function   ///< what a function of the element's number returns
  };
  /// A kind that is not a function, as a value that kernels can take.
  struct Formula {
    Kind kind = Kind::constant;  ///< any but function
    double a = 0;                ///< the constant, the mean or the lower end
    double b = 0;                ///< the standard deviation or the upper end

    /// Of one element.
    ZERO_HOST_DEVICE float value(std::uint64_t seed, Index tensor, Index element) const {
      switch (kind) {
        case Kind::normal:
          return static_cast<float>(a + product(b, noise_normal(seed, tensor, element)));
        case Kind::uniform:
          return static_cast<float>(a + product(b - a, noise_uniform(seed, tensor, element)));
        default:
          return static_cast<float>(a);
      }
    }
  };

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
    return function_ ? function_(element) : formula_.value(seed, tensor, element);
  }
  /// What it is where it is no function.
  Formula const& formula() const { return formula_; }

  /// Equal where the values are, but for functions, which all have one hash.
  std::uint64_t hash() const {
    return Hash()
        .add(static_cast<Index>(formula_.kind))
        .add(std::bit_cast<std::uint64_t>(formula_.a))
        .add(std::bit_cast<std::uint64_t>(formula_.b))
        .value();
  }

 private:
  Initial(Kind kind, double a, double b) : formula_{kind, a, b} {}

  Formula formula_{};
  std::function<float(Index)> function_;
};

/// to[i] = initial value of element first + i of the tensor. `initial` outlives the work.
template <class T, RunsHostCode D>
void initialise(typename D::Stream& stream, View<T, D> to, Initial const& initial,
                std::uint64_t seed, Index tensor, Index first) {
  stream.enqueue([to, &initial, seed, tensor, first, workers = workers_of(stream)] {
    T* const x = D::resolve(to.address());
    auto const write = [&](Index begin, Index end) {
      for (Index i = begin; i < end; ++i)
        x[i] = static_cast<T>(initial.value(seed, tensor, first + i));
    };
    // A user's function is called by one thread at a time.
    bool const shares = initial.formula().kind != Initial::Kind::function;
    (shares ? workers : WorkersOf()).run(to.size(), write);
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
