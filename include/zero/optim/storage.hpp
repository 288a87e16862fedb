// SPDX-License-Identifier: Apache-2.0
#pragma once
// How what an update touches lies in memory: the type of the parameters, of the optimizer's
// numbers, and whether a master weight is a float or the remainder of its parameter. Arithmetic is
// float whatever is stored.

#include <zero/core/halves.hpp>
#include <zero/core/stochastic.hpp>

#include <type_traits>

namespace zero {

/// @tparam P type of the parameters
/// @tparam S type in which the optimizer's numbers are kept, float or bf16
/// @tparam Splits the float weight is join(parameter, remainder); else it is kept whole
template <class P, class S = float, bool Splits = false>
struct Stored {
  using Parameter = P;                                          ///< on device and wire
  using State = S;                                              ///< of the optimizer's numbers
  using Master = std::conditional_t<Splits, LowerHalf, float>;  ///< kept beside a parameter
  static constexpr bool splits = Splits;  ///< a parameter is half of its weight
};

namespace detail {
template <class P>
struct StorageOf {
  using type = Stored<P>;
};
template <class P, class S, bool Splits>
struct StorageOf<Stored<P, S, Splits>> {
  using type = Stored<P, S, Splits>;
};
}  // namespace detail

/// The storage that the third argument of Update names: a Stored, or the type of the parameters
/// alone, beside float numbers and whole weights.
template <class P>
using StorageOf = typename detail::StorageOf<P>::type;

/// The shortest name of a storage: the type of the parameters where that says all.
template <class P, class S, bool Splits>
using StoredAs = std::conditional_t<std::is_same_v<S, float> && !Splits, P, Stored<P, S, Splits>>;

}  // namespace zero
