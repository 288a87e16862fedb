// SPDX-License-Identifier: Apache-2.0
#pragma once
// Checkpoints from file to file, without a trainer: verified, written as a model of transformers,
// made of one, and cut for another number of ranks. Memory: some blocks.

#include <zero/checkpoint/model_files.hpp>
#include <zero/checkpoint/save.hpp>

#include <numeric>

namespace zero {

/// Told of bytes as they are done, of about as many as `total`.
using CheckpointProgress = std::function<void(Index bytes, Index total)>;

/// A whole tensor of one kind, of those that a checkpoint has.
struct WholeTensor {
  std::string kind;          ///< "master", "state.exp_avg" or "parameter"
  std::string name;          ///< the model's
  std::vector<Index> shape;  ///< extents
  Index elements = 0;        ///< of all
};

/// The canonical list of a checkpoint: the same at every stage and world.
inline std::vector<WholeTensor> whole_tensors(Manifest const& m) {
  std::vector<WholeTensor> all;
  for (CheckpointUnit const& unit : m.units) {
    for (CheckpointTensor const& t : unit.tensors) {
      Index const n = *detail::elements_of(t.shape);
      std::string_view const weights =
          t.trainable ? checkpoint_kind::master : checkpoint_kind::parameter;
      all.push_back({std::string(weights), t.name, t.shape, n});
      if (!t.trainable) continue;
      for (std::string const& state : m.optimizer.states)
        all.push_back({std::string(checkpoint_kind::state) + state, t.name, t.shape, n});
    }
  }
  return all;
}

namespace detail {

/// Bytes of all tensors as floats.
inline Index bytes_as_floats(std::vector<WholeTensor> const& all) {
  Index bytes = 0;
  for (WholeTensor const& t : all) bytes += t.elements * 4;
  return bytes;
}

inline void tell(CheckpointProgress const& progress, Index bytes, Index total) {
  if (progress) progress(bytes, total);
}

/// Calls take(values) for elements [first, first + count) of a tensor, in order, a stretch at a
/// time.
template <class Take>
void read_in_order(SliceReader& reader, std::string const& kind, std::string const& name,
                   Index first, Index count, Take take) {
  constexpr Index stretch = 16 * SliceReader::tile;  // some blocks, whose ends are read twice
  std::vector<float> values;
  for (Index end = first + count; first < end; first += stretch) {
    Index const n = std::min(stretch, end - first);
    reader.need({{kind, name, first, n}});
    values.resize(at(n));
    reader.read([&](std::size_t, Index begin, std::span<float const> part) {
      std::copy(part.begin(), part.end(), values.begin() + (begin - first));
    });
    take(std::span<float const>(values));
  }
}

/// The type in which slices of such a kind are stored; F32 where there are none.
inline std::string type_of_kind(SliceReader const& reader, std::string_view kind) {
  for (auto const& file : reader.slices()) {
    for (StoredSlice const& slice : file) {
      if (slice.kind.starts_with(kind)) return slice.type;
    }
  }
  return "F32";
}

/// Writes a checkpoint whose slices come from a reader of another cut. @return its folder
inline std::string write_slices(std::string const& dir, Manifest manifest,
                                std::vector<std::vector<StoredSlice>> ranks, SliceReader& reader,
                                Files& files, CheckpointProgress const& progress) {
  auto const turn = take_folder(files, dir);
  std::string const name = begin_checkpoint(files, dir, manifest.step);
  WorkFolder work(files, work_folder(dir, name));
  manifest.files.clear();
  manifest.world = std::ssize(ranks);
  Index total = 0;
  for (auto const& slices : ranks) {
    for (StoredSlice const& s : slices) total += s.elements * bytes_of_type(s.type);
  }
  std::vector<std::byte> bytes;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    Index file_bytes = 0;
    std::string const header = write_rank_header(ranks[r], file_bytes);
    BlockWriter writer(files, work.path(), rank_file_name(static_cast<Index>(r), manifest.world),
                       manifest.block_bytes);
    writer.append(std::as_bytes(std::span(header)));
    for (StoredSlice const& slice : ranks[r]) {
      read_in_order(reader, slice.kind, slice.tensor, slice.first, slice.elements,
                    [&](std::span<float const> values) {
                      from_floats(slice.type, values, bytes);
                      writer.append(bytes);
                      tell(progress, std::ssize(bytes), total);
                    });
    }
    manifest.files.push_back(writer.finish());
  }
  publish_checkpoint(files, dir, name, manifest);
  work.keep();
  name_latest(files, dir, name);
  return join_path(dir, name);
}

}  // namespace detail

/// The checkpoint of a folder, or, where the folder holds `latest`, the one that this names and
/// then all others, oldest first. What a save that was killed has left has other names; models
/// without the optimizer's state are none.
/// @throws CheckpointError as find_checkpoint
inline std::vector<FoundCheckpoint> find_checkpoints(std::string const& dir,
                                                     Files& files = PosixFiles::of_system()) {
  std::vector<FoundCheckpoint> all{find_checkpoint(dir, files)};
  if (all[0].folder == dir) return all;
  for (detail::CheckpointName const& name : detail::checkpoint_names(files, dir)) {
    std::string const folder = detail::join_path(dir, name.text());
    auto const has = [&](std::string_view file) {
      return detail::is_there(files, detail::join_path(folder, std::string(file)));
    };
    bool const model =
        !has(detail::manifest_name) && (has(detail::model_file) || has(detail::model_index));
    if (folder != all[0].folder && !model) all.push_back(find_checkpoint(folder, files));
  }
  return all;
}

