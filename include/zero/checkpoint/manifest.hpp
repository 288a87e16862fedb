// SPDX-License-Identifier: Apache-2.0
#pragma once
// The manifest of a checkpoint: what was trained and how far it had come, and every file with its
// size and checksums. It is written last, and its last member is its own checksum: a folder with a
// manifest that reads is a checkpoint that is whole.

#include <zero/checkpoint/block_file.hpp>
#include <zero/checkpoint/safetensors.hpp>
#include <zero/optim/loss_scale.hpp>

#include <unordered_set>

namespace zero {

/// Where a run stands in its data: what `sample_order` goes on from.
struct DataPosition {
  Index epoch = 0;    ///< from 0
  Index samples = 0;  ///< of this epoch that all ranks together have taken
};

/// One tensor of a model, as a checkpoint knows it.
struct CheckpointTensor {
  std::string name;          ///< as the model calls it
  std::vector<Index> shape;  ///< whole, not a slice's
  bool trainable = true;     ///< it has float weights and optimizer state; else the parameter alone
};

/// Tensors that were gathered together.
struct CheckpointUnit {
  std::string name;                       ///< as the model calls it
  std::vector<CheckpointTensor> tensors;  ///< in the model's order
};

/// The optimizer that a checkpoint was made with.
struct CheckpointOptimizer {
  std::string name;                        ///< "AdamW"; empty: the checkpoint has weights alone
  std::vector<std::string> states;         ///< names of the numbers it keeps an element
  std::map<std::string, double> settings;  ///< "lr": 0.001, ...
  std::uint64_t hash = 0;                  ///< of what it does beside its settings
};

/// How far a loss scale had come.
struct CheckpointLossScale {
  bool moves = false;      ///< it is dynamic
  float scale = 1;         ///< what the next pass would have used
  LossScaleState state{};  ///< of a dynamic one
  Index bad_losses = 0;    ///< steps in a row that were skipped for a loss
};

/// Everything that a checkpoint says of itself.
struct Manifest {
  Index version = 1;                           ///< of the format
  std::string library{};                       ///< version that wrote it
  Index step = 0;                              ///< steps made, skipped ones too
  Index updates = 0;                           ///< of them good ones
  Index skipped = 0;                           ///< of them skipped ones
  double learning_rate = 0;                    ///< of the last update
  int stage = 0;                               ///< of ZeRO
  Index world = 1;                             ///< ranks, and files
  std::string precision{};                     ///< "bf16"
  CheckpointOptimizer optimizer{};             ///< and its hyper-parameters
  CheckpointLossScale loss_scale{};            ///< as it stood
  std::uint64_t seed = 0;                      ///< Options::seed, the key of all noise
  DataPosition data{};                         ///< as the caller gave it
  std::optional<double> metric{};              ///< as the caller gave it
  boost::json::object user{};                  ///< the caller's own section
  std::string model_config{};                  ///< the model's config.json, where it has one
  std::vector<CheckpointUnit> units{};         ///< the model's tensors
  Index block_bytes = checkpoint_block_bytes;  ///< of a checksum
  std::vector<CheckpointFile> files{};         ///< one a rank, in rank order
};

namespace detail {

inline constexpr std::string_view manifest_name = "manifest.json";
inline constexpr std::string_view manifest_format = "zero checkpoint";
inline constexpr Index max_manifest_bytes = Index{1} << 30;

/// The end of a manifest: a comma, its checksum, and the brace.
inline std::string manifest_end(std::string_view body) {
  return R"("checksum":")" + hex_text(checksum(body.data(), body.size())) + "\"}\n";
}

inline boost::json::object to_json(CheckpointOptimizer const& o) {
  boost::json::object settings;
  for (auto const& [name, value] : o.settings) settings[name] = value;
  return {{"name", o.name},
          {"states", boost::json::array(o.states.begin(), o.states.end())},
          {"settings", settings},
          {"hash", hex_text(o.hash)}};
}
inline boost::json::object to_json(CheckpointLossScale const& l) {
  return {{"moves", l.moves},
          {"scale", static_cast<double>(l.scale)},
          {"steps", l.state.steps},
          {"last_overflow", l.state.last_overflow},
          {"hysteresis", l.state.hysteresis},
          {"bad_losses", l.bad_losses}};
}
inline boost::json::object to_json(CheckpointUnit const& unit) {
  boost::json::array tensors;
  for (CheckpointTensor const& t : unit.tensors) {
    tensors.push_back(
        boost::json::object{{"name", t.name},
                            {"shape", boost::json::array(t.shape.begin(), t.shape.end())},
                            {"trainable", t.trainable}});
  }
  return {{"name", unit.name}, {"tensors", tensors}};
}
inline boost::json::object to_json(CheckpointFile const& file) {
  boost::json::array blocks;
  for (std::uint64_t block : file.blocks) blocks.emplace_back(hex_text(block));
  return {{"name", file.name}, {"bytes", file.bytes}, {"blocks", blocks}};
}

inline std::uint64_t hex_of(JsonMembers const& members, boost::json::value const& value,
                            std::string_view name) {
  auto const* const text = value.if_string();
  auto const found = text == nullptr ? std::nullopt : hex_value({text->data(), text->size()});
  if (!found) members.refuse("'" + std::string(name) + "' is not 16 hexadecimal digits");
  return *found;
}

inline CheckpointOptimizer optimizer_from(JsonMembers const& members) {
  CheckpointOptimizer o;
  o.name = members.text("name");
  for (boost::json::value const& state : members.array("states")) {
    std::string const name(state.is_string() ? state.get_string() : boost::json::string());
    if (name.empty() || name.find('/') != std::string::npos)
      members.refuse("'states' has what is no name");
    o.states.push_back(name);
  }
  JsonMembers const settings = members.members("settings");
  for (auto const& member : members.object("settings"))
    o.settings.emplace(member.key(), settings.number(member.key()));
  o.hash = hex_of(members, members.at("hash"), "hash");
  return o;
}
inline CheckpointLossScale loss_scale_from(JsonMembers const& members) {
  double const scale = members.number("scale");
  if (scale <= 0 || scale > 0x1p127) members.refuse("'scale' is no positive float");
  return {members.truth("moves"),
          static_cast<float>(scale),
          {members.count("steps"), members.count("last_overflow", -1), members.count("hysteresis")},
          members.count("bad_losses")};
}
inline CheckpointUnit unit_from(boost::json::value const& value, JsonMembers const& all) {
  if (!value.is_object()) all.refuse("'units' has what is no object");
  JsonMembers const members(value.get_object(), all.where() + ": units");
  CheckpointUnit unit{members.text("name"), {}};
  for (boost::json::value const& tensor : members.array("tensors")) {
    if (!tensor.is_object()) members.refuse("'tensors' has what is no object");
    JsonMembers const of(tensor.get_object(), all.where() + ": tensors");
    unit.tensors.push_back({of.text("name"), shape_of(of), of.truth("trainable")});
    if (!elements_of(unit.tensors.back().shape))
      of.refuse("the shape of '" + unit.tensors.back().name + "' has more than 2^60 elements");
  }
  return unit;
}
inline CheckpointFile file_from(boost::json::value const& value, JsonMembers const& all,
                                Index block_bytes) {
  if (!value.is_object()) all.refuse("'files' has what is no object");
  JsonMembers const members(value.get_object(), all.where() + ": files");
  CheckpointFile file{members.text("name"), members.count("bytes", 1), {}};
  if (!is_plain_name(file.name))
    members.refuse("the file name '" + file.name + "' leaves the folder");
  for (boost::json::value const& block : members.array("blocks"))
    file.blocks.push_back(hex_of(members, block, "blocks"));
  Index const blocks = (file.bytes - 1) / block_bytes + 1;
  if (std::ssize(file.blocks) != blocks) {
    members.refuse("'" + file.name + "' has " + std::to_string(file.blocks.size()) +
                   " checksums; expected " + std::to_string(blocks));
  }
  return file;
}

/// Names that stand twice, more files than ranks, and more elements than can be counted in bytes,
/// are refused.
inline void check(Manifest const& m, JsonMembers const& all) {
  if (std::ssize(m.files) != m.world) {
    all.refuse(std::to_string(m.files.size()) + " files; expected one a rank, " +
               std::to_string(m.world));
  }
  std::unordered_set<std::string> names;
  for (CheckpointFile const& file : m.files) {
    if (!names.insert(file.name).second) all.refuse("the file '" + file.name + "' stands twice");
  }
  names.clear();
  for (std::string const& state : m.optimizer.states) {
    if (!names.insert(state).second) all.refuse("the state '" + state + "' stands twice");
  }
  names.clear();
  // What the model and each of the optimizer's states have together, so that no sum overflows.
  Index left = (Index{1} << 60) / (1 + std::ssize(m.optimizer.states));
  for (CheckpointUnit const& unit : m.units) {
    for (CheckpointTensor const& t : unit.tensors) {
      if (!names.insert(t.name).second) all.refuse("the tensor '" + t.name + "' stands twice");
      if (t.name.empty() || t.name == "__metadata__")
        all.refuse("'" + t.name + "' is no name of a tensor");
      left -= std::min(left + 1, *elements_of(t.shape));
      if (left < 0) all.refuse("the tensors have more than 2^60 elements, states with them");
    }
  }
}

}  // namespace detail

