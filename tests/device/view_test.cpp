// SPDX-License-Identifier: Apache-2.0
// What views, claims and ordered views let nobody do is held by the compiler.

#include <zero/device/host.hpp>
#include <zero/device/slot.hpp>

#include <doctest/doctest.h>
#include <support/guarded_device.hpp>
#include <support/late_device.hpp>

#include <concepts>
#include <span>
#include <type_traits>

namespace {

using zero::Host;
using zero::View;
using zero_test::GuardedDevice;
using zero_test::LateDevice;

// Only where the host may read the memory does a view become something to dereference.
static_assert(std::convertible_to<View<float, Host>, std::span<float>>);
static_assert(std::convertible_to<View<float const, Host>, std::span<float const>>);
static_assert(!std::convertible_to<View<float, LateDevice>, std::span<float>>);
static_assert(!std::convertible_to<View<float const, GuardedDevice>, std::span<float const>>);
static_assert(!std::convertible_to<View<float const, Host>, std::span<float>>);

// What may be written may be read, not the other way round; nor as another type or on another
// device.
static_assert(std::convertible_to<View<float, LateDevice>, View<float const, LateDevice>>);
static_assert(!std::convertible_to<View<float const, LateDevice>, View<float, LateDevice>>);
static_assert(!std::convertible_to<View<float, LateDevice>, View<double const, LateDevice>>);
static_assert(!std::convertible_to<View<float, LateDevice>, View<float const, Host>>);

// Two words, copied like two words.
static_assert(std::is_trivially_copyable_v<View<float, Host>>);
static_assert(sizeof(View<float, Host>) == 2 * sizeof(void*));

// A claim has one owner, and nobody makes an ordered view but a claim.
static_assert(std::movable<zero::Claim<float, Host>>);
static_assert(!std::copyable<zero::Claim<float, Host>>);
static_assert(std::is_nothrow_move_constructible_v<zero::Claim<float, LateDevice>>);
static_assert(std::is_nothrow_destructible_v<zero::Claim<float, LateDevice>>);
static_assert(noexcept(std::declval<zero::Claim<float, LateDevice>&>().end()));
static_assert(
    !std::constructible_from<zero::Ordered<float, Host>, View<float, Host>, Host::Stream&>);
static_assert(!std::default_initializable<zero::Ordered<float, Host>>);

TEST_CASE("a view of nothing has no elements and no address") {
  View<float, LateDevice> const none;
  CHECK(none.size() == 0);
  CHECK(none.address() == nullptr);
  CHECK(none.sub(0, 0).address() == nullptr);
}

TEST_CASE("a part of a view counts in elements") {
  double numbers[10] = {};
  View<double, Host> const all(numbers, 10);
  CHECK(all.sub(3, 4).address() == numbers + 3);
  CHECK(all.sub(3, 4).size() == 4);
  CHECK(all.sub(3, 4).sub(1, 2).address() == numbers + 4);
  CHECK(all.sub(10, 0).size() == 0);
}

}  // namespace
