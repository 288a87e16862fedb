// SPDX-License-Identifier: Apache-2.0
#pragma once
// Optimizers made of a configuration's numbers. One specialisation a type; a user's own optimizer
// joins a menu by one of his.

#include <zero/config/schedule_choice.hpp>
#include <zero/optim/adamw.hpp>

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

template <>
struct FromConfig<AdamW> {
  static constexpr std::string_view name = "AdamW";
  static bool takes(MenuChoice const& c) { return detail::decays_apart(c); }
  static AdamW make(MenuChoice const& c, ScheduleChoice const& s) {
    return {.lr = static_cast<float>(s.lr),
            .beta1 = detail::beta_of(c, 0),
            .beta2 = detail::beta_of(c, 1),
            .eps = detail::float_of(c, "eps"),
            .weight_decay = detail::float_of(c, "weight_decay"),
            .schedule = s.schedule};
  }
};

/// Where OneCycle moves the momentum, the optimizer's beta1 follows and beta2 is 0.99.
template <class O>
struct FromConfig<CycledMomentum<O>> {
  static constexpr std::string_view name = "an optimizer whose momentum cycles";
  static bool takes(MenuChoice const& c) { return FromConfig<O>::takes(c); }
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
