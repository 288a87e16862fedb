// SPDX-License-Identifier: Apache-2.0
#pragma once
// Short ways to read a configuration and to look at what is said about it.

#include <zero/config.hpp>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace config_test {

using zero::Index;

/// Files of cases stand there.
inline std::filesystem::path cases_folder() {
  return std::filesystem::path(ZERO_CONFIG_CASES) / "cases";
}

/// What the table's rows marked auto assume that the caller says.
inline zero::TrainingArguments table_arguments() {
  return {.per_device_train_batch_size = 4,
          .gradient_accumulation_steps = 2,
          .learning_rate = 5e-5,
          .adam_beta1 = 0.9,
          .adam_beta2 = 0.999,
          .adam_epsilon = 1e-8,
          .weight_decay = 0.01,
          .max_grad_norm = 1.0,
          .bf16 = true,
          .warmup_steps = 100,
          .max_steps = 1000,
          .hidden_size = 1024};
}

/// A configuration, or its problems.
struct Outcome {
  std::optional<zero::ResolvedConfig> config{};
  std::vector<zero::Problem> problems{};
  std::string text{};  ///< of all problems

  bool names(std::string_view path) const {
    return std::ranges::any_of(problems, [&](auto const& p) { return p.path == path; });
  }
  bool warns(std::string_view part) const {
    return config && std::ranges::any_of(config->warnings, [&](std::string const& w) {
             return w.find(part) != std::string::npos;
           });
  }
  bool says(std::string_view part) const { return text.find(part) != std::string::npos; }
};

inline Outcome load(zero::ConfigSource const& source,
                    std::optional<zero::TrainingArguments> const& arguments = {}, Index world = 1,
                    zero::JsonForm form = zero::JsonForm::strict) {
  Outcome outcome;
  try {
    outcome.config = zero::load_config(source, arguments ? &*arguments : nullptr, world, form);
  } catch (zero::ConfigError const& e) {
    outcome.problems = e.problems;
    outcome.text = e.what();
  }
  return outcome;
}
inline Outcome load_text(std::string const& text,
                         std::optional<zero::TrainingArguments> const& arguments = {},
                         Index world = 1) {
  return load(zero::ConfigText{text}, arguments, world);
}
inline Outcome load_case(std::string const& name,
                         std::optional<zero::TrainingArguments> const& arguments = {},
                         Index world = 1) {
  return load(zero::ConfigFile{cases_folder() / name}, arguments, world);
}

/// Sets a value at a path of objects: put_at(o, "a.b", 1) makes {"a": {"b": 1}}.
inline void put_at(boost::json::object& object, std::string_view path, boost::json::value value) {
  boost::json::object* here = &object;
  for (std::size_t point; (point = path.find('.')) != std::string_view::npos;
       path.remove_prefix(point + 1)) {
    boost::json::value& inner = (*here)[path.substr(0, point)];
    if (!inner.is_object()) inner = boost::json::object();
    here = &inner.get_object();
  }
  (*here)[path] = std::move(value);
}

/// A configuration of one micro-batch sample with further members: `with(R"("zero_optimization":
/// {})")`.
inline std::string with(std::string const& members) {
  return R"({"train_micro_batch_size_per_gpu": 1)" + (members.empty() ? "" : ", " + members) + "}";
}

}  // namespace config_test
