// SPDX-License-Identifier: Apache-2.0
#pragma once
// Optimizers made of a configuration's numbers. One specialisation a type; a user's own optimizer
// joins a menu by one of his.

#include <zero/config/schedule_choice.hpp>
#include <zero/optim/adagrad.hpp>
#include <zero/optim/adam.hpp>
#include <zero/optim/adamw.hpp>
#include <zero/optim/lamb.hpp>
#include <zero/optim/lion.hpp>
#include <zero/optim/sgd.hpp>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

namespace zero {

/// How an optimizer of a menu is recognised and made:
/// - `static constexpr std::string_view name`, for messages;
/// - `static bool takes(MenuChoice const& optimizer)`: this type is what the section means;
/// - `static O make(MenuChoice const& optimizer, ScheduleChoice const& schedule)`.
/// @tparam O an Optimizer
template <class O>
struct FromConfig {
  static_assert(
      sizeof(O) == 0,
      "FromConfig: an optimizer in a Menu needs a specialisation of zero::FromConfig with "
      "name, takes(MenuChoice) and make(MenuChoice, ScheduleChoice); see "
      "zero/config/from_config.hpp");
};

namespace detail {

inline float beta_of(MenuChoice const& c, std::size_t i) {
  return static_cast<float>(c.params.at("betas").as_array()[i].as_double());
}
inline float float_of(MenuChoice const& c, char const* name) {
  return static_cast<float>(c.number(name));
}
/// DeepSpeed's "Adam" is AdamW unless it says otherwise.
inline bool decays_apart(MenuChoice const& c) {
  return c.type == "AdamW" || (c.type == "Adam" && c.flag("adam_w_mode"));
}
/// Whether the momentum of the configuration's schedule cycles.
inline bool cycles_momentum(ResolvedConfig const& config) {
  return config.scheduler && config.scheduler->type == "OneCycle" &&
         config.scheduler->flag("cycle_momentum");
}

}  // namespace detail

/// DeepSpeed's AdamW, and its Adam unless adam_w_mode is false.
template <>
struct FromConfig<AdamW> {
  static constexpr std::string_view name = "AdamW";  ///< in messages
  /// Whether the section means this type.
  static bool takes(MenuChoice const& c) { return detail::decays_apart(c); }
  /// With the section's numbers and the schedule's rate.
  static AdamW make(MenuChoice const& c, ScheduleChoice const& s) {
    return {.lr = static_cast<float>(s.lr),
            .beta1 = detail::beta_of(c, 0),
            .beta2 = detail::beta_of(c, 1),
            .eps = detail::float_of(c, "eps"),
            .weight_decay = detail::float_of(c, "weight_decay"),
            .schedule = s.schedule};
  }
};

/// DeepSpeed's Adam with adam_w_mode false.
template <>
struct FromConfig<Adam> {
  static constexpr std::string_view name = "Adam";  ///< in messages
  /// Whether the section means this type.
  static bool takes(MenuChoice const& c) { return c.type == "Adam" && !detail::decays_apart(c); }
  /// With the section's numbers and the schedule's rate.
  static Adam make(MenuChoice const& c, ScheduleChoice const& s) {
    return {.lr = static_cast<float>(s.lr),
            .beta1 = detail::beta_of(c, 0),
            .beta2 = detail::beta_of(c, 1),
            .eps = detail::float_of(c, "eps"),
            .weight_decay = detail::float_of(c, "weight_decay"),
            .schedule = s.schedule};
  }
};

/// DeepSpeed's Lamb, whose bias correction is one of the rate.
template <>
struct FromConfig<Lamb> {
  static constexpr std::string_view name = "Lamb";  ///< in messages
  /// Whether the section means this type.
  static bool takes(MenuChoice const& c) { return c.type == "Lamb"; }
  /// With the section's numbers and the schedule's rate.
  static Lamb make(MenuChoice const& c, ScheduleChoice const& s) {
    return {.lr = static_cast<float>(s.lr),
            .beta1 = detail::beta_of(c, 0),
            .beta2 = detail::beta_of(c, 1),
            .eps = detail::float_of(c, "eps"),
            .weight_decay = detail::float_of(c, "weight_decay"),
            .min_coeff = detail::float_of(c, "min_coeff"),
            .max_coeff = detail::float_of(c, "max_coeff"),
            .correction = c.flag("bias_correction") ? LambCorrection::rate : LambCorrection::none,
            .schedule = s.schedule};
  }
};

/// DeepSpeed's Lion, with sign(0) = 0.
template <>
struct FromConfig<Lion> {
  static constexpr std::string_view name = "Lion";  ///< in messages
  /// Whether the section means this type.
  static bool takes(MenuChoice const& c) { return c.type == "Lion"; }
  /// With the section's numbers and the schedule's rate.
  static Lion make(MenuChoice const& c, ScheduleChoice const& s) {
    return {.lr = static_cast<float>(s.lr),
            .beta1 = detail::beta_of(c, 0),
            .beta2 = detail::beta_of(c, 1),
            .weight_decay = detail::float_of(c, "weight_decay"),
            .schedule = s.schedule};
  }
};

/// Adagrad; with weight decay torch's, not DeepSpeed's.
template <>
struct FromConfig<Adagrad> {
  static constexpr std::string_view name = "Adagrad";  ///< in messages
  /// Whether the section means this type.
  static bool takes(MenuChoice const& c) { return c.type == "Adagrad"; }
  /// With the section's numbers and the schedule's rate.
  static Adagrad make(MenuChoice const& c, ScheduleChoice const& s) {
    return {.lr = static_cast<float>(s.lr),
            .eps = detail::float_of(c, "eps"),
            .weight_decay = detail::float_of(c, "weight_decay"),
            .schedule = s.schedule};
  }
};

/// torch's SGD.
template <>
struct FromConfig<Sgd> {
  static constexpr std::string_view name = "Sgd";  ///< in messages
  /// Whether the section means this type.
  static bool takes(MenuChoice const& c) { return c.type == "SGD"; }
  /// With the section's numbers and the schedule's rate.
  static Sgd make(MenuChoice const& c, ScheduleChoice const& s) {
    return {.lr = static_cast<float>(s.lr),
            .momentum = detail::float_of(c, "momentum"),
            .dampening = detail::float_of(c, "dampening"),
            .weight_decay = detail::float_of(c, "weight_decay"),
            .nesterov = c.flag("nesterov"),
            .schedule = s.schedule};
  }
};

namespace detail {

/// "AdamW whose momentum cycles", as static characters.
template <class O>
inline constexpr auto cycled_name = [] {
  constexpr std::string_view inner = FromConfig<O>::name;
  constexpr std::string_view rest = " whose momentum cycles";
  std::array<char, inner.size() + rest.size()> text{};
  std::copy(rest.begin(), rest.end(), std::copy(inner.begin(), inner.end(), text.begin()));
  return text;
}();

}  // namespace detail

/// Where OneCycle moves the momentum, the optimizer's beta1 follows and beta2 is 0.99.
template <class O>
struct FromConfig<CycledMomentum<O>> {
  static constexpr std::string_view name{detail::cycled_name<O>.data(),
                                         detail::cycled_name<O>.size()};  ///< in messages
  /// As the optimizer without.
  static bool takes(MenuChoice const& c) { return FromConfig<O>::takes(c); }
  /// As the optimizer without, and its momentum. @pre the schedule has one
  static CycledMomentum<O> make(MenuChoice const& c, ScheduleChoice const& s) {
    O inner = FromConfig<O>::make(c, s);
    inner.beta2 = static_cast<float>(cycled_beta2);
    return {inner, *s.momentum};
  }
};

namespace detail {

template <class O>
inline constexpr bool has_cycled_momentum = false;
template <class O>
inline constexpr bool has_cycled_momentum<CycledMomentum<O>> = true;

}  // namespace detail

}  // namespace zero
