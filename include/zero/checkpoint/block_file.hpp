// SPDX-License-Identifier: Apache-2.0
#pragma once
// Files whose every block has a checksum that is kept elsewhere, so that the reading of any range
// is verified: XXH3 (64 bits) of blocks of equal size, the last one shorter.

#include <zero/checkpoint/open_file.hpp>

#include <xxhash.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace zero {

/// Bytes of a block whose checksum stands in a manifest.
inline constexpr Index checkpoint_block_bytes = Index{4} << 20;

/// What a manifest says of a file.
struct CheckpointFile {
  std::string name;                   ///< in the checkpoint's folder
  Index bytes = 0;                    ///< of the whole file
  std::vector<std::uint64_t> blocks;  ///< checksum of each block; none: the file has no checksums
};

namespace detail {

inline std::uint64_t checksum(void const* bytes, std::size_t count) {
  return XXH3_64bits(bytes, count);
}

inline std::string hex_text(std::uint64_t value) {
  std::string text(16, '0');
  for (std::size_t i = 16; i-- > 0; value >>= 4) text[i] = "0123456789abcdef"[value & 15];
  return text;
}
/// Nothing but 16 small hexadecimal digits.
inline std::optional<std::uint64_t> hex_value(std::string_view text) {
  if (text.size() != 16) return std::nullopt;
  std::uint64_t value = 0;
  for (char c : text) {
    std::size_t const digit = std::string_view("0123456789abcdef").find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    value = value << 4 | digit;
  }
  return value;
}

/// Writes a new file from its beginning to its end, and takes the checksums on the way.
class BlockWriter {
 public:
  /// @param folder,name of the new file
  BlockWriter(Files& files, std::string const& folder, std::string name, Index block_bytes)
      : file_(OpenFile::create(files, join_path(folder, name))), block_bytes_(block_bytes) {
    written_.name = std::move(name);
    // Where blocks lie as a disk wants them, the system need not copy them.
    block_.reset(
        static_cast<std::byte*>(std::aligned_alloc(4096, at(round_up(block_bytes, Index{4096})))));
    if (block_ == nullptr) throw OutOfMemory("checkpoint: no memory for a block");
  }

  void append(std::span<std::byte const> bytes) {
    while (!bytes.empty()) {
      std::size_t const n = std::min(bytes.size(), at(block_bytes_ - filled_));
      std::copy_n(bytes.begin(), n, block_.get() + filled_);
      filled_ += static_cast<Index>(n);
      if (filled_ == block_bytes_) flush();
      bytes = bytes.subspan(n);
    }
  }
  /// Writes what is left, syncs and closes.
  CheckpointFile finish() {
    if (filled_ > 0) flush();
    file_.sync();
    file_.close();
    return std::move(written_);
  }

 private:
  struct Free {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };

  void flush() {
    std::span<std::byte const> const block(block_.get(), at(filled_));
    written_.blocks.push_back(checksum(block.data(), block.size()));
    file_.write(block, written_.bytes);
    written_.bytes += filled_;
    filled_ = 0;
  }

  OpenFile file_;
  Index block_bytes_;
  std::unique_ptr<std::byte, Free> block_;
  Index filled_ = 0;  // bytes of the block
  CheckpointFile written_;
};

/// Reads ranges of a file through one block of memory, each block verified when it is read. A file
/// without checksums is read as it is.
class BlockReader {
 public:
  /// @param expected the file as the manifest has it; outlives this
  /// @throws CheckpointError where the file is missing or has another size
  BlockReader(Files& files, std::string const& folder, CheckpointFile const& expected,
              Index block_bytes)
      : expected_(&expected),
        file_(OpenFile::open(files, join_path(folder, expected.name))),
        block_bytes_(block_bytes) {
    Index const bytes = files.size(file_.path());
    check_file(bytes, "asking for the size of", file_.path());
    if (bytes != expected.bytes) {
      throw CheckpointError("checkpoint: '" + file_.path() + "' has " + std::to_string(bytes) +
                            " bytes; expected " + std::to_string(expected.bytes));
    }
  }

  std::string const& path() const { return file_.path(); }
  Index bytes() const { return expected_->bytes; }
  Index bytes_read() const { return bytes_read_; }  ///< from the system, whole blocks

  /// @param what is being read, for errors: "tensor 'x'"
  void read(Index offset, std::span<std::byte> to, std::string_view what) {
    if (expected_->blocks.empty()) {
      file_.read(to, offset);
      bytes_read_ += std::ssize(to);
      return;
    }
    while (!to.empty()) {
      Index const block = offset / block_bytes_;
      load(block, what);
      std::size_t const skip = at(offset - block * block_bytes_);
      std::size_t const n = std::min(to.size(), block_.size() - skip);
      std::copy_n(block_.begin() + static_cast<Index>(skip), n, to.begin());
      to = to.subspan(n);
      offset += static_cast<Index>(n);
    }
  }
  /// Reads the blocks of a range for their checksums alone.
  void verify(Index offset, Index bytes, std::string_view what) {
    if (expected_->blocks.empty()) return;
    for (Index b = offset / block_bytes_; b * block_bytes_ < offset + bytes; ++b) load(b, what);
  }

 private:
  void load(Index block, std::string_view what) {
    if (block == loaded_) return;
    Index const begin = block * block_bytes_;
    Index const n = std::min(block_bytes_, expected_->bytes - begin);
    if (block >= std::ssize(expected_->blocks) || n <= 0) {
      throw CheckpointError("checkpoint: '" + path() + "' has no byte " + std::to_string(begin));
    }
    loaded_ = -1;
    block_.resize(at(n));
    file_.read(block_, begin);
    bytes_read_ += n;
    std::uint64_t const found = checksum(block_.data(), block_.size());
    if (found != expected_->blocks[at(block)]) {
      throw CheckpointError("checkpoint: '" + path() + "' is damaged between bytes " +
                            std::to_string(begin) + " and " + std::to_string(begin + n) + ", in " +
                            std::string(what) + ": checksum " + hex_text(found) + "; expected " +
                            hex_text(expected_->blocks[at(block)]));
    }
    loaded_ = block;
  }

  CheckpointFile const* expected_;
  OpenFile file_;
  Index block_bytes_;
  Index loaded_ = -1;
  Index bytes_read_ = 0;
  std::vector<std::byte> block_;
};

}  // namespace detail

}  // namespace zero
