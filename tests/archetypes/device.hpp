// SPDX-License-Identifier: Apache-2.0
#pragma once
// Devices with nothing but what the concepts ask. Nothing is defined: these types are compiled
// against, never run. What the library needs of a device beyond its concepts does not compile here.

#include <zero/device/elementwise.hpp>
#include <zero/model/initial.hpp>
#include <zero/optim/optimizer.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace archetype {

using zero::Index;
using zero::View;

/// The parts of a device: owners that move, are made by the device, and do what is asked of them.
template <class Self>
class DeviceParts {
 public:
  static constexpr bool host_memory = false;

  class Event {
   public:
    Event();
    Event(Event&&) noexcept;
    Event& operator=(Event&&) noexcept;
    ~Event();
  };
  class Stream {
   public:
    using Event = DeviceParts::Event;
    Stream() = delete;
    Stream(Stream&&) noexcept;
    Stream& operator=(Stream&&) noexcept;
    ~Stream();
    void record(Event&) noexcept;
    void wait(Event const&);
    void synchronize();
    void check();
  };
  class Buffer {
   public:
    Buffer();
    Buffer(Buffer&&) noexcept;
    Buffer& operator=(Buffer&&) noexcept;
    ~Buffer();
    std::byte* address();
  };

  DeviceParts() = delete;
  DeviceParts(DeviceParts const&) = delete;
  DeviceParts& operator=(DeviceParts const&) = delete;

  Buffer allocate(Index bytes, std::string_view kind);
  Stream stream();
  Event event();
  zero::Ledger& ledger();
};

/// A device that can compute nothing.
class BareDevice : public DeviceParts<BareDevice> {};

/// A device with the element-wise work for one precision, its memory out of the host's reach.
/// @tparam P type of parameters; @tparam G type of gradients
template <class P, class G>
class Device : public DeviceParts<Device<P, G>> {};

template <class T, class... U>
concept OneOf = (std::same_as<T, U> || ...);

template <class P, class G, class T>
requires OneOf<T, P, G, float, double>
void fill_zero(typename Device<P, G>::Stream&, View<T, Device<P, G>> to);

template <class P, class G, class A, class B>
requires(std::same_as<A, float>&& std::same_as<B, G>) ||
    (OneOf<A, P, G> && std::same_as<B, float>)void assign(typename Device<P, G>::Stream&,
                                                          View<A, Device<P, G>> to,
                                                          View<B const, Device<P, G>> from);

template <class P, class G, class A>
requires OneOf<A, float, G>
void add(typename Device<P, G>::Stream&, View<A, Device<P, G>> to,
         View<G const, Device<P, G>> from);

template <class P, class G, class T>
void copy_in(typename Device<P, G>::Stream&, View<T, Device<P, G>> to, T const* host);

template <class P, class G, class T>
void copy_out(typename Device<P, G>::Stream&, T* host, View<T const, Device<P, G>> from);

template <class P, class G, class T>
requires OneOf<T, G, float>
void add_squares(typename Device<P, G>::Stream&, View<T const, Device<P, G>> from,
                 View<double, Device<P, G>> record, Index unit);

template <class P, class G, class T>
requires OneOf<T, P, float>
void initialise(typename Device<P, G>::Stream&, View<T, Device<P, G>> to, zero::Initial const&,
                std::uint64_t seed, Index tensor, Index first);

template <class P, class G>
void start_record(typename Device<P, G>::Stream&, View<double, Device<P, G>> record,
                  std::uint64_t hash);

template <class P, class G, class From, class To>
requires(std::same_as<From, double>&& OneOf<To, double, G>) ||
    (std::same_as<From, G> &&
     std::same_as<To, double>)void mark_not_finite(typename Device<P, G>::Stream&,
                                                   View<From const, Device<P, G>> from,
                                                   View<To, Device<P, G>> to);

template <class P, class G, class LearningRate>
void decide(typename Device<P, G>::Stream&, View<double const, Device<P, G>> records,
            View<zero::Decision, Device<P, G>> decision, zero::DecisionInputs, LearningRate);

template <class P, class G, class O, class T>
requires OneOf<T, G, float>
void update(typename Device<P, G>::Stream&, zero::Update<O, T, P, Device<P, G>>);

}  // namespace archetype
