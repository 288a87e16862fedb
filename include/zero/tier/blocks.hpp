// SPDX-License-Identifier: Apache-2.0
#pragma once
// Blocks of state that are kept below the device and pass through host memory one by one: those of
// the tier OnHost stay there, those of OnNvme come from a file into a ring and go back. Whoever
// uses a block claims its slot, as any other; what reads and writes the file has a stream of its
// own.

#include <zero/tier/block_plan.hpp>
#include <zero/tier/host_side.hpp>
#include <zero/tier/storage_file.hpp>
#include <zero/tier/transfers.hpp>

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
    versions_.resize(plan.blocks.size(), 0);
  }
  BlockRing(BlockRing const&) = delete;
  BlockRing& operator=(BlockRing const&) = delete;
  /// Waits for the stream's work and for the transfers that it began.
  ~BlockRing() {
    try {
      stream_.synchronize();
    } catch (...) {  // whoever wanted to know has asked before
    }
    for (RingSlot& slot : slots_) {
      transfers_->wait(slot.to_file);
      transfers_->wait(slot.from_file);
    }
  }

  typename D::Stream& stream() { return stream_; }

  /// The slot, counted in the ring, that is given to a block: one that has it already, else the one
  /// that was given away longest ago. A block that is used keeps its turn, so that one that is
  /// expected, and was given its slot later, is not lost to the next one that is expected.
  Index take(Index block) {
    std::size_t oldest = 0;
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i].given_to == block) return static_cast<Index>(i);
      if (slots_[i].taken < slots_[oldest].taken) oldest = i;
    }
    slots_[oldest].given_to = block;
    slots_[oldest].taken = ++takes_;
    return static_cast<Index>(oldest);
  }

  /// In the stream's order: the slot holds the block, or soon will. What the slot held goes to the
  /// file first, for which nobody waits.
  /// @param memory the slot's
  /// @throws StorageError for what has failed on any slot, now and whenever it is asked again: what
  ///   the file holds since then nobody knows
  void load(Index i, Index block, std::byte* memory, bool reads, bool waits) {
    require_well();
    RingSlot& slot = slots_[at(i)];
    // Another slot may have had the block since, where this one's load was skipped.
    if (slot.holds != block || slot.version != versions_[at(block)]) {
      // What it was to hold nobody has come for, and it may have been changed since.
      if (std::exchange(slot.reading, false)) check(slot.from_file);
      slot.holds = block;
      slot.version = reads ? versions_[at(block)] : -1;
      for (RingSlot& other : slots_) {  // from which it may be on its way to the file
        if (other.sent == block && &other != &slot) check(other.to_file);
      }
      if (reads) read(slot, memory);
    }
    if (waits) settle(slot);
  }
  /// In the stream's order: the block goes from its slot to the file.
  void store(Index i, std::byte* memory) {
    RingSlot& slot = slots_[at(i)];
    settle(slot);
    write(slot, memory);
  }

 private:
  struct RingSlot {
    Transfer to_file{};
    Transfer from_file{};  // after to_file
    Index given_to = -1;   // by the host thread, which runs ahead
    Index taken = 0;       // when, in takes
    Index holds = -1;      // in the order of the stream
    Index version = -1;    // of that block; -1: not its bytes
    Index sent = -1;       // what to_file was last started with
    bool reading = false;  // from_file was started, and not looked at yet
  };

  void require_well() const {
    if (!failure_.empty()) throw StorageError(failure_);
  }
  void settle(RingSlot& slot) {
    check(slot.to_file);
    if (!std::exchange(slot.reading, false)) return;
    check(slot.from_file);
    if (slot.version > 0) remembering([&] { check_stamp(slot); });
  }
  void check(Transfer& transfer) {
    require_well();
    transfers_->wait(transfer);
    remembering([&] { file_->check(transfer); });
  }
  template <class F>
  void remembering(F f) {
    try {
      f();
    } catch (StorageError const& e) {
      failure_ = e.what();
      throw;
    }
  }
  void read(RingSlot& slot, std::byte* memory) {
    if (!aim(slot.from_file, slot.holds, memory, false)) return;
    slot.from_file.after = &slot.to_file;
    slot.reading = true;
    transfers_->start(slot.from_file);
  }
  void write(RingSlot& slot, std::byte* memory) {
    if (!aim(slot.to_file, slot.holds, memory, true)) return;
    slot.version = ++versions_[at(slot.holds)];
    Stamp const stamp{slot.holds, slot.version};
    std::memcpy(stamp_of(slot.to_file), &stamp, sizeof stamp);
    slot.sent = slot.holds;
    transfers_->start(slot.to_file);
  }
  /// @return whether there is anything to transfer
  bool aim(Transfer& transfer, Index block, std::byte* memory, bool writes) {
    BlockPlan::Block const& b = plan_.blocks[at(block)];
    transfer.file = file_->descriptor();
    transfer.writes = writes;
    transfer.memory = memory;
    transfer.bytes = BlockPlan::stored_bytes(b.bytes);
    transfer.offset = b.offset;
    return transfer.bytes > 0;
  }

  struct Stamp {
    Index block;
    Index version;
  };
  static_assert(sizeof(Stamp) == BlockPlan::stamp_bytes);

  static std::byte* stamp_of(Transfer const& transfer) {
    return transfer.memory + transfer.bytes - BlockPlan::stamp_bytes;
  }
  void check_stamp(RingSlot const& slot) const {
    Stamp found{};
    std::memcpy(&found, stamp_of(slot.from_file), sizeof found);
    if (found.block == slot.holds && found.version == slot.version) return;
    throw StorageError("'" + file_->path() + "': read " + std::to_string(slot.from_file.bytes) +
                       " bytes at offset " + std::to_string(slot.from_file.offset) +
                       ", and they are not what was written there: the file has been cut, or "
                       "written to by another");
  }

  BlockPlan const& plan_;
  std::shared_ptr<Transfers> transfers_;
  typename D::Stream stream_;
  std::optional<StorageFile> file_;
  std::vector<RingSlot> slots_;
  std::vector<Index> versions_;  // of each block: how often it was written
  std::string failure_;          // the first one
  Index takes_ = 0;
};

