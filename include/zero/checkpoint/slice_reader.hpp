// SPDX-License-Identifier: Apache-2.0
#pragma once
// From the files of a checkpoint to what somebody needs of its tensors: the files' headers are read
// and held against the manifest, and each need is covered by slices exactly once, before a single
// element is. Then slices are read file by file in the order of their bytes, through four blocks
// and one tile of memory.

#include <zero/checkpoint/block_stream.hpp>
#include <zero/checkpoint/expected_slices.hpp>
#include <zero/checkpoint/folder.hpp>
#include <zero/checkpoint/rank_file.hpp>

#include <algorithm>
#include <functional>
#include <memory>

namespace zero {

/// A range of one tensor that is to be read.
struct NeededSlice {
  std::string kind;    ///< as StoredSlice
  std::string tensor;  ///< the model's name
  Index first = 0;     ///< first element, counted in the tensor
  Index elements = 0;  ///< how many
};

/// Reads ranges of the tensors of a checkpoint, or of a folder of safetensors files.
class SliceReader {
 public:
  /// Called with the number of the need, the first element counted in the tensor, and the elements.
  using Take = std::function<void(std::size_t, Index, std::span<float const>)>;

  /// Elements that are handed out at once, at most.
  static constexpr Index tile = Index{1} << 18;

  /// One of the ranks that read a checkpoint together. Between them they open every file once, for
  /// its size and its header: this one files rank, rank + world, and so on; need() opens those in
  /// which its needs should lie.
  /// @param files where; outlives this
  /// @param found the checkpoint; outlives this
  /// @param rank,world of those that read; alone, every header is read here
  /// @throws CheckpointError naming file and tensor for what is missing, damaged, of another size,
  /// or not what the manifest says; alone, for elements that stand in two files, needed or not
  SliceReader(Files& files, FoundCheckpoint const& found, Index rank = 0, Index world = 1)
      : files_(files), found_(found), slices_(found.manifest.files.size()) {
    for (CheckpointUnit const& unit : found.manifest.units) {
      for (CheckpointTensor const& t : unit.tensors) tensors_.emplace(t.name, &t);
    }
    has_header_.resize(slices_.size());
    if (world > 1) expect();
    for (std::size_t f = at(rank); f < slices_.size(); f += at(world)) read_header(f);
    if (world == 1) check_once();
  }

  /// For files whose headers have been read by the caller, and that have no checksums.
  /// @param files, found as above; only the files of the manifest are looked at
  /// @param slices by file of the manifest, in the order of their bytes
  SliceReader(Files& files, FoundCheckpoint const& found,
              std::vector<std::vector<StoredSlice>> slices)
      : files_(files), found_(found), slices_(std::move(slices)), has_header_(slices_.size(), 1) {}

  /// By file of the manifest, in the order of their bytes; of a file that was not opened, none.
  std::vector<std::vector<StoredSlice>> const& slices() const { return slices_; }
  Index bytes_read() const { return bytes_read_; }  ///< so far, whole blocks

