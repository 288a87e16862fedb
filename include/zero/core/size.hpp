// SPDX-License-Identifier: Apache-2.0
#pragma once
// Counts and sizes. Everything that counts elements or bytes is an Index, so that differences and
// products of counts beyond 2^31 are ordinary numbers.

#include <zero/core/error.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

namespace zero {

/// A count of elements or bytes, an offset, or a number of something: 64 bits, signed.
using Index = std::int64_t;

/// Every tensor starts, and every slice ends, at a multiple of this many elements, so that kernels
/// have no tails and 16-byte accesses never straddle two tensors.
inline constexpr Index alignment_elements = 64;

/// Smallest multiple of `multiple` (> 0) that is not below `n` (>= 0).
constexpr Index round_up(Index n, Index multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

/// a * b for counts.
/// @param a,b not negative
/// @param what,whose named in the error: "shape", "t" as in "shape of tensor 't' does not fit ..."
/// @throws InvalidArgument when the product does not fit 64 bits, or when a factor is negative.
inline Index checked_product(Index a, Index b, std::string_view what, std::string_view whose = {}) {
  bool const negative = a < 0 || b < 0;
  if (!negative && (a == 0 || b <= std::numeric_limits<Index>::max() / a)) return a * b;
  std::string const name =
      std::string(what) + (whose.empty() ? "" : " of tensor '" + std::string(whose) + "'");
  throw InvalidArgument(name + (negative ? " has a negative factor: " : " does not fit 64 bits: ") +
                        std::to_string(a) + " x " + std::to_string(b));
}

/// @throws InvalidArgument unless `full` has the elements of one slice a rank
inline void check_sizes(std::string_view operation, Index full, Index slice, int ranks) {
  if (full == slice * ranks) return;
  throw InvalidArgument(std::string(operation) + ": the full argument has " + std::to_string(full) +
                        " elements; expected " + std::to_string(ranks) + " slices of " +
                        std::to_string(slice));
}

/// The index of a container, from a count that is known not to be negative.
constexpr std::size_t at(Index i) { return static_cast<std::size_t>(i); }

}  // namespace zero
