// SPDX-License-Identifier: Apache-2.0
#pragma once
// How training arguments meet a configuration: "auto" is filled from them, a value that says
// something else is refused, a key that the file leaves out keeps its default with a warning. The
// rules are those of transformers' and accelerate's integration of DeepSpeed.

#include <zero/config/training_arguments.hpp>
#include <zero/config/values.hpp>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

namespace zero::detail {

/// What the arguments say about a key.
struct ArgumentSays {
  std::optional<boost::json::value> value{};
  std::string names;  ///< of the arguments that say it, for messages
};

/// Whether one of the arguments in `names` was refused: that it says nothing now is no second
/// problem.
inline bool refused_argument_in(Findings const& findings, std::string const& names) {
  std::string const prefix = "arguments.";
  return std::ranges::any_of(findings.problems(), [&](Problem const& p) {
    return p.path.starts_with(prefix) &&
           names.find(p.path.substr(prefix.size())) != std::string::npos;
  });
}

/// Updates of a run as transformers counts them: an epoch has ceil(ceil(samples / (micro-batch x
/// world)) / accumulation) updates, at least one; epochs times that is rounded up.
inline Index updates_of(double epochs, Index samples, Index micro_batch, Index accumulation,
                        Index world) {
  auto const divided_up = [](Index a, Index b) { return a / b + (a % b != 0 ? 1 : 0); };
  Index const a_rank = divided_up(divided_up(samples, micro_batch), world);
  double const updates = std::ceil(epochs * static_cast<double>(divided_up(a_rank, accumulation)));
  return updates < 0x1p62 ? static_cast<Index>(updates) : Index{1} << 62;
}

/// The arguments as values of keys. Batch sizes must be in `values` before the updates are asked
/// for.
class ArgumentRules {
 public:
  ArgumentRules(TrainingArguments const& arguments, ConfigValues const& values, Index world)
      : a_(arguments), values_(values), world_(world) {}

  ArgumentSays operator()(Auto rule) const {
    switch (rule) {
      case Auto::micro_batch:
        return says(a_.per_device_train_batch_size, "per_device_train_batch_size");
      case Auto::accumulation:
        return says(a_.gradient_accumulation_steps, "gradient_accumulation_steps");
      case Auto::train_batch:
        return train_batch();
      case Auto::max_grad_norm:
        return says(a_.max_grad_norm, "max_grad_norm");
      case Auto::learning_rate:
        return says(a_.learning_rate, "learning_rate");
      case Auto::epsilon:
        return says(a_.adam_epsilon, "adam_epsilon");
      case Auto::weight_decay:
        return says(a_.weight_decay, "weight_decay");
      case Auto::betas: {
        ArgumentSays s{{}, "adam_beta1 and adam_beta2"};
        if (a_.adam_beta1 && a_.adam_beta2)
          s.value = boost::json::array{*a_.adam_beta1, *a_.adam_beta2};
        return s;
      }
      case Auto::nothing:
        return {boost::json::value(0.0), "a rule: 0"};
      case Auto::no_gather:
        return {boost::json::value(false), "a rule: false"};
      case Auto::total_steps:
        return total_steps();
      case Auto::warmup_steps:
        return warmup_steps();
      case Auto::fp16:
        return precision(a_.fp16, a_.fp16_full_eval, bf16_on(), "fp16");
      case Auto::bf16:
        return precision(a_.bf16, a_.bf16_full_eval, fp16_on(), "bf16");
      case Auto::hidden_squared:
        return hidden([](Index h) { return h * h; }, "hidden_size^2");
      // 0.9 h^2 rounded down, in whole numbers: 9 h^2 / 10.
      case Auto::prefetch:
        return hidden([](Index h) { return h * h / 10 * 9 + h * h % 10 * 9 / 10; },
                      "floor(0.9 hidden_size^2)");
      case Auto::persistence:
        return hidden([](Index h) { return 10 * h; }, "10 hidden_size");
      default:
        return {};
    }
  }

