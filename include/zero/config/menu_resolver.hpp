// SPDX-License-Identifier: Apache-2.0
#pragma once
// The optimizer and the schedule of a configuration: the file's, else the arguments', else none,
// which leaves them to the program.

#include <zero/config/argument_rules.hpp>

#include <utility>

namespace zero::detail {

/// Chooses and completes the sections optimizer and scheduler.
class MenuResolver {
 public:
  MenuResolver(Findings& findings, ConfigValues& values, TrainingArguments const& arguments,
               ArgumentRules const& rules)
      : findings_(findings), values_(values), arguments_(arguments), rules_(rules) {}

  /// Before arguments are held against values.
  void choose_optimizer() {
    std::string_view type = "AdamW";
    if (arguments_.optim) {
      type = type_of(*arguments_.optim);
      if (type.empty()) {
        findings_.refuse(
            "arguments.optim", quoted_json(Json(*arguments_.optim)),
            "one of adamw_torch, adamw_torch_fused, adamw_hf, adamw_apex_fused, adamw, sgd, "
            "adagrad, lion_32bit, lion");
        return;
      }
    }
    if (values_.given("optimizer")) {
      if (arguments_.optim && !values_.wrong("optimizer") && values_.optimizer_type != type &&
          !(values_.optimizer_type == "Adam" && type == "AdamW"))
        findings_.refuse("optimizer.type", quoted_json(Json(values_.optimizer_type)),
                         std::string(type) + ", as the arguments say in optim");
      return;
    }
    auto const& a = arguments_;
    if (!a.optim && !a.learning_rate && !a.adam_beta1 && !a.adam_beta2 && !a.adam_epsilon &&
        !a.weight_decay)
      return;  // the program's own
    // What the arguments leave out takes transformers' defaults.
    values_.optimizer_type = type;
    auto const set = [&](char const* name, Json value, bool given) {
      std::string const path = std::string("optimizer.params.") + name;
      if (values_.find(path) != nullptr)
        values_.set(path, std::move(value), given ? "arguments" : "transformers' default");
    };
    values_.set("optimizer.type", boost::json::string(type),
                a.optim ? "arguments: optim" : "transformers' default");
    set("lr", a.learning_rate.value_or(5e-5), a.learning_rate.has_value());
    set("betas", boost::json::array{a.adam_beta1.value_or(0.9), a.adam_beta2.value_or(0.999)},
        a.adam_beta1 || a.adam_beta2);
    if (type == "AdamW") set("eps", a.adam_epsilon.value_or(1e-8), a.adam_epsilon.has_value());
    set("weight_decay", a.weight_decay.value_or(0), a.weight_decay.has_value());
  }

  /// After the batch sizes, which count a run's updates.
  void choose_schedule() {
    auto const& a = arguments_;
    if (values_.given("scheduler")) {
      if (a.lr_scheduler_type && !values_.wrong("scheduler") &&
          counterpart(*a.lr_scheduler_type) != values_.scheduler_type)
        findings_.refuse("scheduler.type", quoted_json(Json(values_.scheduler_type)),
                         (counterpart(*a.lr_scheduler_type).empty()
                              ? "no scheduler section"
                              : std::string(counterpart(*a.lr_scheduler_type))) +
                             ", as the arguments say in lr_scheduler_type " + *a.lr_scheduler_type);
      return;
    }
    bool const asked = a.lr_scheduler_type || a.lr_scheduler_kwargs ||
                       a.warmup_steps.value_or(0) > 0 || a.warmup_ratio.value_or(0) > 0;
    ArgumentSays const total = rules_(Auto::total_steps);
    if (!asked && !total.value) return;  // the program's own
    std::string const type = a.lr_scheduler_type.value_or("linear");
    values_.scheduler_type = type;
    values_.set("scheduler.type", boost::json::string(type),
                a.lr_scheduler_type ? "arguments: lr_scheduler_type" : "transformers' default");
    auto const take = [&](std::string const& path, Json const& value, std::string const& names) {
      if (std::optional<Json> fit = fitted(value, *values_.find(path))) {
        values_.set(path, std::move(*fit), names);
      } else {
        findings_.refuse("arguments", quoted_json(value) + " from " + names,
                         expected_instead_of(value, *values_.find(path)));
      }
    };
    if (values_.find("scheduler.params.num_training_steps") != nullptr) {
      if (!total.value) {
        if ((!a.num_train_epochs || a.num_train_samples) &&
            !refused_argument_in(findings_, total.names))
          findings_.refuse("arguments.max_steps", "nothing",
                           total.names + ": lr_scheduler_type " + type + " needs it");
        return;
      }
      take("scheduler.params.num_training_steps", *total.value, "arguments: " + total.names);
    }
    if (values_.find("scheduler.params.num_warmup_steps") != nullptr) {
      ArgumentSays const warmup = rules_(Auto::warmup_steps);
      if (!warmup.value && a.warmup_ratio) {
        findings_.refuse("arguments.warmup_ratio", json_number(*a.warmup_ratio),
                         total.names + " beside it");
      } else {
        take("scheduler.params.num_warmup_steps", warmup.value.value_or(Json(Index{0})),
             warmup.value ? "arguments: " + warmup.names : "transformers' default");
      }
    }
    if (!a.lr_scheduler_kwargs) return;
    for (auto const& [name, value] : *a.lr_scheduler_kwargs) {
      std::string const path = "scheduler.params." + std::string(name);
      std::string const spelled = "arguments.lr_scheduler_kwargs." + std::string(name);
      Key const* const k = values_.find(path);
      if (k == nullptr || name.starts_with("num_warmup") || name.starts_with("num_training")) {
        findings_.refuse(spelled, quoted_json(value), "a number of the schedule " + type);
      } else if (std::optional<Json> fit = fitted(value, *k)) {
        values_.set(path, std::move(*fit), "arguments: lr_scheduler_kwargs");
      } else {
        findings_.refuse(spelled, quoted_json(value), expected_instead_of(value, *k));
      }
    }
  }

