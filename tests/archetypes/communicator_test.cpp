// SPDX-License-Identifier: Apache-2.0
#include <archetypes/communicator.hpp>
#include <doctest/doctest.h>

#include <type_traits>

namespace {

using archetype::BareDevice;
using archetype::Ordered;
using archetype::View;
using archetype::Where;
using zero::bf16;

/// A thing by which a candidate misses the concept.
enum class Miss { nothing, copy, assign, rank, size, device, channel, abort_throws, no_device };

struct NoDevice {};

/// A communicator that has everything but one thing.
template <Miss miss>
struct Candidate {
  using Device = std::conditional_t<miss == Miss::no_device, NoDevice, BareDevice>;
  Candidate(Candidate const&) requires(miss != Miss::copy);
  Candidate& operator=(Candidate const&) requires(miss != Miss::assign);
  std::conditional_t<miss == Miss::rank, long, int> rank() const;
  int size() const requires(miss != Miss::size);
  std::conditional_t<miss == Miss::device, Device const&, Device&> device() const;
  std::conditional_t<miss == Miss::channel, Candidate&, Candidate> channel(int) const;
  void abort(std::string_view) const noexcept(miss != Miss::abort_throws);
};

/// A collective spelled not quite as its concept does.
struct TakesViews {
  void all_reduce(View<float, BareDevice>, Where);
  void reduce_scatter(View<float const, BareDevice>, View<float, BareDevice>, Where);
  void all_gather(View<float const, BareDevice>, View<float, BareDevice>, Where);
};
struct ReturnsStatus {
  int all_reduce(Ordered<float, BareDevice>, Where);
  int reduce_scatter(Ordered<float const, BareDevice>, Ordered<float, BareDevice>, Where);
  int all_gather(Ordered<float const, BareDevice>, Ordered<float, BareDevice>, Where);
};
struct TakesNoPlace {
  void all_reduce(Ordered<float, BareDevice>);
  void reduce_scatter(Ordered<float const, BareDevice>, Ordered<float, BareDevice>);
  void all_gather(Ordered<float const, BareDevice>, Ordered<float, BareDevice>);
};
struct WritesItsInput {
  void reduce_scatter(Ordered<float, BareDevice>, Ordered<float, BareDevice>, Where);
  void all_gather(Ordered<float, BareDevice>, Ordered<float, BareDevice>, Where);
};
struct StartsGroupsOnly {
  void group_start();
};

template <class... Operations>
using On = archetype::Communicator<BareDevice, Operations...>;

template <class C>
constexpr bool has_none = !zero::CanAllReduce<C, float> && !zero::CanReduceScatter<C, float> &&
                          !zero::CanAllGather<C, float>;

}  // namespace

TEST_CASE("a communicator that has everything but one thing is no communicator") {
  CHECK(zero::Communicator<Candidate<Miss::nothing>>);
  CHECK(!zero::Communicator<Candidate<Miss::copy>>);
  CHECK(!zero::Communicator<Candidate<Miss::assign>>);
  CHECK(!zero::Communicator<Candidate<Miss::rank>>);
  CHECK(!zero::Communicator<Candidate<Miss::size>>);
  CHECK(!zero::Communicator<Candidate<Miss::device>>);
  CHECK(!zero::Communicator<Candidate<Miss::channel>>);
  CHECK(!zero::Communicator<Candidate<Miss::abort_throws>>);
  CHECK(!zero::Communicator<Candidate<Miss::no_device>>);
  CHECK(!zero::Communicator<int>);
}

TEST_CASE("ranks that can do nothing together are a communicator without collectives") {
  CHECK(zero::Communicator<On<>>);
  CHECK(has_none<On<>>);
  CHECK(!zero::CanGroup<On<>>);
}

TEST_CASE("a collective is one concept, of one type") {
  using Reduces = On<archetype::AllReduces<BareDevice, float>>;
  using Scatters = On<archetype::ReduceScatters<BareDevice, bf16>>;
  using Gathers = On<archetype::AllGathers<BareDevice, bf16, double>>;
  auto const reduces = zero::CanAllReduce<Reduces, float>;
  auto const reduces_other = zero::CanAllReduce<Reduces, bf16>;
  auto const reduces_scatters = zero::CanReduceScatter<Reduces, float>;
  auto const reduces_gathers = zero::CanAllGather<Reduces, float>;
  CHECK(reduces);
  CHECK(!reduces_other);
  CHECK(!reduces_scatters);
  CHECK(!reduces_gathers);
  auto const scatters = zero::CanReduceScatter<Scatters, bf16>;
  auto const scatters_other = zero::CanReduceScatter<Scatters, float>;
  auto const scatters_reduces = zero::CanAllReduce<Scatters, bf16>;
  CHECK(scatters);
  CHECK(!scatters_other);
  CHECK(!scatters_reduces);
  auto const gathers = zero::CanAllGather<Gathers, bf16> && zero::CanAllGather<Gathers, double>;
  auto const gathers_other = zero::CanAllGather<Gathers, float>;
  auto const gathers_scatters = zero::CanReduceScatter<Gathers, bf16>;
  CHECK(gathers);
  CHECK(!gathers_other);
  CHECK(!gathers_scatters);
}

TEST_CASE("a collective that is spelled otherwise is not the collective") {
  CHECK(has_none<On<TakesViews>>);
  CHECK(has_none<On<ReturnsStatus>>);
  CHECK(has_none<On<TakesNoPlace>>);
}

TEST_CASE("a collective that asks to write its input is offered no view to write through") {
  CHECK(has_none<On<WritesItsInput>>);
}

TEST_CASE("a communicator groups when it can start and end groups") {
  CHECK(zero::CanGroup<On<archetype::Groups>>);
  CHECK(!zero::CanGroup<On<StartsGroupsOnly>>);
}

TEST_CASE("a poisoned collective is offered as far as its concept can see") {
  auto const reduces = zero::CanAllReduce<On<archetype::PoisonedAllReduce<BareDevice>>, float>;
  auto const scatters =
      zero::CanReduceScatter<On<archetype::PoisonedReduceScatter<BareDevice>>, float>;
  auto const gathers = zero::CanAllGather<On<archetype::PoisonedAllGather<BareDevice>>, float>;
  CHECK(reduces);
  CHECK(scatters);
  CHECK(gathers);
}

TEST_CASE("only a claim makes what a collective takes") {
  using Target = Ordered<float, BareDevice>;
  auto const from_view = std::is_constructible_v<Target, View<float, BareDevice>>;
  auto const from_parts =
      std::is_constructible_v<Target, View<float, BareDevice>, BareDevice::Stream&>;
  CHECK(!from_view);
  CHECK(!from_parts);
  CHECK(!std::is_default_constructible_v<Target>);
}
