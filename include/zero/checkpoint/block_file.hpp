// SPDX-License-Identifier: Apache-2.0
#pragma once
// Files whose every block has a checksum that is kept elsewhere, so that the reading of any range
// is verified: XXH3 (64 bits) of blocks of equal size, the last one shorter. And the reading of
// ranges; block_writer.hpp writes such files, block_stream.hpp reads many blocks.

#include <zero/checkpoint/open_file.hpp>

#include <xxhash.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace zero {

/// Bytes of a block whose checksum stands in a manifest.
inline constexpr Index checkpoint_block_bytes = Index{4} << 20;
/// The largest that is written and read.
inline constexpr Index max_checkpoint_block_bytes = Index{1} << 30;

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

/// Opens a file of a checkpoint. @throws CheckpointError where it is missing or has another size
inline OpenFile open_block_file(Files& files, std::string const& folder,
                                CheckpointFile const& expected) {
  std::string const path = join_path(folder, expected.name);
  Index const bytes = files.size(path);  // first: opening what is no file, such as a pipe, may wait
  check_file(bytes, "asking for the size of", path);
  if (bytes != expected.bytes) {
    throw CheckpointError("checkpoint: '" + path + "' has " + std::to_string(bytes) +
                          " bytes; expected " + std::to_string(expected.bytes));
  }
  return OpenFile::open(files, path);
}

/// @param bytes of the block, as they were read
/// @param what is being read, for errors: "tensor 'x'"
/// @throws CheckpointError where they are not those that were written
inline void verify_block(CheckpointFile const& expected, std::string const& path, Index block,
                         std::span<std::byte const> bytes, Index block_bytes,
                         std::string_view what) {
  std::uint64_t const found = checksum(bytes.data(), bytes.size());
  std::uint64_t const wanted = expected.blocks.at(at(block));
  if (found == wanted) return;
  Index const begin = block * block_bytes;
  throw CheckpointError("checkpoint: '" + path + "' is damaged between bytes " +
                        std::to_string(begin) + " and " +
                        std::to_string(begin + std::ssize(bytes)) + ", in " + std::string(what) +
                        ": checksum " + hex_text(found) + "; expected " + hex_text(wanted));
}

/// Reads ranges of a file through one block of memory, each block verified when it is read. A file
/// without checksums is read as it is.
class BlockReader {
 public:
  /// @param expected the file as the manifest has it; outlives this
  /// @throws CheckpointError where the file is missing or has another size
  BlockReader(Files& files, std::string const& folder, CheckpointFile const& expected,
              Index block_bytes)
      : expected_(&expected),
        file_(open_block_file(files, folder, expected)),
        block_bytes_(block_bytes) {}

  std::string const& path() const { return file_.path(); }
  Index bytes_read() const { return bytes_read_; }  ///< from the system, whole blocks

  /// @param what is being read, for errors
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

 private:
  void load(Index block, std::string_view what) {
    if (block == loaded_) return;
    Index const begin = block * block_bytes_;
    Index const n = std::min(block_bytes_, expected_->bytes - begin);
    if (n <= 0)
      throw CheckpointError("checkpoint: '" + path() + "' has no byte " + std::to_string(begin));
    loaded_ = -1;
    block_.resize(at(n));
    file_.read(block_, begin);
    bytes_read_ += n;
    verify_block(*expected_, path(), block, block_, block_bytes_, what);
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
