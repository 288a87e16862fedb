// SPDX-License-Identifier: Apache-2.0
#pragma once
// The entrance of the room: a file, a text or an object, the arguments and the world become a
// resolved configuration, or one error that lists every problem.

#include <zero/config/json_reader.hpp>
#include <zero/config/judge.hpp>
#include <zero/config/resolved_json.hpp>
#include <zero/config/resolver.hpp>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

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
    findings.refuse(path.string(), "no file", "a regular file");
    return std::nullopt;
  }
  if (std::filesystem::is_directory(status)) {
    findings.refuse(path.string(), "a folder", "a regular file");
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

/// Whether more objects and lists stand inside one another than `most`.
inline bool deeper_than(boost::json::value const& value, std::size_t most) {
  auto const inside = [&](auto const& inner) {
    return std::ranges::any_of(inner, [&](auto const& element) {
      if constexpr (requires { element.value(); }) {
        return deeper_than(element.value(), most - 1);
      } else {
        return deeper_than(element, most - 1);
      }
    });
  };
  if (!value.is_object() && !value.is_array()) return false;
  if (most == 0) return true;
  return value.is_object() ? inside(value.get_object()) : inside(value.get_array());
}

/// @param what is read, as read_json
inline std::optional<boost::json::object> read_source(ConfigSource const& source, JsonForm form,
                                                      Findings& findings,
                                                      std::string const& what = {}) {
  if (auto const* object = std::get_if<boost::json::object>(&source)) {
    if (!deeper_than(*object, max_config_depth)) return *object;
    findings.refuse(
        what.empty() ? "the configuration" : what, "more of them",
        "at most " + std::to_string(max_config_depth) + " objects and lists inside one another");
    return std::nullopt;
  }
  if (auto const* text = std::get_if<ConfigText>(&source))
    return read_json(text->text, form, findings, what);
  std::filesystem::path const& path = std::get<ConfigFile>(source).path;
  std::string const extension = path.extension().string();
  if (extension == ".yaml" || extension == ".yml") {
    findings.refuse(path.string(), "YAML",
                    "JSON; accelerate's files are read by zero/config/accelerate_file.hpp, "
                    "which needs yaml-cpp (package libyaml-cpp-dev)");
    return std::nullopt;
  }
  std::optional<std::string> const text = read_config_file(path, findings);
  return text ? read_json(*text, form, findings, what) : std::nullopt;
}

/// What a resolution starts from besides the configuration.
struct ResolutionInput {
  TrainingArguments const* arguments = nullptr;  ///< judged
  Index world = 1;                               ///< ranks
  JsonForm form = JsonForm::strict;              ///< of a text
  bool is_whole = true;  ///< false: arguments or world are not known, so keys are only judged alone
};

inline void judge_world(Index world, Findings& findings) {
  if (world < 1 || world > (Index{1} << 30))
    findings.refuse("world", std::to_string(world), "at least one rank, and at most 2^30");
}

/// @param findings so far
/// @throws ConfigError with every problem
inline ResolvedConfig resolve(ConfigSource const& source, ResolutionInput const& in,
                              Findings findings) {
  auto const object = read_source(source, in.form, findings);
  if (!object) findings.raise();
  auto const* const file = std::get_if<ConfigFile>(&source);
  if (file != nullptr && in.arguments != nullptr && in.arguments->deepspeed) {
    std::filesystem::path const named(*in.arguments->deepspeed);
    if (named.lexically_normal() != file->path.lexically_normal())
      findings.warn("arguments.deepspeed: " + named.string() + " is not what is read, " +
                    file->path.string());
  }
  ConfigValues values;
  Judge(findings, values)(*object);
  if (!in.is_whole) findings.raise();
  Resolver(findings, values, in.arguments, in.world)();
  findings.raise();

  ResolvedConfig config = resolved_of(values, in.world);
  if (in.arguments != nullptr) {
    TrainingArguments const& a = *in.arguments;
    config.seed = a.seed;
    config.save_only_model = a.save_only_model.value_or(false);
    config.load_best_model_at_end = a.load_best_model_at_end.value_or(false);
    auto const total = ArgumentRules(a, values, in.world)(Auto::total_steps).value;
    if (total) config.num_updates = total->get_int64();
  }
  config.json = json_of(config, values);
  for (Key const& k : all_keys()) {
    if (k.status == KeyStatus::honoured && k.type != KeyType::section && values.find(k.path) == &k)
      config.origins[std::string(k.path)] = values.origin(k.path);
  }
  config.warnings = findings.warnings();
  return config;
}

}  // namespace detail

/// Arguments as read, with what there was to say about them.
struct LoadedArguments {
  TrainingArguments arguments{};        ///< as given
  std::vector<std::string> warnings{};  ///< about them
};

/// Arguments that may be wrong: load_config tells their problems with those of the configuration.
struct JudgedArguments {
  std::optional<TrainingArguments> arguments{};  ///< what is right; nothing: they cannot be read
  Findings findings{};                           ///< about them
};

/// Reads training arguments, and keeps what is wrong with them.
/// @param source of them
/// @param form of a text
inline JudgedArguments judge_arguments(ConfigSource const& source,
                                       JsonForm form = JsonForm::strict) {
  JudgedArguments judged;
  auto const object = detail::read_source(source, form, judged.findings, "arguments");
  if (object) judged.arguments = read_arguments(*object, judged.findings);
  return judged;
}

/// Reads training arguments.
/// @throws ConfigError with every problem
inline LoadedArguments load_arguments(ConfigSource const& source,
                                      JsonForm form = JsonForm::strict) {
  JudgedArguments judged = judge_arguments(source, form);
  judged.findings.raise();
  return {std::move(*judged.arguments), judged.findings.warnings()};
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
  detail::judge_world(world, findings);
  bool const is_whole = findings.problems().empty();
  std::optional<TrainingArguments> checked;
  if (arguments != nullptr) checked = read_arguments(arguments_json(*arguments), findings);
  return detail::resolve(source, {checked ? &*checked : nullptr, world, form, is_whole},
                         std::move(findings));
}
/// With arguments of a program's own.
inline ResolvedConfig load_config(ConfigSource const& source, TrainingArguments const& arguments,
                                  Index world = 1, JsonForm form = JsonForm::strict) {
  return load_config(source, &arguments, world, form);
}
/// With arguments that were read as well: one error lists the problems of both. Where the arguments
/// cannot be read at all, the keys of the configuration are judged alone.
inline ResolvedConfig load_config(ConfigSource const& source, JudgedArguments const& arguments,
                                  Index world = 1, JsonForm form = JsonForm::strict) {
  Findings findings = arguments.findings;
  std::size_t const before = findings.problems().size();
  detail::judge_world(world, findings);
  bool const is_whole = arguments.arguments && findings.problems().size() == before;
  return detail::resolve(
      source, {arguments.arguments ? &*arguments.arguments : nullptr, world, form, is_whole},
      std::move(findings));
}

}  // namespace zero