  /// Says what is to be read.
  /// @throws CheckpointError naming the tensor, where its elements stand in no file; and in two,
  /// needed or not
  void need(std::vector<NeededSlice> needs) {
    needs_ = std::move(needs);
    read_headers();
    reads_.assign(slices_.size(), {});
    std::map<std::pair<std::string_view, std::string_view>, std::vector<std::size_t>> by_name;
    for (std::size_t i = 0; i < needs_.size(); ++i)
      by_name[{needs_[i].kind, needs_[i].tensor}].push_back(i);
    std::vector<Cover> covers(needs_.size());
    for (std::size_t f = 0; f < slices_.size(); ++f) {
      for (std::size_t s = 0; s < slices_[f].size(); ++s) {
        StoredSlice const& slice = slices_[f][s];
        auto const of = by_name.find({slice.kind, slice.tensor});
        if (of == by_name.end()) continue;
        for (std::size_t i : of->second) {
          Index const first = std::max(slice.first, needs_[i].first);
          Index const end =
              std::min(slice.first + slice.elements, needs_[i].first + needs_[i].elements);
          if (first >= end) continue;
          reads_[f].push_back({s, i, first, end - first});
          covers[i].emplace_back(first, end);
        }
      }
    }
    for (std::size_t i = 0; i < needs_.size(); ++i) check_cover(needs_[i], std::move(covers[i]));
    verified_ = false;
  }
  /// Reads every block that the needs lie in and verifies its checksum.
  /// @throws CheckpointError naming file, bytes and tensor for the first block that is damaged
  void verify() {
    verified_ = true;
    for (std::size_t f = 0; f < reads_.size(); ++f) {
      if (reads_[f].empty() || found_.manifest.files[f].blocks.empty()) continue;
      auto stream = open_stream(f, detail::BlockUse::again);
      each_part(f, *stream, [](std::size_t, StoredSlice const&, Index, auto) {});
      bytes_read_ += stream->bytes_read();
    }
  }
  /// Reads what is needed, and verifies it, a tile at a time.
  /// @param take may be called several times for one need
  void read(Take const& take) {
    std::vector<float> values;
    auto const hand_out = [&](std::size_t need, StoredSlice const& slice, Index first,
                              std::span<std::byte const> bytes) {
      Index const width = detail::bytes_of_type(slice.type);
      bool const as_they_are = slice.type == "F32" &&
                               reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(float) == 0;
      while (!bytes.empty()) {
        Index const n = std::min(tile, std::ssize(bytes) / width);
        if (as_they_are) {
          take(need, first, {reinterpret_cast<float const*>(bytes.data()), at(n)});
        } else {
          values.resize(at(n));
          detail::to_floats(slice.type, bytes.data(), values);
          take(need, first, values);
        }
        bytes = bytes.subspan(at(n * width));
        first += n;
      }
    };
    for (std::size_t f = 0; f < reads_.size(); ++f) {
      if (reads_[f].empty()) continue;
      // What verify() has read may still be in the system's memory.
      bool const again = verified_ && !found_.manifest.files[f].blocks.empty();
      auto stream = open_stream(f, again ? detail::BlockUse::again : detail::BlockUse::once);
      each_part(f, *stream, hand_out);
      bytes_read_ += stream->bytes_read();
    }
  }

 private:
  using Cover = std::vector<std::pair<Index, Index>>;  // from where, to where
  struct Read {
    std::size_t slice;
    std::size_t need;
    Index first;
    Index elements;
  };

  /// What a save would have put into each file; where that cannot be said, all headers are read.
  void expect() {
    try {
      expected_.emplace(found_.manifest);
    } catch (InvalidArgument const&) {  // what no trainer has, such as a unit without a name
      others_ = true;
    }
  }
  /// Of one file, once.
  void read_header(std::size_t f) {
    if (has_header_[f] != 0) return;
    has_header_[f] = 1;
    CheckpointFile const& file = found_.manifest.files[f];
    detail::BlockReader reader = open(file);
    SafetensorsHeader const header = read_safetensors_header(
        [&](Index offset, std::span<std::byte> to) { reader.read(offset, to, "its header"); },
        file.bytes, "'" + reader.path() + "'");
    slices_[f] = detail::read_slices_of(header, tensors_, "'" + reader.path() + "'");
    bytes_read_ += reader.bytes_read();
    if (expected_ && !expected_->are(slices_[f], f)) others_ = true;
  }
  /// Those that the needs ask for; all of them where a file holds something else than a save would
  /// have put there, which one rank of those that read together has seen.
  void read_headers() {
    if (expected_) {
      for (NeededSlice const& need : needs_) {
        expected_->for_each_file(need.tensor, need.first, need.elements,
                                 [&](std::size_t f) { read_header(f); });
      }
    }
    if (!others_) return;
    for (std::size_t f = 0; f < slices_.size(); ++f) read_header(f);
    check_once();
  }
  /// No element may stand in two files, needed here or not: whether a checkpoint is refused does
  /// not depend on how many ranks read it. Of a save's own cut it is known.
  void check_once() const {
    std::map<std::pair<std::string_view, std::string_view>, Cover> covers;
    for (auto const& file : slices_) {
      for (StoredSlice const& slice : file) {
        if (slice.elements > 0)
          covers[{slice.kind, slice.tensor}].emplace_back(slice.first,
                                                          slice.first + slice.elements);
      }
    }
    for (auto& [name, cover] : covers) {
      std::ranges::sort(cover);
      for (std::size_t i = 1; i < cover.size(); ++i) {
        if (cover[i].first < cover[i - 1].second)
          refuse(cover[i].first, name.first, name.second, "two files");
      }
    }
  }

