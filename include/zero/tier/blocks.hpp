// SPDX-License-Identifier: Apache-2.0
#pragma once
// Blocks of state that are kept below the device and pass through host memory one by one: those of
// the tier OnHost stay there, those of OnNvme come from a file into a ring and go back. Whoever
// uses a block claims its slot, as any other; what reads and writes the file has a stream of its
// own.

#include <zero/tier/block_plan.hpp>
#include <zero/tier/host_side.hpp>
#include <zero/tier/storage_file.hpp>

#include <memory>
#include <optional>

namespace zero {

/// Where the files of one rank's blocks are made, and by what they are read and written.
struct FileSystem {
  std::string folder{};                    ///< OffloadOptions::nvme_path
  int rank = 0;                            ///< part of the files' names
  std::shared_ptr<Transfers> transfers{};  ///< of all files of the rank
  Ledger* ledger = nullptr;                ///< of bytes in files
};

namespace detail {

/// The part of Blocks that only files need.
template <Device D>
class BlockRing {
 public:
  using H = HostSide<D>;

  BlockRing(H& memory, BlockPlan const& plan, FileSystem const& files)
      : plan_(plan), transfers_(files.transfers), stream_(memory.stream()) {
    if (plan.file_bytes == 0) return;
    file_.emplace(files.folder, plan.kind, files.rank, plan.file_bytes, *files.ledger);
    slots_.resize(at(plan.ring));
  }
  BlockRing(BlockRing const&) = delete;
  BlockRing& operator=(BlockRing const&) = delete;
  /// Streams have done their work by now; transfers may still be under way.
  ~BlockRing() {
    for (RingSlot& slot : slots_) transfers_->wait(slot.transfer);
  }

  typename D::Stream& stream() { return stream_; }

  /// The slot, counted in the ring, that is given to a block: one that has it already, else the one
  /// that was taken longest ago.
  Index take(Index block) {
    std::size_t oldest = 0;
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i].given_to == block) {
        oldest = i;
        break;
      }
      if (slots_[i].taken < slots_[oldest].taken) oldest = i;
    }
    slots_[oldest].given_to = block;
    slots_[oldest].taken = ++takes_;
    return static_cast<Index>(oldest);
  }

  /// In the stream's order: the slot holds the block, or soon will. @param memory the slot's
  void load(Index i, Index block, std::byte* memory, bool reads, bool waits) {
    RingSlot& slot = slots_[at(i)];
    if (slot.holds != block) {
      settle(slot);
      slot.holds = block;
      if (reads) start(slot, block, memory, false);
    }
    if (waits) settle(slot);
  }
  /// In the stream's order: the block goes from its slot to the file.
  void store(Index i, Index block, std::byte* memory) {
    RingSlot& slot = slots_[at(i)];
    settle(slot);
    start(slot, block, memory, true);
  }
  /// In the stream's order: all that was written is in the file.
  void settle() {
    for (RingSlot& slot : slots_) settle(slot);
  }

 private:
  struct RingSlot {
    Transfer transfer{};
    Index given_to = -1;  // by the host thread, which runs ahead
    Index taken = 0;      // when, in takes
    Index holds = -1;     // in the order of the stream
  };

  /// @throws StorageError for what has failed on any slot, now and whenever it is asked again: what
  ///   the file holds since then nobody knows
  void settle(RingSlot& slot) {
    if (!failure_.empty()) throw StorageError(failure_);
    transfers_->wait(slot.transfer);
    try {
      file_->check(slot.transfer);
    } catch (StorageError const& e) {
      failure_ = e.what();
      throw;
    }
  }
  void start(RingSlot& slot, Index block, std::byte* memory, bool writes) {
    BlockPlan::Block const& b = plan_.blocks[at(block)];
    slot.transfer.file = file_->descriptor();
    slot.transfer.writes = writes;
    slot.transfer.memory = memory;
    slot.transfer.bytes = round_up(b.bytes, BlockPlan::sector_bytes);
    slot.transfer.offset = b.offset;
    transfers_->start(slot.transfer);
  }

  BlockPlan const& plan_;
  std::shared_ptr<Transfers> transfers_;
  typename D::Stream stream_;
  std::optional<StorageFile> file_;
  std::vector<RingSlot> slots_;
  std::string failure_;  // the first one
  Index takes_ = 0;
};