  /// What the numbers of each mean together.
  void judge() {
    std::string const& optimizer = values_.optimizer_type;
    if (optimizer == "AdamW" && !values_.flag("optimizer.params.adam_w_mode"))
      findings_.refuse("optimizer.params.adam_w_mode", "false beside type AdamW",
                       "true, or type Adam");
    if (optimizer == "Adam" && values_.flag("optimizer.params.adam_w_mode"))
      findings_.warn(
          "optimizer.type: Adam means AdamW unless adam_w_mode is false, as in DeepSpeed");
    if (optimizer == "Lamb" &&
        values_.number("optimizer.params.min_coeff") > values_.number("optimizer.params.max_coeff"))
      findings_.refuse("optimizer.params.min_coeff",
                       plain_number(values_.number("optimizer.params.min_coeff")),
                       "at most max_coeff");
    if (optimizer == "SGD" && values_.flag("optimizer.params.nesterov") &&
        (values_.number("optimizer.params.momentum") == 0 ||
         values_.number("optimizer.params.dampening") != 0))
      findings_.refuse("optimizer.params.nesterov", "true",
                       "a momentum above 0, and no dampening, beside it");

    std::string const& type = values_.scheduler_type;
    if (type.empty()) return;
    std::string const p = "scheduler.params.";
    for (Key const& k : all_keys()) {
      if (k.has_default() || k.parent() != "scheduler.params" || values_.find(k.path) != &k)
        continue;
      if (values_.given("scheduler") && !values_.given(k.path))
        findings_.refuse(std::string(k.path), "nothing",
                         expected_text(k) + ": " + type + " needs it");
    }
    bool const peak = type == "WarmupLR" || type == "WarmupDecayLR";
    if (peak && !values_.wrong(p + "warmup_max_lr") && values_.is_null(p + "warmup_max_lr") &&
        !optimizer.empty())
      values_.set(p + "warmup_max_lr", values_.json("optimizer.params.lr"), "the optimizer's lr");
    auto const warn_above = [&](char const* low, char const* high) {
      if (!values_.known(p + low) || !values_.known(p + high) || values_.is_null(p + high)) return;
      if (values_.number(p + low) > values_.number(p + high))
        findings_.warn(p + low + ": " + plain_number(values_.number(p + low)) + " is above " +
                       high + " " + plain_number(values_.number(p + high)) +
                       "; computed as DeepSpeed does");
    };
    // Rates are multiples of their peak here, so a peak of 0 has none beside it.
    auto const peak_of_0 = [&](char const* low, char const* high) {
      if (!values_.known(p + low) || !values_.known(p + high) || values_.is_null(p + high)) return;
      if (values_.number(p + high) == 0 && values_.number(p + low) > 0)
        findings_.refuse(p + low, json_number(values_.number(p + low)),
                         std::string("0, since the peak of the rate, ") + high + ", is 0");
    };
    if (peak) peak_of_0("warmup_min_lr", "warmup_max_lr");
    if (type == "OneCycle") peak_of_0("cycle_min_lr", "cycle_max_lr");
    double const lr = values_.number("optimizer.params.lr");
    if (type == "polynomial" && !optimizer.empty() && values_.number(p + "lr_end") >= lr)
      findings_.refuse("arguments.lr_scheduler_kwargs.lr_end",
                       json_number(values_.number(p + "lr_end")),
                       "below the optimizer's rate, " + json_number(lr) + ", as transformers asks");
    if (peak) warn_above("warmup_min_lr", "warmup_max_lr");
    if (type == "WarmupDecayLR" || type == "WarmupCosineLR")
      warn_above("warmup_num_steps", "total_num_steps");
    if (type == "WarmupCosineLR") {
      for (char const* ratio : {"warmup_min_ratio", "cos_min_ratio"}) {
        if (values_.known(p + ratio) && values_.number(p + ratio) > 1)
          findings_.warn(p + ratio + ": " + plain_number(values_.number(p + ratio)) +
                         " is above 1; computed as DeepSpeed does");
      }
    }
    if (type == "OneCycle") {
      warn_above("cycle_min_lr", "cycle_max_lr");
      warn_above("cycle_min_mom", "cycle_max_mom");
    }
    if (type == "linear" || type == "cosine" || type == "polynomial")
      warn_above("num_warmup_steps", "num_training_steps");
  }

 private:
  using Json = boost::json::value;

  static std::string_view type_of(std::string_view optim) {
    static constexpr std::pair<std::string_view, std::string_view> names[] = {
        {"adamw_torch", "AdamW"}, {"adamw_torch_fused", "AdamW"},
        {"adamw_hf", "AdamW"},    {"adamw_apex_fused", "AdamW"},
        {"adamw", "AdamW"},       {"sgd", "SGD"},
        {"adagrad", "Adagrad"},   {"lion_32bit", "Lion"},
        {"lion", "Lion"}};
    for (auto const& [name, type] : names) {
      if (name == optim) return type;
    }
    return {};
  }
  /// The schedule of DeepSpeed's that stands for one of transformers'.
  static std::string_view counterpart(std::string_view type) {
    if (type == "linear") return "WarmupDecayLR";
    if (type == "cosine") return "WarmupCosineLR";
    if (type == "constant_with_warmup" || type == "constant") return "WarmupLR";
    return {};
  }

  Findings& findings_;
  ConfigValues& values_;
  TrainingArguments const& arguments_;
  ArgumentRules const& rules_;
};

}  // namespace zero::detail