  static std::string what(StoredSlice const& slice) {
    return slice.kind + " of tensor '" + slice.tensor + "'";
  }
  detail::BlockReader open(CheckpointFile const& file) const {
    return {files_, found_.folder, file, found_.manifest.block_bytes};
  }
  Index begin_of(std::size_t file, Read const& read) const {
    StoredSlice const& slice = slices_[file][read.slice];
    return slice.offset + (read.first - slice.first) * detail::bytes_of_type(slice.type);
  }
  Index end_of(std::size_t file, Read const& read) const {
    return begin_of(file, read) +
           read.elements * detail::bytes_of_type(slices_[file][read.slice].type);
  }
  /// The blocks that a file's reads lie in, in their order; one that follows itself, once.
  std::vector<Index> blocks_of(std::size_t file) const {
    Index const size = found_.manifest.block_bytes;
    std::vector<Index> blocks;
    for (Read const& read : reads_[file]) {
      for (Index b = begin_of(file, read) / size; b * size < end_of(file, read); ++b) {
        if (blocks.empty() || blocks.back() != b) blocks.push_back(b);
      }
    }
    return blocks;
  }
  std::unique_ptr<detail::BlockStream> open_stream(std::size_t file, detail::BlockUse use) const {
    return std::make_unique<detail::BlockStream>(files_, found_.folder, found_.manifest.files[file],
                                                 found_.manifest.block_bytes, blocks_of(file), use);
  }
  /// Calls f(need, slice, first element, its bytes) for the parts of a file's reads, in the order
  /// of blocks_of: what of a read lies in one block, and an element that lies in two by itself.
  template <class F>
  void each_part(std::size_t file, detail::BlockStream& stream, F f) {
    Index const size = found_.manifest.block_bytes;
    std::size_t i = 0;   // place in blocks_of
    Index current = -1;  // block that stands there
    alignas(detail::most_bytes_of_type)
        std::byte cut[detail::most_bytes_of_type];  // an element that blocks have parts of
    std::size_t held = 0;
    for (Read const& read : reads_[file]) {
      StoredSlice const& slice = slices_[file][read.slice];
      Index const width = detail::bytes_of_type(slice.type);
      Index const end = end_of(file, read);
      Index first = read.first;
      held = 0;
      for (Index begin = begin_of(file, read); begin < end;) {
        Index const b = begin / size;
        if (b != current && current >= 0) ++i;
        current = b;
        std::span<std::byte const> bytes =
            stream.block(i, what(slice)).subspan(at(begin - b * size));
        bytes = bytes.first(std::min(bytes.size(), at(end - begin)));
        begin += std::ssize(bytes);
        if (held > 0) {
          std::size_t const more = std::min(bytes.size(), at(width) - held);
          std::copy_n(bytes.data(), more, cut + held);
          held += more;
          bytes = bytes.subspan(more);
          if (held < at(width)) continue;
          f(read.need, slice, first++, std::span<std::byte const>(cut, held));
        }
        Index const whole = std::ssize(bytes) / width;
        if (whole > 0) f(read.need, slice, first, bytes.first(at(whole * width)));
        first += whole;
        bytes = bytes.subspan(at(whole * width));
        held = bytes.size();
        std::copy_n(bytes.data(), held, cut);
      }
    }
  }
  [[noreturn]] void refuse(Index element, std::string_view kind, std::string_view tensor,
                           char const* where) const {
    throw CheckpointError("checkpoint: '" + found_.folder + "': element " +
                          std::to_string(element) + " of " + std::string(kind) + " of tensor '" +
                          std::string(tensor) + "' stands in " + where);
  }
  void check_cover(NeededSlice const& need, Cover cover) const {
    std::ranges::sort(cover);
    Index end = need.first;
    for (auto const& [first, last] : cover) {
      if (first > end) refuse(end, need.kind, need.tensor, "no file");
      if (first < end) refuse(first, need.kind, need.tensor, "two files");
      end = last;
    }
    if (end != need.first + need.elements) refuse(end, need.kind, need.tensor, "no file");
  }

  Files& files_;
  FoundCheckpoint const& found_;
  std::map<std::string, CheckpointTensor const*, std::less<>> tensors_;
  std::optional<detail::ExpectedSlices> expected_;  // where not all headers are read
  bool others_ = false;                             // a file holds other slices than expected
  std::vector<std::vector<StoredSlice>> slices_;
  std::vector<char> has_header_;  // by file: it was read, or the caller did
  std::vector<NeededSlice> needs_;
  std::vector<std::vector<Read>> reads_;  // by file, in the order of its bytes
  bool verified_ = false;                 // verify() was called for these needs
  Index bytes_read_ = 0;
};

}  // namespace zero
