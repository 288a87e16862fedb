// SPDX-License-Identifier: Apache-2.0
#pragma once
// Host memory that begins where a page does, as a disk wants it that is read and written past the
// system's memory.

#include <zero/core/error.hpp>
#include <zero/core/size.hpp>

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>

namespace zero::detail {

/// Owner of page-aligned memory, which is not initialised: the system brings a page when it is
/// first written to. Large pages are not asked for: where memory is full of files' pages, or where
/// a virtual machine's host has taken back what was free, which it does in large pages, making them
/// was seen to take longer than the reading from a disk that they were for.
class AlignedBytes {
 public:
  AlignedBytes() = default;
  /// @throws OutOfMemory
  explicit AlignedBytes(Index bytes) : size_(bytes) {
    Index const rounded = round_up(std::max<Index>(bytes, 1), page);
    bytes_.reset(static_cast<std::byte*>(std::aligned_alloc(at(page), at(rounded))));
    if (bytes_ == nullptr)
      throw OutOfMemory("checkpoint: the host has no memory for " + std::to_string(bytes) +
                        " bytes");
  }

  /// Says that bytes [begin, begin + bytes) will be written now: the system brings their pages in
  /// one call, where it can, and not by a fault each.
  void expect([[maybe_unused]] Index begin, [[maybe_unused]] Index bytes) const {
#ifdef MADV_POPULATE_WRITE
    if (bytes < Index{1} << 16) return;
    Index const first = begin / page * page;
    ::madvise(data() + first, at(begin + bytes - first), MADV_POPULATE_WRITE);  // or writing does
#endif
  }

  std::byte* data() const { return bytes_.get(); }
  Index size() const { return size_; }
  std::span<std::byte> span() const { return {bytes_.get(), at(size_)}; }

 private:
  static constexpr Index page = 4096;
  struct Free {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };

  std::unique_ptr<std::byte, Free> bytes_;
  Index size_ = 0;
};

}  // namespace zero::detail