/// The text of a manifest, with its checksum at the end.
inline std::string manifest_text(Manifest const& m) {
  boost::json::array units;
  for (CheckpointUnit const& unit : m.units) units.push_back(detail::to_json(unit));
  boost::json::array files;
  for (CheckpointFile const& file : m.files) files.push_back(detail::to_json(file));
  boost::json::object all{{"format", detail::manifest_format},
                          {"version", m.version},
                          {"library", m.library},
                          {"step", m.step},
                          {"updates", m.updates},
                          {"skipped", m.skipped},
                          {"schedule", {{"learning_rate", m.learning_rate}}},
                          {"stage", m.stage},
                          {"world", m.world},
                          {"precision", m.precision},
                          {"optimizer", detail::to_json(m.optimizer)},
                          {"loss_scale", detail::to_json(m.loss_scale)},
                          {"random", {{"seed", detail::hex_text(m.seed)}}},
                          {"data", {{"epoch", m.data.epoch}, {"samples", m.data.samples}}},
                          {"metric", nullptr},
                          {"user", m.user},
                          {"model_config", m.model_config},
                          {"units", units},
                          {"block_bytes", m.block_bytes},
                          {"files", files}};
  if (m.metric) all["metric"] = *m.metric;
  std::string text = detail::exact_json(all);
  text.erase(text.find_last_of('}'));
  text += ",\n";
  return text + detail::manifest_end(text);
}

