// SPDX-License-Identifier: Apache-2.0
#pragma once
// What zero-checkpoint does. Results on the standard output, one line a fact with tabs between;
// what is wrong with a checkpoint is a CheckpointError.

#include <zero/checkpoint.hpp>

#include <zero_checkpoint/arguments.hpp>
#include <zero_checkpoint/bar.hpp>

#include <iostream>

namespace zero_checkpoint {

using Strings = std::span<char const* const>;

inline std::string number_text(double x) { return zero::shortest_text(x); }

inline std::string shape_text(std::vector<Index> const& shape) {
  std::string text;
  for (Index extent : shape) text += (text.empty() ? "" : "x") + std::to_string(extent);
  return text.empty() ? "1" : text;
}

/// A text of a checkpoint on one line: what would break it, or move a terminal's cursor, is
/// escaped.
inline std::string plain(std::string_view text) {
  std::string out;
  for (char c : text) {
    auto const code = static_cast<unsigned char>(c);
    if (code >= 0x20 && code != 0x7f && c != '\\') {
      out += c;
      continue;
    }
    out += "\\x";
    out += "0123456789abcdef"[code >> 4];
    out += "0123456789abcdef"[code & 15];
  }
  return out;
}

/// A script must not take half of the facts for all of them.
/// @throws zero::Error where the standard output could not be written
inline void require_output() {
  if (!std::cout.flush()) throw zero::Error("zero-checkpoint: cannot write the standard output");
}

/// The facts of a checkpoint, without a look at its tensors' bytes.
inline int inspect(Strings arguments) {
  Arguments const line("inspect", arguments, 1, {});
  zero::FoundCheckpoint const found = zero::find_checkpoint(line.folder(0));
  zero::Manifest const& m = found.manifest;
  auto const fact = [](std::string_view name, auto const& value) {
    std::cout << name << "\t" << value << "\n";
  };
  fact("folder", plain(found.folder));
  fact("version", m.version);
  fact("library", plain(m.library));
  fact("step", m.step);
  fact("updates", m.updates);
  fact("skipped", m.skipped);
  fact("learning_rate", number_text(m.learning_rate));
  fact("stage", m.stage);
  fact("world", m.world);
  fact("precision", plain(m.precision));
  fact("optimizer", m.optimizer.name.empty() ? "none" : plain(m.optimizer.name));
  for (auto const& [name, value] : m.optimizer.settings)
    fact("optimizer." + plain(name), number_text(value));
  fact("loss_scale", number_text(static_cast<double>(m.loss_scale.scale)));
  fact("seed", m.seed);
  fact("data.epoch", m.data.epoch);
  fact("data.samples", m.data.samples);
  fact("metric", m.metric ? number_text(*m.metric) : "none");
  fact("user", boost::json::serialize(m.user));
  for (zero::CheckpointFile const& file : m.files)
    std::cout << "file\t" << plain(file.name) << "\t" << file.bytes << "\n";
  for (zero::CheckpointUnit const& unit : m.units) {
    for (zero::CheckpointTensor const& t : unit.tensors) {
      std::cout << "tensor\t" << plain(t.name) << "\t" << shape_text(t.shape) << "\t"
                << (t.trainable ? "trained" : "frozen") << "\n";
    }
  }
  return 0;
}

/// One checkpoint, or what `latest` names and all others in the folder.
inline int verify(Strings arguments) {
  Arguments const line("verify", arguments, 1, {});
  for (zero::FoundCheckpoint const& found : zero::find_checkpoints(line.folder(0))) {
    Bar bar("verifying");
    zero::verify_checkpoint(found, zero::PosixFiles::of_system(), bar.progress());
    std::cout << plain(found.folder) << "\tok\n";
  }
  return 0;
}

/// A checkpoint's weights as transformers reads them.
inline int export_model(Strings arguments) {
  Arguments const line("export", arguments, 2, {"--dtype"});
  std::string type = line.text("--dtype");
  if (!type.empty()) {
    static std::map<std::string, std::string> const types{{"fp32", "F32"},  {"float32", "F32"},
                                                          {"bf16", "BF16"}, {"bfloat16", "BF16"},
                                                          {"fp16", "F16"},  {"float16", "F16"}};
    auto const known = types.find(type);
    if (known == types.end()) line.refuse("--dtype wants fp32, bf16 or fp16, not '" + type + "'");
    type = known->second;
  }
  Bar bar("exporting");
  auto const names = zero::export_checkpoint(zero::find_checkpoint(line.folder(0)), line.folder(1),
                                             type, zero::PosixFiles::of_system(), bar.progress());
  for (std::string const& name : names) std::cout << plain(line.folder(1) + "/" + name) << "\n";
  return 0;
}

/// A model of transformers as a checkpoint.
inline int import_model(Strings arguments) {
  Arguments const line("import", arguments, 2, {});
  Bar bar("importing");
  std::cout << plain(zero::import_checkpoint(line.folder(0), line.folder(1),
                                             zero::PosixFiles::of_system(), bar.progress()))
            << "\n";
  return 0;
}

/// The same checkpoint, cut for another number of ranks.
inline int reshard(Strings arguments) {
  Arguments const line("reshard", arguments, 2, {"--world"});
  Index const world = line.number("--world", 1, 1 << 20);
  Bar bar("writing");
  std::cout << plain(zero::reshard_checkpoint(zero::find_checkpoint(line.folder(0)), line.folder(1),
                                              world, zero::PosixFiles::of_system(), bar.progress()))
            << "\n";
  return 0;
}

/// Tensors of two checkpoints, bit by bit, and how far they had come. @return 1 where they differ
inline int diff(Strings arguments) {
  Arguments const line("diff", arguments, 2, {});
  Bar bar("comparing");
  auto const differences = zero::diff_checkpoints(zero::find_checkpoint(line.folder(0)),
                                                  zero::find_checkpoint(line.folder(1)),
                                                  zero::PosixFiles::of_system(), bar.progress());
  for (zero::CheckpointDifference const& d : differences)
    std::cout << plain(d.what) << "\t" << plain(d.left) << "\t" << plain(d.right) << "\n";
  return differences.empty() ? 0 : 1;
}

}  // namespace zero_checkpoint