struct NoRing {
  template <class... A>
  explicit NoRing(A const&...) {}
};

}  // namespace detail

/// Raised while a step is skipped, and for good once a file has failed: then updates read and write
/// no file, and nothing of theirs goes up. A stream whose work looks at it claims a slot of its
/// own, which what raises it claims as well, so that it sees what was decided of its own step.
template <Device D>
struct StopFlag {
  Slot<HostSide<D>>* slot = nullptr;  ///< of one stream
  std::int32_t* raised = nullptr;     ///< the address of the one flag

  /// Claims the flag for work on a stream.
  Claim<std::int32_t, HostSide<D>> on(typename D::Stream& stream) const {
    return slot->template on<std::int32_t>(stream);
  }
};

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
  /// @param stop what it says of updates; raised when a file fails
  /// @throws OutOfMemory; StorageError
  Blocks(H& memory, BlockPlan const& plan, FileSystem const& files, StopFlag<D> stop)
      : plan_(plan), stop_(stop), slots_(memory, plan.memory), ring_(memory, plan, files) {}

  Index size() const { return static_cast<Index>(plan_.blocks.size()); }  ///< blocks

  /// The slot through which a block is used until close(). The block's bytes are there once the
  /// slot is claimed, unless it is opened to be overwritten.
  /// @param block of this set
  /// @param reads the bytes that were last written are needed
  /// @param use in an update nothing is read or written while the flag is raised: it is skipped
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
  /// @param block,use as it was opened
  /// @param changed the bytes are to be kept
  void close([[maybe_unused]] Index block, [[maybe_unused]] bool changed,
             [[maybe_unused]] BlockUse use) {
    if constexpr (T == Tier::nvme) {
      if (!in_file(block) || !changed) return;
      Index const i = ring_.take(block);
      auto claim = slots_[slot_of(i)].template on<std::byte>(ring_.stream());
      auto const flag = flag_for(use);
      ring_.stream().enqueue([this, i, use, memory = claim.view().address()] {
        unless_stopped(use, [&] { ring_.store(i, memory); });
      });
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
    auto const flag = flag_for(use);
    ring_.stream().enqueue([this, i, block, reads, waits, use, memory = claim.view().address()] {
      unless_stopped(use, [&] { ring_.load(i, block, memory, reads, waits); });
    });
    return slot;
  }
  Claim<std::int32_t, H> flag_for(BlockUse use) {
    return use == BlockUse::update ? stop_.on(ring_.stream()) : Claim<std::int32_t, H>();
  }
  /// What fails stops the step.
  template <class F>
  void unless_stopped(BlockUse use, F f) {
    if (use == BlockUse::update && detail::raised(stop_.raised)) return;
    try {
      f();
    } catch (...) {
      detail::raise_for_good(stop_.raised);
      throw;
    }
  }

  BlockPlan const& plan_;
  StopFlag<D> stop_;
  SlotArray<H> slots_;
  [[no_unique_address]] std::conditional_t<T == Tier::nvme, detail::BlockRing<D>, detail::NoRing>
      ring_;
};

}  // namespace zero
