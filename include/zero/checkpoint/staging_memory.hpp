// SPDX-License-Identifier: Apache-2.0
#pragma once
// Host memory that outlives what it is used for: pages that nobody has touched cost several times
// the bytes that go into them, and on a virtual machine whose host takes free ones back more than
// the reading of as many bytes from a disk.

#include <zero/checkpoint/aligned_bytes.hpp>
#include <zero/checkpoint/files.hpp>

#include <span>
#include <string>
#include <utility>

namespace zero {

/// Host memory of one rank that its checkpoints pass through, one after the other: the copy of a
/// background save, and what a load with staging displaces. It grows to the largest use, and stays
/// taken until this object ends. Used from one thread at a time.
class StagingMemory {
 public:
  StagingMemory() = default;
  StagingMemory(StagingMemory const&) = delete;
  StagingMemory& operator=(StagingMemory const&) = delete;

  Index bytes() const { return bytes_.size(); }  ///< that are taken

  /// Takes so many bytes, where there are fewer, and makes the system bring every page.
  /// @throws OutOfMemory, with nothing taken; CheckpointError where it is in use
  void prepare(Index bytes) {
    Use const use(*this, bytes);
    bytes_.expect(0, bytes_.size());
    for (Index i = 0; i < bytes_.size(); i += 4096) bytes_.data()[i] = std::byte{};
  }

  /// Who uses the memory now: nobody else does until this ends.
  class Use {
   public:
    Use() = default;
    /// @param memory outlives this
    /// @param bytes that are needed; memory that is too small is given back and taken anew
    /// @throws as prepare
    Use(StagingMemory& memory, Index bytes) {
      if (memory.used_) {
        throw CheckpointError(
            "checkpoint: staging memory is in use by a background save that is not completed; "
            "wait() for it first");
      }
      if (memory.bytes() < bytes) {
        memory.bytes_ = detail::AlignedBytes();  // never the two of them
        memory.bytes_ = detail::AlignedBytes(bytes);
      }
      memory.used_ = true;
      memory_ = &memory;
    }
    /// Goes on with what `other` has.
    Use(Use&& other) noexcept : memory_(std::exchange(other.memory_, nullptr)) {}
    /// The same, and `other` with what this had.
    Use& operator=(Use&& other) noexcept {
      std::swap(memory_, other.memory_);
      return *this;
    }
    ~Use() {
      if (memory_ != nullptr) memory_->used_ = false;
    }

    /// All of the memory. @pre this is of one
    detail::AlignedBytes const& bytes() const { return memory_->bytes_; }

   private:
    StagingMemory* memory_ = nullptr;
  };

 private:
  detail::AlignedBytes bytes_;
  bool used_ = false;
};

}  // namespace zero