/// Reads a manifest.
/// @param text all of it
/// @param where the file's name, for errors
/// @throws CheckpointError for a text whose checksum differs, another format or version, and for
/// anything that is missing or cannot be
inline Manifest read_manifest(std::string_view text, std::string const& where) {
  std::size_t const end = detail::manifest_end("").size();
  bool const whole =
      text.size() > end &&
      text.substr(text.size() - end) == detail::manifest_end(text.substr(0, text.size() - end));
  if (!whole) {
    throw CheckpointError("checkpoint: " + where +
                          ": damaged, or cut short: it does not end with its own checksum");
  }
  boost::json::object const object = detail::read_json_object(text, where);
  detail::JsonMembers const all(object, where);
  if (all.text("format") != detail::manifest_format)
    all.refuse("the format is '" + all.text("format") + "'; expected '" +
               std::string(detail::manifest_format) + "'");
  Manifest m;
  m.version = all.count("version");
  if (m.version != 1)
    all.refuse("format version " + std::to_string(m.version) + "; this library reads 1");
  m.library = all.text("library");
  m.step = all.count("step");
  m.updates = all.count("updates");
  m.skipped = all.count("skipped");
  m.learning_rate = all.members("schedule").number("learning_rate");
  m.stage = static_cast<int>(all.count("stage", 0, 3));
  m.world = all.count("world", 1, Index{1} << 31);
  m.precision = all.text("precision");
  m.optimizer = detail::optimizer_from(all.members("optimizer"));
  m.loss_scale = detail::loss_scale_from(all.members("loss_scale"));
  detail::JsonMembers const random = all.members("random");
  m.seed = detail::hex_of(random, random.at("seed"), "seed");
  m.data = {all.members("data").count("epoch"), all.members("data").count("samples")};
  if (!all.at("metric").is_null()) m.metric = all.number("metric");
  m.user = all.object("user");
  m.model_config = all.text("model_config");
  for (boost::json::value const& unit : all.array("units"))
    m.units.push_back(detail::unit_from(unit, all));
  m.block_bytes = all.count("block_bytes", 1, max_checkpoint_block_bytes);
  for (boost::json::value const& file : all.array("files"))
    m.files.push_back(detail::file_from(file, all, m.block_bytes));
  detail::check(m, all);
  return m;
}

}  // namespace zero
