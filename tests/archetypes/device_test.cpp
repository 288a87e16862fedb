// SPDX-License-Identifier: Apache-2.0
#include <zero/comm/single_rank.hpp>

#include <archetypes/device.hpp>
#include <doctest/doctest.h>

#include <type_traits>
#include <utility>

namespace {

using archetype::Index;
using archetype::OneOf;

/// A thing by which a candidate misses the concepts of device/.
enum class Miss {
  nothing,
  host_memory,
  event_moves,
  event_default,
  record_throws,
  wait_const,
  check,
  synchronize,
  stream_event,
  buffer_moves,
  buffer_default,
  buffer_address,
  allocate,
  stream,
  event,
  ledger,
  enqueue,
  resolve
};

struct NoType {};

template <Miss miss>
struct HostMemory {
  static constexpr bool host_memory = false;
};
template <>
struct HostMemory<Miss::host_memory> {};

/// A device that runs host code, and has everything but one thing.
template <Miss miss>
struct Candidate : HostMemory<miss> {
  struct Event {
    Event() requires(miss != Miss::event_default);
    Event(Event&&) requires(miss != Miss::event_moves);
    Event& operator=(Event&&);
  };
  struct Stream {
    using Event = std::conditional_t<miss == Miss::stream_event, NoType, typename Candidate::Event>;
    void record(Event&) noexcept(miss != Miss::record_throws);
    void wait(std::conditional_t<miss == Miss::wait_const, Event&, Event const&>);
    void synchronize() requires(miss != Miss::synchronize);
    void check() requires(miss != Miss::check);
    template <class F>
    requires(miss != Miss::enqueue) void enqueue(F&&);
  };
  struct Buffer {
    Buffer() requires(miss != Miss::buffer_default);
    Buffer(Buffer&&) requires(miss != Miss::buffer_moves);
    Buffer& operator=(Buffer&&);
    std::conditional_t<miss == Miss::buffer_address, void*, std::byte*> address();
  };
  std::conditional_t<miss == Miss::allocate, Buffer*, Buffer> allocate(Index, std::string_view);
  std::conditional_t<miss == Miss::stream, Stream&, Stream> stream();
  Event event() requires(miss != Miss::event);
  std::conditional_t<miss == Miss::ledger, zero::Ledger const&, zero::Ledger&> ledger();
  template <class T>
  static std::conditional_t<miss == Miss::resolve, void*, T*> resolve(T*);
};

}  // namespace

TEST_CASE("the archetype devices are devices, and their memory is out of the host's reach") {
  using Single = archetype::Device<float, float>;
  using Half = archetype::Device<zero::bf16, zero::bf16>;
  CHECK(zero::Device<archetype::BareDevice>);
  CHECK(zero::Device<Single>);
  CHECK(zero::Device<Half>);
  CHECK(!zero::RunsHostCode<Single>);
  CHECK(!std::convertible_to<zero::View<float, Single>, std::span<float>>);
  CHECK(!std::is_copy_constructible_v<Single::Buffer>);
  CHECK(!std::is_default_constructible_v<Single::Stream>);
}

TEST_CASE("element-wise work is asked for one precision and found for that one alone") {
  using Single = archetype::Device<float, float>;
  using Half = archetype::Device<zero::bf16, zero::bf16>;
  using zero::HasElementwise, zero::bf16;
  auto const single = HasElementwise<Single, float, float>;
  auto const half = HasElementwise<Half, bf16, bf16>;
  auto const single_as_half = HasElementwise<Single, bf16, bf16>;
  auto const half_as_single = HasElementwise<Half, bf16, float>;
  auto const bare = HasElementwise<archetype::BareDevice, float, float>;
  CHECK(single);
  CHECK(half);
  CHECK(!single_as_half);
  CHECK(!half_as_single);
  CHECK(!bare);
  auto const initialises = zero::CanInitialise<Half, bf16> && zero::CanInitialise<Half, float>;
  auto const initialises_other = zero::CanInitialise<Half, double>;
  CHECK(initialises);
  CHECK(!initialises_other);
}

TEST_CASE(
    "a device need not copy within its memory, and where it does not, one rank has no gather") {
  using Half = archetype::Device<zero::bf16, zero::bf16>;
  using zero::CanAllGather, zero::CanAllReduce, zero::CanCopy, zero::CanReduceScatter, zero::Host;
  CHECK(zero::HasElementwise<Half, zero::bf16, zero::bf16>);
  CHECK(!CanCopy<Half, zero::bf16>);
  CHECK(CanCopy<Host, zero::bf16>);
  CHECK(!CanAllGather<zero::SingleRank<archetype::BareDevice>, float>);
  CHECK(!CanReduceScatter<zero::SingleRank<archetype::BareDevice>, float>);
  CHECK(CanAllReduce<zero::SingleRank<archetype::BareDevice>, float>);
  CHECK(CanAllGather<zero::SingleRank<Host>, float>);
  CHECK(CanReduceScatter<zero::SingleRank<Host>, float>);
}

TEST_CASE("a device that has everything but one thing is no device") {
  CHECK(zero::RunsHostCode<Candidate<Miss::nothing>>);
  CHECK(!zero::Device<Candidate<Miss::host_memory>>);
  CHECK(!zero::Device<Candidate<Miss::event_moves>>);
  CHECK(!zero::Device<Candidate<Miss::event_default>>);
  CHECK(!zero::Device<Candidate<Miss::record_throws>>);
  CHECK(!zero::Device<Candidate<Miss::wait_const>>);
  CHECK(!zero::Device<Candidate<Miss::check>>);
  CHECK(!zero::Device<Candidate<Miss::synchronize>>);
  CHECK(!zero::Device<Candidate<Miss::stream_event>>);
  CHECK(!zero::Device<Candidate<Miss::buffer_moves>>);
  CHECK(!zero::Device<Candidate<Miss::buffer_default>>);
  CHECK(!zero::Device<Candidate<Miss::buffer_address>>);
  CHECK(!zero::Device<Candidate<Miss::allocate>>);
  CHECK(!zero::Device<Candidate<Miss::stream>>);
  CHECK(!zero::Device<Candidate<Miss::event>>);
  CHECK(!zero::Device<Candidate<Miss::ledger>>);
  CHECK(!zero::Device<int>);
}

TEST_CASE("a device whose streams cannot be given host code is a device all the same") {
  CHECK(zero::Device<Candidate<Miss::enqueue>>);
  CHECK(!zero::RunsHostCode<Candidate<Miss::enqueue>>);
  CHECK(zero::Device<Candidate<Miss::resolve>>);
  CHECK(!zero::RunsHostCode<Candidate<Miss::resolve>>);
}
