// SPDX-License-Identifier: Apache-2.0
#pragma once
// A model as transformers keeps it: `model.safetensors`, or shards with `model.safetensors.index.
// json`, whole tensors by name. Which files a folder has, which tensors they hold, and how new ones
// are cut.

#include <zero/checkpoint/block_writer.hpp>
#include <zero/checkpoint/slice_reader.hpp>

#include <cmath>

namespace zero {

/// What the model calls a tensor of a file; an empty text: it is none of the model's.
using RenameTensor = std::function<std::string(std::string const&)>;

namespace detail {

inline constexpr std::string_view model_file = "model.safetensors";
inline constexpr std::string_view model_index = "model.safetensors.index.json";

/// The safetensors files of a folder, and what an index says of each tensor.
struct ModelFolder {
  std::vector<std::string> names;
  std::map<std::string, std::string> place;  ///< tensor to file; empty without an index
};

inline ModelFolder find_model_files(Files& files, std::string const& dir) {
  ModelFolder folder;
  if (is_there(files, join_path(dir, std::string(model_file)))) {
    folder.names.emplace_back(model_file);
    return folder;
  }
  std::string const path = join_path(dir, std::string(model_index));
  if (!is_there(files, path)) {
    throw CheckpointError("checkpoint: '" + dir + "' has neither " + std::string(model_file) +
                          " nor " + std::string(model_index));
  }
  std::string const where = "'" + path + "'";
  boost::json::object const object =
      read_json_object(read_text(files, path, max_manifest_bytes), where);
  JsonMembers const map = JsonMembers(object, where).members("weight_map");
  for (auto const& member : JsonMembers(object, where).object("weight_map")) {
    std::string const file = map.text(member.key());
    if (!is_plain_name(file)) map.refuse("the file name '" + file + "' leaves the folder");
    folder.place.emplace(member.key(), file);
    if (std::ranges::find(folder.names, file) == folder.names.end()) folder.names.push_back(file);
  }
  std::ranges::sort(folder.names);
  return folder;
}

/// A folder of a model as a checkpoint of one rank's weights, with whole tensors as slices.
struct ModelCheckpoint {
  FoundCheckpoint found;
  std::vector<std::vector<StoredSlice>> slices;  ///< by file
};

inline ModelCheckpoint read_model_folder(Files& files, std::string const& dir,
                                         RenameTensor const& rename) {
  ModelFolder const folder = find_model_files(files, dir);
  ModelCheckpoint model;
  model.found.folder = dir;
  CheckpointUnit unit{"model", {}};
  std::unordered_set<std::string> stored;
  std::unordered_set<std::string> ours;
  for (std::string const& name : folder.names) {
    std::string const path = join_path(dir, name);
    Index const bytes = files.size(path);
    check_file(bytes, "opening", path);
    model.found.manifest.files.push_back({name, bytes, {}});
    OpenFile file = OpenFile::open(files, path);
    SafetensorsHeader const header = read_safetensors_header(
        [&](Index offset, std::span<std::byte> to) { file.read(to, offset); }, bytes,
        "'" + path + "'");
    auto& slices = model.slices.emplace_back();
    for (SafetensorsEntry const& entry : header.entries) {
      auto const refuse = [&](std::string const& why) {
        throw CheckpointError("checkpoint: '" + path + "': tensor '" + entry.name + "' " + why);
      };
      auto const place = folder.place.find(entry.name);
      if (!folder.place.empty() && (place == folder.place.end() || place->second != name))
        refuse("is not there by the index");
      if (!stored.insert(entry.name).second) refuse("stands in two files");
      std::string const tensor = rename ? rename(entry.name) : entry.name;
      if (tensor.empty()) continue;
      if (!ours.insert(tensor).second) refuse("is the second one for the model's '" + tensor + "'");
      if (entry.type != "F32" && entry.type != "BF16" && entry.type != "F16")
        refuse("has elements of type " + entry.type + "; expected F32, BF16 or F16");
      unit.tensors.push_back({tensor, entry.shape, true});
      slices.push_back({std::string(checkpoint_kind::master), tensor, entry.shape, 0,
                        *elements_of(entry.shape), entry.type, entry.begin});
    }
  }
  for (auto const& [tensor, file] : folder.place) {
    if (!stored.contains(tensor))
      throw CheckpointError("checkpoint: '" + dir + "': tensor '" + tensor + "' is not in '" +
                            file + "', where the index has it");
  }
  model.found.manifest.units.push_back(std::move(unit));
  return model;
}

/// Writes whole tensors, in order, into as many files as their sizes ask for. What is there under
/// these names is replaced, each file in one step, the index last; of a model that was there before
/// nothing stays by which it would be read instead, and shards of two models never stand under one
/// index. One that is not finished leaves no files of its own.
class ModelWriter {
 public:
  /// @param tensors in the order in which their values will come
  /// @param type of all elements
  /// @param shard_bytes most bytes of tensors in a file, unless a single one has more
  ModelWriter(Files& files, std::string dir, std::vector<CheckpointTensor> const& tensors,
              std::string type, Index shard_bytes)
      : files_(files), dir_(std::move(dir)), type_(std::move(type)) {
    Index in_shard = 0;
    for (CheckpointTensor const& t : tensors) {
      Index const bytes = *elements_of(t.shape) * bytes_of_type(type_);
      if (shards_.empty() || (in_shard > 0 && in_shard + bytes > shard_bytes)) {
        shards_.emplace_back();
        in_shard = 0;
      }
      in_shard += bytes;
      total_bytes_ += bytes;
      shards_.back().entries.push_back({t.name, type_, t.shape, 0, 0});
    }
    if (shards_.empty()) shards_.emplace_back();
    make_folders(files_, dir_);
    require_no_checkpoint(files_, dir_, "a folder for a model");
  }
  ModelWriter(ModelWriter const&) = delete;
  ModelWriter& operator=(ModelWriter const&) = delete;
  ~ModelWriter() {
    writer_.reset();
    for (std::size_t s = renamed_; s < opened_; ++s) {
      try {
        files_.remove(made(name_of(s)));
      } catch (...) {  // the next one that writes here takes it away
      }
    }
  }

