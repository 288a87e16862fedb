// SPDX-License-Identifier: Apache-2.0
#pragma once
// The entrance of the room: a file, a text or an object, the arguments and the world become a
// resolved configuration, or one error that lists every problem.

#include <zero/config/json_reader.hpp>
#include <zero/config/resolved_json.hpp>
#include <zero/config/resolver.hpp>

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <variant>

namespace zero {

/// A configuration in a file.
struct ConfigFile {
  std::filesystem::path path;  ///< of a regular file
};
/// A configuration as text.
struct ConfigText {
  std::string text;  ///< one JSON object
};
/// What a configuration, or arguments, are read from. Every one behaves alike; an object cannot
/// hold what only a text can get wrong.
using ConfigSource = std::variant<ConfigFile, ConfigText, boost::json::object>;

namespace detail {

/// The whole of a regular file, at most max_config_bytes.
inline std::optional<std::string> read_config_file(std::filesystem::path const& path,
                                                   Findings& findings) {
  std::error_code code;
  std::filesystem::file_status const status = std::filesystem::status(path, code);
  if (!std::filesystem::exists(status)) {
    findings.refuse(path.string(), "no file", "the file of a configuration");
    return std::nullopt;
  }
  if (std::filesystem::is_directory(status)) {
    findings.refuse(path.string(), "a folder", "the file of a configuration");
    return std::nullopt;
  }
  std::ifstream in(path, std::ios::binary);
  std::string text(max_config_bytes + 1, '\0');  // a device may have no end
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad() || !in.is_open()) {
    findings.refuse(path.string(), "a file that cannot be read", "one that can");
    return std::nullopt;
  }
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.size() > max_config_bytes) {
    findings.refuse(path.string(), "more than " + std::to_string(max_config_bytes) + " bytes",
                    "a configuration");
    return std::nullopt;
  }
  return text;
}

inline std::optional<boost::json::object> read_source(ConfigSource const& source, JsonForm form,
                                                      Findings& findings) {
  if (auto const* object = std::get_if<boost::json::object>(&source)) return *object;
  if (auto const* text = std::get_if<ConfigText>(&source))
    return read_json(text->text, form, findings);
  std::filesystem::path const& path = std::get<ConfigFile>(source).path;
  std::string const extension = path.extension().string();
  if (extension == ".yaml" || extension == ".yml") {
    findings.refuse(path.string(), "YAML",
                    "JSON; accelerate's files are read by zero/config/accelerate_file.hpp, "
                    "which needs yaml-cpp (package libyaml-cpp-dev)");
    return std::nullopt;
  }
  std::optional<std::string> const text = read_config_file(path, findings);
  return text ? read_json(*text, form, findings) : std::nullopt;
}

}  // namespace detail

/// Arguments as read, with what there was to say about them.
struct LoadedArguments {
  TrainingArguments arguments{};        ///< as given
  std::vector<std::string> warnings{};  ///< about them
};

/// Reads training arguments.
/// @throws ConfigError with every problem
inline LoadedArguments load_arguments(ConfigSource const& source,
                                      JsonForm form = JsonForm::strict) {
  Findings findings;
  auto const object = detail::read_source(source, form, findings);
  findings.raise();
  TrainingArguments arguments = read_arguments(*object, findings);
  findings.raise();
  return {std::move(arguments), findings.warnings()};
}

/// Resolves a configuration. Needs no policy that is compiled, no tier that is built and no disk.
/// @param source the configuration
/// @param form of a text
/// @param arguments fill "auto" and absent sections; null: "auto" is refused
/// @param world ranks that samples are divided over, at least 1
/// @throws ConfigError with every problem of file and arguments; nothing has been built then
inline ResolvedConfig load_config(ConfigSource const& source,
                                  TrainingArguments const* arguments = nullptr, Index world = 1,
                                  JsonForm form = JsonForm::strict) {
  Findings findings;
  if (world < 1 || world > (Index{1} << 30))
    findings.refuse("world", std::to_string(world), "at least one rank, and at most 2^30");
  std::optional<TrainingArguments> checked;
  if (arguments != nullptr) checked = read_arguments(arguments_json(*arguments), findings);
  auto const object = detail::read_source(source, form, findings);
  if (!object || world < 1) findings.raise();
  auto const* const file = std::get_if<ConfigFile>(&source);
  if (file != nullptr && checked && checked->deepspeed &&
      *checked->deepspeed != file->path.string())
    findings.warn("arguments.deepspeed: " + *checked->deepspeed + " is not what is read, " +
                  file->path.string());
  detail::ConfigValues values;
  detail::Judge(findings, values)(*object);
  detail::Resolver(findings, values, checked ? &*checked : nullptr, world)();
  findings.raise();

  ResolvedConfig config = detail::resolved_of(values, world);
  if (checked) {
    config.seed = checked->seed;
    config.save_only_model = checked->save_only_model.value_or(false);
    config.load_best_model_at_end = checked->load_best_model_at_end.value_or(false);
    auto const total = detail::ArgumentRules(*checked, values, world)(Auto::total_steps).value;
    if (total) config.num_updates = total->get_int64();
  }
  config.json = detail::json_of(config, values);
  for (Key const& k : all_keys()) {
    if (k.status == KeyStatus::honoured && k.type != KeyType::section && values.find(k.path) == &k)
      config.origins[std::string(k.path)] = values.origin(k.path);
  }
  config.warnings = findings.warnings();
  return config;
}
/// With arguments of a program's own.
inline ResolvedConfig load_config(ConfigSource const& source, TrainingArguments const& arguments,
                                  Index world = 1, JsonForm form = JsonForm::strict) {
  return load_config(source, &arguments, world, form);
}

}  // namespace zero