struct NoRing {
  template <class... A>
  explicit NoRing(A const&...) {}
};

}  // namespace detail

/// What a block is opened for.
enum class BlockUse {
  any,    ///< whatever has become of the step
  update  ///< the step's update, which may be skipped
};

/// The blocks of one kind. Used from one host thread; one block at a time is open.
/// @tparam D the device beside the host's memory
/// @tparam T the tier; for OnHost nothing of files is compiled
template <Device D, Tier T>
class Blocks {
 public:
  using H = HostSide<D>;              ///< whose memory the slots are
  using Stream = typename D::Stream;  ///< of the device

  /// Allocates the memory and makes the file.
  /// @param plan,memory outlive this
  /// @param files where and how; not used by OnHost
  /// @param stopped raised when a file fails; outlives this
  /// @throws OutOfMemory; StorageError
  Blocks(H& memory, BlockPlan const& plan, FileSystem const& files, std::int32_t* stopped)
      : plan_(plan), stopped_(stopped), slots_(memory, plan.memory), ring_(memory, plan, files) {}

  Index size() const { return static_cast<Index>(plan_.blocks.size()); }  ///< blocks

  /// The slot through which a block is used until close(). The block's bytes are there once the
  /// slot is claimed, unless it is opened to be overwritten.
  /// @param block of this set
  /// @param reads the bytes that were last written are needed
  /// @param use in an update nothing is read or written while `stopped` is raised: it is skipped
  Slot<H>& open(Index block, bool reads, BlockUse use) {
    if constexpr (T == Tier::nvme) {
      if (in_file(block)) return load(block, reads, true, use);
    }
    return slots_[plan_.blocks[at(block)].slot];
  }
  /// Begins to read a block that will be opened soon, where that is not for nothing.
  void expect([[maybe_unused]] Index block, [[maybe_unused]] BlockUse use) {
    if constexpr (T == Tier::nvme) {
      if (block < size() && in_file(block)) load(block, true, false, use);
    }
  }
  /// Ends the use of a block; what claims its slot has ended.
  /// @param changed the bytes are to be kept
  void close([[maybe_unused]] Index block, [[maybe_unused]] bool changed,
             [[maybe_unused]] BlockUse use) {
    if constexpr (T == Tier::nvme) {
      if (!in_file(block) || !changed) return;
      Index const i = ring_.take(block);
      auto claim = slots_[slot_of(i)].template on<std::byte>(ring_.stream());
      ring_.stream().enqueue([this, i, block, use, memory = claim.view().address()] {
        unless_stopped(use, [&] { ring_.store(i, block, memory); });
      });
    }
  }
  /// Enqueues that everything that was changed has been written, or fails.
  void settle() {
    if constexpr (T == Tier::nvme) {
      if (plan_.file_bytes > 0)
        ring_.stream().enqueue([this] { unless_stopped(BlockUse::any, [&] { ring_.settle(); }); });
    }
  }
  /// Calls f(Stream&) for the stream of the file, where there is one.
  template <class F>
  void with_stream([[maybe_unused]] F f) {
    if constexpr (T == Tier::nvme) f(ring_.stream());
  }

 private:
  bool in_file(Index block) const { return plan_.blocks[at(block)].offset >= 0; }
  Index slot_of(Index i) const { return slots_.size() - plan_.ring + i; }

  Slot<H>& load(Index block, bool reads, bool waits, BlockUse use) {
    Index const i = ring_.take(block);
    Slot<H>& slot = slots_[slot_of(i)];
    auto claim = slot.template on<std::byte>(ring_.stream());
    ring_.stream().enqueue([this, i, block, reads, waits, use, memory = claim.view().address()] {
      unless_stopped(use, [&] { ring_.load(i, block, memory, reads, waits); });
    });
    return slot;
  }
  /// What fails stops the step.
  template <class F>
  void unless_stopped(BlockUse use, F f) {
    if (use == BlockUse::update && detail::raised(stopped_)) return;
    try {
      f();
    } catch (...) {
      detail::raise(stopped_, true);
      throw;
    }
  }

  BlockPlan const& plan_;
  std::int32_t* stopped_;
  SlotArray<H> slots_;
  [[no_unique_address]] std::conditional_t<T == Tier::nvme, detail::BlockRing<D>, detail::NoRing>
      ring_;
};

}  // namespace zero