  /// Whether a value in the file has to be what the arguments say.
  static bool must_match(Auto rule) {
    return rule != Auto::none && rule != Auto::nothing && rule != Auto::no_gather &&
           rule != Auto::hidden_squared && rule != Auto::prefetch && rule != Auto::persistence;
  }

 private:
  template <class T>
  static ArgumentSays says(std::optional<T> const& value, std::string names) {
    if (!value) return {{}, std::move(names)};
    return {boost::json::value(*value), std::move(names)};
  }
  bool fp16_on() const { return a_.fp16.value_or(false) || a_.fp16_full_eval.value_or(false); }
  bool bf16_on() const { return a_.bf16.value_or(false) || a_.bf16_full_eval.value_or(false); }
  /// A flag that is not given is off where the other one is on.
  static ArgumentSays precision(std::optional<bool> flag, std::optional<bool> evaluation,
                                bool other, std::string const& name) {
    ArgumentSays s{{}, name};
    if (flag || evaluation) {
      s.value = flag.value_or(false) || evaluation.value_or(false);
      if (!flag) s.names = name + "_full_eval";
    } else if (other) {
      s.value = false;
      s.names = name == "fp16" ? "bf16" : "fp16";
    }
    return s;
  }
  ArgumentSays hidden(Index (*formula)(Index), std::string const& text) const {
    if (!a_.hidden_size) return {{}, "hidden_size"};
    return {boost::json::value(formula(*a_.hidden_size)),
            text + " with hidden_size " + std::to_string(*a_.hidden_size)};
  }
  /// From the arguments; what they do not say, from the file.
  std::optional<Index> size(std::optional<Index> argument, char const* path) const {
    if (argument) return argument;
    if (values_.given(path) && values_.known(path) && !values_.is_null(path))
      return values_.whole(path);
    return std::nullopt;
  }
  ArgumentSays train_batch() const {
    ArgumentSays s{{}, "per_device_train_batch_size x gradient_accumulation_steps x world"};
    auto const micro = size(a_.per_device_train_batch_size, "train_micro_batch_size_per_gpu");
    auto const steps = size(a_.gradient_accumulation_steps, "gradient_accumulation_steps");
    if (micro && steps && *micro <= (Index{1} << 62) / *steps / world_)
      s.value = *micro * *steps * world_;
    return s;
  }
  ArgumentSays total_steps() const {
    if (a_.max_steps.value_or(-1) > 0) return says(a_.max_steps, "max_steps");
    ArgumentSays s{{}, "max_steps, or num_train_epochs and num_train_samples"};
    bool const batch = values_.given("train_micro_batch_size_per_gpu") &&
                       values_.known("train_micro_batch_size_per_gpu") &&
                       values_.known("gradient_accumulation_steps");
    if (a_.num_train_epochs && a_.num_train_samples && batch) {
      s.value = updates_of(*a_.num_train_epochs, *a_.num_train_samples,
                           values_.whole("train_micro_batch_size_per_gpu"),
                           values_.whole("gradient_accumulation_steps"), world_);
      s.names = "num_train_epochs and num_train_samples";
    }
    return s;
  }
  ArgumentSays warmup_steps() const {
    if (a_.warmup_steps.value_or(0) > 0) return says(a_.warmup_steps, "warmup_steps");
    if (a_.warmup_ratio) {
      ArgumentSays const total = total_steps();
      if (*a_.warmup_ratio == 0) return {boost::json::value(Index{0}), "warmup_ratio"};
      if (!total.value) return {{}, "warmup_ratio and " + total.names};
      double const steps =
          std::ceil(*a_.warmup_ratio * static_cast<double>(total.value->get_int64()));
      return {boost::json::value(static_cast<Index>(steps)), "warmup_ratio of " + total.names};
    }
    return says(a_.warmup_steps, "warmup_steps or warmup_ratio");
  }

  TrainingArguments const& a_;
  ConfigValues const& values_;
  Index world_;
};

}  // namespace zero::detail
