// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ranks that can be counted, and one concept for each thing they may be able to do together. A
// stage needs some of the collectives and asks for no other.

#include <zero/core/where.hpp>
#include <zero/device/slot.hpp>

#include <concepts>
#include <string_view>

namespace zero {

/// A handle on a group of ranks; copies refer to the same group.
/// - rank(), size(): this rank's number, from 0, and how many there are.
/// - device(): the device of this rank; outlives every copy.
/// - channel(i): the same ranks with an order of their own, i in [0, 4). Each stream that carries
///   collectives uses its own channel. Collectives of one channel are enqueued in the same order on
///   every rank.
/// - abort(text): every other rank throws CommunicationError with this text at its next, or
///   current, collective.
/// It promises no order between channels, and nothing about time.
template <class C>
concept Communicator = std::copyable<C> && Device<typename C::Device> &&
    requires(C const& c, int i, std::string_view t) {
  { c.rank() } -> std::same_as<int>;
  { c.size() } -> std::same_as<int>;
  { c.device() } -> std::same_as<typename C::Device&>;
  { c.channel(i) } -> std::same_as<C>;
  { c.abort(t) }
  noexcept;
};

/// all_gather(slice, full, where): full = the ranks' slices in rank order; full.size() == size() *
/// slice.size(). The slice may be this rank's own part of full. Both arguments are ordered on one
/// stream. Moves slice.size() * (size() - 1) elements out of each rank.
template <class C, class T>
concept CanAllGather = Communicator<C> &&
    requires(C& c, Ordered<T const, typename C::Device> slice, Ordered<T, typename C::Device> full,
             Where where) {
  { c.all_gather(slice, full, where) } -> std::same_as<void>;
};

/// reduce_scatter(full, slice, where): slice = this rank's part of the sum over ranks. The slice
/// may be this rank's own part of full. 16-bit types are added in float and rounded once where the
/// communicator promises bits. Moves slice.size() * (size() - 1) elements out of each rank.
template <class C, class T>
concept CanReduceScatter = Communicator<C> &&
    requires(C& c, Ordered<T const, typename C::Device> full, Ordered<T, typename C::Device> slice,
             Where where) {
  { c.reduce_scatter(full, slice, where) } -> std::same_as<void>;
};

/// all_reduce(full, where): full = the sum over ranks, in place, on every rank; full.size() is a
/// multiple of size(). Moves at least 2 * full.size() / size() * (size() - 1) elements out of each
/// rank.
template <class C, class T>
concept CanAllReduce = Communicator<C> &&
    requires(C& c, Ordered<T, typename C::Device> full, Where where) {
  { c.all_reduce(full, where) } -> std::same_as<void>;
};

/// group_start(), group_end(): the collectives between them on one channel may be launched
/// together.
template <class C>
concept CanGroup = Communicator<C> && requires(C& c) {
  c.group_start();
  c.group_end();
};

/// gathered_memory(bytes, kind): device memory for what this channel's all_gathers read and write,
/// where the communicator wants a kind of its own for that; collective, with equal arguments.
/// gathers_own_memory(): whether a gather from or to other memory must be one on every rank.
template <class C>
concept BringsGatheredMemory = Communicator<C> &&
    requires(C& c, Index bytes, std::string_view kind) {
  { c.gathers_own_memory() } -> std::same_as<bool>;
  { c.gathered_memory(bytes, kind) } -> std::same_as<typename C::Device::Buffer>;
};

/// allocate(bytes, kind) of memory for a channel's all_gathers: as above, or else the device's.
template <Communicator C>
auto gathered_memory(C communicator) {
  return [communicator](Index bytes, std::string_view kind) mutable {
    if constexpr (BringsGatheredMemory<C>)
      return communicator.gathered_memory(bytes, kind);
    else
      return communicator.device().allocate(bytes, kind);
  };
}

/// Its collectives may be recorded and replayed with their stream, as CanReplay says.
template <class C>
concept CanReplayCollectives = Communicator<C> && C::replays_collectives;

/// Collectives issued while it lives form one group, where the communicator can group; else each
/// stands alone.
template <Communicator C>
class Group {
 public:
  /// Begins the group.
  explicit Group(C& communicator) : communicator_(communicator) {
    if constexpr (CanGroup<C>) communicator_.group_start();
  }
  Group(Group const&) = delete;
  Group& operator=(Group const&) = delete;
  /// Closes a group that end() did not: something else unwinds, and stays what is thrown.
  ~Group() {
    if constexpr (CanGroup<C>) {
      try {
        if (!ended_) communicator_.group_end();
      } catch (...) {
      }
    }
  }
  /// Launches the group; what fails in that is thrown here.
  void end() {
    ended_ = true;
    if constexpr (CanGroup<C>) communicator_.group_end();
  }

 private:
  C& communicator_;
  bool ended_ = false;
};

}  // namespace zero