/// Reads every byte of a checkpoint and finds every element in it exactly once.
/// @param found as find_checkpoint has it
/// @param files where
/// @param progress told of bytes read
/// @throws CheckpointError naming the file, and what is wrong with it: missing, damaged, of another
/// size, foreign, elements that stand in no file or in two
inline void verify_checkpoint(FoundCheckpoint const& found, Files& files = PosixFiles::of_system(),
                              CheckpointProgress const& progress = {}) {
  Manifest const& m = found.manifest;
  SliceReader reader(files, found);
  std::vector<NeededSlice> needs;
  for (WholeTensor const& t : whole_tensors(m)) needs.push_back({t.kind, t.name, 0, t.elements});
  reader.need(std::move(needs));
  Index total = 0;
  for (CheckpointFile const& file : m.files) total += file.bytes;
  for (CheckpointFile const& file : m.files) {
    std::vector<Index> all(file.blocks.size());
    std::iota(all.begin(), all.end(), Index{0});
    detail::BlockStream stream(files, found.folder, file, m.block_bytes, std::move(all),
                               detail::BlockUse::once);
    for (std::size_t i = 0; i < file.blocks.size(); ++i)
      detail::tell(progress, std::ssize(stream.block(i, "its slices")), total);
  }
  std::vector<std::string> names;
  detail::check_file(files.list(found.folder, names), "listing", found.folder);
  for (std::string const& name : names) {
    if (name != detail::manifest_name &&
        std::ranges::find(m.files, name, &CheckpointFile::name) == m.files.end()) {
      throw CheckpointError("checkpoint: '" + found.folder + "' has a file '" + name +
                            "' that is not in its manifest");
    }
  }
}

/// Writes a checkpoint's weights as transformers reads them, with the model's config.json where the
/// checkpoint has one.
/// @param found as find_checkpoint has it
/// @param out folder, made where it is missing
/// @param type "F32", "BF16" or "F16"; empty: that of the parameters
/// @param files where
/// @param progress told of bytes
/// @return names of the files
inline std::vector<std::string> export_checkpoint(FoundCheckpoint const& found,
                                                  std::string const& out, std::string type = {},
                                                  Files& files = PosixFiles::of_system(),
                                                  CheckpointProgress const& progress = {}) {
  Manifest const& m = found.manifest;
  if (type.empty())
    type = m.precision.starts_with("bf16") ? "BF16" : m.precision == "fp16" ? "F16" : "F32";
  SliceReader reader(files, found);
  std::vector<CheckpointTensor> tensors;
  for (CheckpointUnit const& unit : m.units)
    tensors.insert(tensors.end(), unit.tensors.begin(), unit.tensors.end());
  std::vector<WholeTensor> all = whole_tensors(m);
  std::erase_if(all,
                [](WholeTensor const& t) { return t.kind.starts_with(checkpoint_kind::state); });
  Index const total = detail::bytes_as_floats(all);
  detail::ModelWriter writer(files, out, tensors, type, 5'000'000'000);
  for (WholeTensor const& t : all) {
    detail::read_in_order(reader, t.kind, t.name, 0, t.elements,
                          [&](std::span<float const> values) {
                            writer.append(values);
                            detail::tell(progress, std::ssize(values) * 4, total);
                          });
  }
  return writer.finish(m.model_config);
}

/// Writes a model of transformers as a checkpoint of step 0, of one rank's weights alone: what runs
/// begin with (LoadedParts::weights).
/// @param dir of the model
/// @param out folder that will hold `latest`
/// @param files where
/// @param progress told of bytes
/// @return the checkpoint's folder
inline std::string import_checkpoint(std::string const& dir, std::string const& out,
                                     Files& files = PosixFiles::of_system(),
                                     CheckpointProgress const& progress = {}) {
  detail::ModelCheckpoint const model = detail::read_model_folder(files, dir, {});
  Manifest manifest;
  manifest.library = version;
  manifest.precision = "fp32";
  manifest.units = model.found.manifest.units;
  std::string const config = detail::join_path(dir, "config.json");
  if (detail::is_there(files, config))
    manifest.model_config = detail::read_text(files, config, Index{1} << 24);
  std::vector<std::vector<StoredSlice>> ranks(1);
  for (auto const& file : model.slices) {
    for (StoredSlice slice : file) {
      slice.type = "F32";
      if (slice.elements > 0) ranks[0].push_back(std::move(slice));
    }
  }
  SliceReader reader(files, model.found, model.slices);
  return detail::write_slices(out, std::move(manifest), std::move(ranks), reader, files, progress);
}

/// Writes a checkpoint again, cut for another number of ranks, with the same bits.
/// @param found as find_checkpoint has it
/// @param out folder that will hold `latest`
/// @param world ranks, at least 1
/// @param files where
/// @param progress told of bytes
/// @return the checkpoint's folder
inline std::string reshard_checkpoint(FoundCheckpoint const& found, std::string const& out,
                                      Index world, Files& files = PosixFiles::of_system(),
                                      CheckpointProgress const& progress = {}) {
  SliceReader reader(files, found);
  Layout const layout(detail::units_of(found.manifest), world);
  std::vector<std::vector<StoredSlice>> ranks;
  ranks.reserve(at(world));
  for (Index r = 0; r < world; ++r) {
    ranks.push_back(detail::slices_of_rank(
        found.manifest, layout, r, detail::type_of_kind(reader, checkpoint_kind::state),
        detail::type_of_kind(reader, checkpoint_kind::parameter)));
  }
  return detail::write_slices(out, found.manifest, std::move(ranks), reader, files, progress);
}

}  // namespace zero
