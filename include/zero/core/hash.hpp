// SPDX-License-Identifier: Apache-2.0
#pragma once
// A 64-bit hash of a sequence of words and texts, equal on every rank and platform. For comparing
// what ranks were built from, not for secrets.

#include <zero/core/noise.hpp>

#include <cstdint>
#include <string_view>

namespace zero {

/// Hash of what was added so far, in order.
class Hash {
 public:
  /// Appends a word.
  constexpr Hash& add(std::uint64_t word) {
    state_ = mix(state_, word);
    return *this;
  }
  /// Appends a count.
  constexpr Hash& add(Index number) { return add(static_cast<std::uint64_t>(number)); }
  /// Appends a text and its length.
  constexpr Hash& add(std::string_view text) {
    add(static_cast<std::uint64_t>(text.size()));
    for (char c : text) add(static_cast<std::uint64_t>(static_cast<unsigned char>(c)));
    return *this;
  }
  constexpr std::uint64_t value() const { return state_; }  ///< of all that was added

 private:
  std::uint64_t state_ = 0x7a65726f;  // "zero"
};

}  // namespace zero
