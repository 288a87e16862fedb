// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a device is: memory with a ledger, streams that run work in order, and events that order
// streams.

#include <zero/core/ledger.hpp>
#include <zero/device/view.hpp>

#include <concepts>
#include <cstddef>
#include <string_view>

namespace zero {

/// A queue of work. Work enqueued on one stream runs in order; work on two streams runs in any
/// order that their events allow. Nothing here waits on the host but `synchronize`.
/// - record(event): the event completes when all work enqueued so far has. Does not throw, so that
///   destructors can record; a failure surfaces at check().
/// - wait(event): work enqueued later starts after the event's last record; an event never recorded
///   is complete.
/// - synchronize(): the host waits until all work is done; rethrows what failed in it.
/// - check(): rethrows what has failed so far; does not wait.
template <class S>
concept Stream = std::movable<S> &&
    requires(S& stream, typename S::Event& event, typename S::Event const& recorded) {
  requires std::movable<typename S::Event> && std::default_initializable<typename S::Event>;
  { stream.record(event) }
  noexcept;
  stream.wait(recorded);
  stream.synchronize();
  stream.check();
};

/// Where bytes live and what runs work on them.
/// - D::host_memory: the host may dereference addresses of this device.
/// - allocate(bytes, kind): an owner of at least `bytes` bytes, aligned to 256, entered in the
///   ledger under `kind` until it is destroyed; contents are unspecified (models in this library
///   fill them with NaN). Throws OutOfMemory.
/// - stream(), event(): owners. ledger(): the counters of this device's memory.
/// - Buffer{} owns nothing; Event{} is complete and is replaced by one of event() before it is
///   recorded.
/// One rank uses one device, from one host thread. Other ranks' communicators may read its memory.
template <class D>
concept Device = requires(D& device, Index bytes, std::string_view kind) {
  { D::host_memory } -> std::convertible_to<bool>;
  requires Stream<typename D::Stream>;
  requires std::same_as<typename D::Event, typename D::Stream::Event>;
  requires std::movable<typename D::Buffer> && std::default_initializable<typename D::Buffer>;
  { device.allocate(bytes, kind) } -> std::same_as<typename D::Buffer>;
  { device.allocate(bytes, kind).address() } -> std::same_as<std::byte*>;
  { device.stream() } -> std::same_as<typename D::Stream>;
  { device.event() } -> std::same_as<typename D::Event>;
  { device.ledger() } -> std::same_as<Ledger&>;
};

/// A device whose work needs memory of its own beside what it is given, on each stream that runs
/// it: S::workspace_bytes bytes. stream.use_workspace(address, bytes) gives a stream that memory
/// once, before there is such work; it is this device's, aligned to 256, and outlives the work.
template <class D>
concept HasWorkspace = Device<D> && requires(typename D::Stream& stream, std::byte* address) {
  { D::Stream::workspace_bytes } -> std::convertible_to<Index>;
  stream.use_workspace(address, Index{D::Stream::workspace_bytes});
};

/// Bytes that a stream's work needs beside what it is given; 0 where it needs none.
/// @tparam D the device
template <Device D>
inline constexpr Index workspace_bytes = 0;
/// Of a device that says how many.
/// @tparam D the device
template <HasWorkspace D>
inline constexpr Index workspace_bytes<D> = D::Stream::workspace_bytes;

/// A device whose work is C++ that runs on the host: stream.enqueue(f) runs f() in the stream's
/// order, and inside that f, and only there, D::resolve(address) is an address that can be
/// dereferenced.
template <class D>
concept RunsHostCode = Device<D> &&
    requires(typename D::Stream& stream, std::byte* address, void (*work)()) {
  stream.enqueue(work);
  { D::resolve(address) } -> std::same_as<std::byte*>;
};

}  // namespace zero