  /// The next values of the tensors, in order, any number at once, but of one tensor.
  /// @throws CheckpointError for a number that is finite, and beyond what the type holds
  void append(std::span<float const> values) {
    from_floats(type_, values, bytes_);
    if (type_ == "F16") require_finite(values);
    appended_ += std::ssize(values);
    std::span<std::byte const> rest = bytes_;
    while (!rest.empty()) {
      if (!writer_) open();
      if (written_ == shards_[current_].file_bytes) {  // a shard without elements
        close();
        continue;
      }
      Index const left = shards_[current_].file_bytes - written_;
      std::size_t const n = std::min(rest.size(), at(left));
      writer_->append(rest.first(n));
      written_ += static_cast<Index>(n);
      rest = rest.subspan(n);
      if (written_ == shards_[current_].file_bytes) close();
    }
  }
  /// @param config the text of config.json, or empty for none
  /// @return the names of the files
  std::vector<std::string> finish(std::string const& config) {
    while (current_ < shards_.size()) {  // shards without elements
      if (!writer_) open();
      if (written_ != shards_[current_].file_bytes)
        throw CheckpointError("checkpoint: '" + dir_ + "': the model ended too early");
      close();
    }
    bool const indexed = shards_.size() > 1;
    // An index names shards that are now replaced one after the other.
    if (indexed) remove(model_index);
    for (; renamed_ < opened_; ++renamed_) {
      std::string const from = made(name_of(renamed_));
      check_file(files_.rename(from, join_path(dir_, name_of(renamed_))), "renaming", from);
    }
    if (!config.empty()) replace(std::string("config.json"), config);
    sync_folder(files_, dir_);
    if (indexed) {
      boost::json::object map;
      for (std::size_t s = 0; s < shards_.size(); ++s) {
        for (SafetensorsEntry const& entry : shards_[s].entries) map[entry.name] = names_[s];
      }
      replace(std::string(model_index),
              exact_json(boost::json::object{{"metadata", {{"total_size", total_bytes_}}},
                                             {"weight_map", map}}) +
                  "\n");
      remove(model_file);  // which would be read, and not the index
    } else {
      remove(model_index);
    }
    return names_;
  }

 private:
  std::string name_of(std::size_t shard) const {
    if (shards_.size() == 1) return std::string(model_file);
    auto const digits = [](std::size_t n) {
      std::string const text = std::to_string(n);
      return std::string(text.size() < 5 ? 5 - text.size() : 0, '0') + text;
    };
    return "model-" + digits(shard + 1) + "-of-" + digits(shards_.size()) + ".safetensors";
  }
  void open() {
    SafetensorsHeader& header = shards_[current_];
    header.metadata["format"] = "pt";  // what transformers asks for
    std::string const text = write_safetensors_header(header);
    files_.remove(made(name_of(current_)));  // left by one that was killed
    opened_ = current_ + 1;
    writer_.emplace(files_, dir_, "." + name_of(current_) + ".saving", checkpoint_block_bytes);
    writer_->append(std::as_bytes(std::span(text)));
    written_ = std::ssize(text);
  }
  void close() {
    writer_->finish();
    writer_.reset();
    names_.push_back(name_of(current_++));
  }
  /// Where a file is written before it has its name.
  std::string made(std::string const& name) const {
    return join_path(dir_, "." + name + ".saving");
  }
  /// Takes a file away that an earlier model has left; it need not be there.
  void remove(std::string_view name) {
    std::string const path = join_path(dir_, std::string(name));
    int const removed = files_.remove(path);
    if (removed == -ENOENT) return;
    check_file(removed, "removing", path);
    sync_folder(files_, dir_);
  }
  void require_finite(std::span<float const> values) const {
    auto const bad = std::ranges::find_if(values, [](float x) {
      return std::isfinite(x) && !std::isfinite(static_cast<float>(fp16(x)));
    });
    if (bad == values.end()) return;
    Index element = appended_ + (bad - values.begin());
    for (SafetensorsHeader const& shard : shards_) {
      for (SafetensorsEntry const& entry : shard.entries) {
        Index const elements = *elements_of(entry.shape);
        if (element < elements) {
          throw CheckpointError("checkpoint: '" + dir_ + "': element " + std::to_string(element) +
                                " of tensor '" + entry.name + "' is " + std::to_string(*bad) +
                                "; F16 holds at most 65504, take BF16 or F32");
        }
        element -= elements;
      }
    }
  }
  void replace(std::string const& name, std::string const& text) {
    replace_text(files_, dir_, name, text);
    names_.push_back(name);
  }

  Files& files_;
  std::string dir_;
  std::string type_;
  std::vector<SafetensorsHeader> shards_;
  Index total_bytes_ = 0;
  std::size_t current_ = 0;  // shard that is written
  std::size_t opened_ = 0;   // shards that have a file
  std::size_t renamed_ = 0;  // of them under their names
  Index written_ = 0;        // bytes of the current one
  Index appended_ = 0;       // elements of all
  std::optional<BlockWriter> writer_;
  std::vector<std::byte> bytes_;
  std::vector<std::string> names_;
};

}  // namespace detail

}  // namespace zero
