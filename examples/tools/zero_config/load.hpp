// SPDX-License-Identifier: Apache-2.0
#pragma once
// What every command does first: resolve a file, of DeepSpeed or of accelerate, with its arguments.

#include <zero/config.hpp>
#if ZERO_CONFIG_YAML
#include <zero/config/accelerate_file.hpp>
#endif

#include <zero_config/command_line.hpp>

#include <iostream>

namespace zero_config {

/// Options of every command that resolves a file.
inline std::vector<Option> loading_options(std::vector<Option> more = {}) {
  more.insert(more.end(), {{"world", "N"}, {"arguments", "ARGS.json"}, {"relaxed", ""}});
  return more;
}

/// The resolved configuration; its warnings are printed on the error stream.
/// @throws zero::ConfigError, WrongCommand
inline zero::ResolvedConfig load(CommandLine const& line) {
  auto const form = line.has("relaxed") ? zero::JsonForm::relaxed : zero::JsonForm::strict;
  zero::JudgedArguments arguments{zero::TrainingArguments{}, {}};  // which say nothing
  if (line.has("arguments"))
    arguments = zero::judge_arguments(zero::ConfigFile{line.text("arguments")}, form);
  std::optional<Index> const world = line.number("world", 1, Index{1} << 30);
  zero::ConfigFile const file{line.file()};
#if ZERO_CONFIG_YAML
  std::string const extension = file.path.extension().string();
  bool const accelerate = extension == ".yaml" || extension == ".yml";
  zero::ResolvedConfig config =
      accelerate ? zero::load_accelerate_file(file.path, arguments, world.value_or(0), form)
                 : zero::load_config(file, arguments, world.value_or(1), form);
#else
  zero::ResolvedConfig config = zero::load_config(file, arguments, world.value_or(1), form);
#endif
  for (std::string const& warning : config.warnings) std::cerr << "warning: " << warning << "\n";
  return config;
}

}  // namespace zero_config
