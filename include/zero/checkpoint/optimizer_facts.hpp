// SPDX-License-Identifier: Apache-2.0
#pragma once
// An optimizer by name: its own, those of its numbers, and its hyper-parameters. An optimizer of
// the user's brings `name` and `state_names`, or is known by its number of states alone.

#include <zero/checkpoint/manifest.hpp>
#include <zero/optim/adagrad.hpp>
#include <zero/optim/adam.hpp>
#include <zero/optim/adamw.hpp>
#include <zero/optim/lamb.hpp>
#include <zero/optim/lion.hpp>
#include <zero/optim/one_of.hpp>
#include <zero/optim/optimizer_hash.hpp>
#include <zero/optim/sgd.hpp>

#include <charconv>

namespace zero {

namespace detail {

/// The names of an optimizer and its states; those of torch.optim where it has the same numbers.
struct OptimizerNames {
  std::string name;
  std::vector<std::string> states;
};

template <Optimizer O>
OptimizerNames names_of() {
  std::vector<std::string> const moments{"exp_avg", "exp_avg_sq"};
  if constexpr (requires {
                  std::string(O::name);
                  O::state_names;
                }) {
    return {O::name, {std::begin(O::state_names), std::end(O::state_names)}};
  } else if constexpr (std::derived_from<O, AdamW>) {
    return {"AdamW", moments};
  } else if constexpr (std::derived_from<O, Adam>) {
    return {"Adam", moments};
  } else if constexpr (std::derived_from<O, Lamb>) {
    return {"Lamb", moments};
  } else if constexpr (std::derived_from<O, Lion>) {
    return {"Lion", {"exp_avg"}};
  } else if constexpr (std::derived_from<O, Adagrad>) {
    return {"Adagrad", {"sum"}};
  } else if constexpr (std::derived_from<O, Sgd>) {
    return {"Sgd", {"momentum_buffer"}};
  } else {
    OptimizerNames names{"optimizer of " + std::to_string(O::num_states) + " states", {}};
    for (int k = 0; k < O::num_states; ++k) names.states.push_back("state_" + std::to_string(k));
    return names;
  }
}

/// X(member) for each member that settings_of looks for.
#define ZERO_SETTINGS(X) \
  X(lr)                  \
  X(beta1)               \
  X(beta2)               \
  X(eps)                 \
  X(weight_decay)        \
  X(lr_decay) X(momentum) X(dampening) X(nesterov) X(min_coeff) X(max_coeff) X(correction)

/// The members that optimizers of the menu have, under their own names.
template <Optimizer O>
std::map<std::string, double> settings_of(O const& o) {
  std::map<std::string, double> all;
  auto const add = [&](char const* name, auto value) {
    using V = decltype(value);
    if constexpr (std::same_as<V, float>) {  // 0.001, not the double next to that float
      char text[32];
      char const* const end = std::to_chars(text, text + sizeof text, value).ptr;
      std::from_chars(text, end, all[name]);
    } else if constexpr (std::is_arithmetic_v<V> || std::is_enum_v<V>) {
      all[name] = static_cast<double>(value);
    }
  };
#define ZERO_SETTING(member) \
  if constexpr (requires { o.member; }) add(#member, o.member);
  ZERO_SETTINGS(ZERO_SETTING)
#undef ZERO_SETTING
  return all;
}

/// The hash of what settings_of does not show, such as the schedule: of the same optimizer, whose
/// settings are what they are here.
template <Optimizer O>
std::uint64_t hash_beside_settings(O optimizer) {
  auto const set = [](auto& to) {  // a schedule is no setting
    using V = std::remove_cvref_t<decltype(to)>;
    if constexpr (std::is_floating_point_v<V>) {
      to = V(0.5);
    } else if constexpr (std::is_arithmetic_v<V> || std::is_enum_v<V>) {
      to = V{};
    }
  };
#define ZERO_SETTING(member) \
  if constexpr (requires { optimizer.member; }) set(optimizer.member);
  ZERO_SETTINGS(ZERO_SETTING)
#undef ZERO_SETTING
  return hash(optimizer);
}
#undef ZERO_SETTINGS

}  // namespace detail

/// What a checkpoint says of an optimizer.
template <Optimizer O>
CheckpointOptimizer describe_optimizer(O const& optimizer) {
  detail::OptimizerNames names = detail::names_of<O>();
  if (std::ssize(names.states) != O::num_states) {
    throw InvalidArgument("checkpoint: the optimizer '" + names.name + "' has " +
                          std::to_string(names.states.size()) + " state_names; expected " +
                          std::to_string(O::num_states));
  }
  return {std::move(names.name), std::move(names.states), detail::settings_of(optimizer),
          detail::hash_beside_settings(optimizer)};
}
/// Of the chosen one.
template <class... O>
CheckpointOptimizer describe_optimizer(OneOf<O...> const& optimizer) {
  return optimizer.visit([](auto const& chosen) { return describe_optimizer(chosen); });
}

}  // namespace zero
