// SPDX-License-Identifier: Apache-2.0
#pragma once
// Names for a profiler: which phase the host enqueues, and of which unit. A device that has a
// profiler brings them; for others nothing is compiled.

#include <zero/device/device.hpp>

#include <string_view>
#include <type_traits>
#include <vector>

namespace zero {

/// A device that names what is enqueued. D::Range(phase, unit) is open until it ends or another is
/// moved over it, and D::Range() is none; ranges may overlap, and end in any order. `phase` is
/// gather, forward, backward, flatten, reduce, clip, update or publish; `unit` a unit's name, empty
/// for what is of all units. Neither is kept.
template <class D>
concept NamesRanges =
    Device<D> && std::movable<typename D::Range> && std::default_initializable<typename D::Range> &&
    std::constructible_from<typename D::Range, std::string_view, std::string_view>;

namespace detail {

/// What devices without names open.
struct NoRange {
  constexpr NoRange() = default;
  constexpr NoRange(std::string_view, std::string_view) {}
};
template <class D>
struct RangeChoice {
  using Type = NoRange;
};
template <NamesRanges D>
struct RangeChoice<D> {
  using Type = typename D::Range;
};

}  // namespace detail

/// D's Range, or an empty type of the same form.
template <Device D>
using RangeOf = typename detail::RangeChoice<D>::Type;

/// Ranges that end together, such as those of a group of collectives, which is launched as one.
/// @tparam D the device
template <Device D>
class OpenRanges {
 public:
  /// Opens one more.
  void begin([[maybe_unused]] std::string_view phase, [[maybe_unused]] std::string_view unit) {
    if constexpr (NamesRanges<D>) all_.emplace_back(phase, unit);
  }
  /// Ends all; keeps its memory, so that a step allocates nothing.
  void end() noexcept {
    if constexpr (NamesRanges<D>) all_.clear();
  }

 private:
  [[no_unique_address]] std::conditional_t<NamesRanges<D>, std::vector<RangeOf<D>>, detail::NoRange>
      all_{};
};

}  // namespace zero
