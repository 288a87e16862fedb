// SPDX-License-Identifier: Apache-2.0
#pragma once
// From a resolved configuration to types. A menu lists what the program compiles; what a
// configuration asks for and the menu lacks is refused, with what there is. Each axis (sharding,
// precision, optimizer) is looked through once.

#include <zero/config/from_config.hpp>
#include <zero/optim/optimizer.hpp>
#include <zero/policy/policies.hpp>

#include <type_traits>
#include <utility>

namespace zero {

/// The policies and optimizers that a program compiles, in any order:
/// Menu<Sharded<0>, Sharded<3>, Fp32, Bf16Mixed, AdamW>. The function that is dispatched to is
/// instantiated once for each combination.
template <class... T>
struct Menu {};

namespace detail {

template <class... T>
struct Types {};

/// The types of a menu for which a fact holds.
template <template <class> class Fact, class Kept, class... T>
struct Filter {
  using type = Kept;
};
template <template <class> class Fact, class... Kept, class First, class... Rest>
struct Filter<Fact, Types<Kept...>, First, Rest...> {
  using type =
      typename Filter<Fact,
                      std::conditional_t<Fact<First>::value, Types<Kept..., First>, Types<Kept...>>,
                      Rest...>::type;
};

template <class T>
struct IsSharding : std::bool_constant<ShardingPolicy<T>> {};
template <class T>
struct IsPrecision : std::bool_constant<PrecisionPolicy<T>> {};
template <class T>
struct IsOptimizer : std::bool_constant<Optimizer<T>> {};

template <class M>
struct Axes;
template <class... T>
struct Axes<Menu<T...>> {
  using Shardings = typename Filter<IsSharding, Types<>, T...>::type;
  using Precisions = typename Filter<IsPrecision, Types<>, T...>::type;
  using Optimizers = typename Filter<IsOptimizer, Types<>, T...>::type;
  static_assert(((IsSharding<T>::value || IsPrecision<T>::value || IsOptimizer<T>::value) && ...),
                "Menu: every type must be a sharding policy, a precision or an optimizer");
};

/// Calls f with the first type that fits, else refuse.
template <class First, class... Rest, class Fits, class F, class Refuse>
decltype(auto) first_that_fits(Types<First, Rest...>, Fits fits, F&& f, Refuse refuse) {
  if (fits(std::type_identity<First>{})) return f(std::type_identity<First>{});
  if constexpr (sizeof...(Rest) == 0) {
    refuse();
    return f(std::type_identity<First>{});  // not reached
  } else {
    return first_that_fits(Types<Rest...>{}, fits, std::forward<F>(f), refuse);
  }
}

template <class... T, class Name>
std::string names_of(Types<T...>, Name name) {
  std::string all;
  ((all += (all.empty() ? "" : ", ") + std::string(name(std::type_identity<T>{}))), ...);
  return all.empty() ? "none" : all;
}

/// Whether one of them is what the section means, whatever becomes of its momentum.
template <class... O>
bool any_takes(Types<O...>, MenuChoice const& optimizer) {
  return (FromConfig<O>::takes(optimizer) || ...);
}

template <class S>
int stage_of() {
  return int{S::shards_optimizer} + int{S::shards_gradients} + int{S::shards_parameters};
}
template <class S>
std::string sharding_text() {
  std::string text = "stage " + std::to_string(stage_of<S>());
  if (S::optimizer_tier != Tier::device)
    text += " with offload_optimizer " + std::string(tier_name(S::optimizer_tier));
  if (S::parameter_tier != Tier::device)
    text += " with offload_param " + std::string(tier_name(S::parameter_tier));
  return text;
}
/// By types, so that a user's own precision works.
template <class R>
bool is_precision(PrecisionChoice p) {
  using G = typename R::Gradient;
  bool const same = std::is_same_v<typename R::Parameter, G>;
  return same && (p == PrecisionChoice::fp32   ? std::is_same_v<G, float>
                  : p == PrecisionChoice::bf16 ? std::is_same_v<G, bf16>
                                               : std::is_same_v<G, fp16>);
}
template <class R>
std::string_view precision_text() {
  for (PrecisionChoice p : {PrecisionChoice::fp32, PrecisionChoice::bf16, PrecisionChoice::fp16}) {
    if (is_precision<R>(p)) return precision_name(p);
  }
  return "a precision that no configuration names";
}

[[noreturn]] inline void refuse_choice(std::string path, std::string found,
                                       std::string const& compiled) {
  throw ConfigError(
      {{std::move(path), std::move(found), "what this program compiles: " + compiled}});
}

/// Refuses a tier or stage that the menu lacks.
template <class Shardings>
[[noreturn]] void refuse_sharding(ResolvedConfig const& c) {
  std::string const compiled =
      names_of(Shardings{}, []<class S>(std::type_identity<S>) { return sharding_text<S>(); });
  std::string const stage = " at stage " + std::to_string(c.stage);
  if (c.offload_optimizer.tier != Tier::device)
    refuse_choice("zero_optimization.offload_optimizer.device",
                  "\"" + std::string(tier_name(c.offload_optimizer.tier)) + "\"" + stage, compiled);
  if (c.offload_param.tier != Tier::device)
    refuse_choice("zero_optimization.offload_param.device",
                  "\"" + std::string(tier_name(c.offload_param.tier)) + "\"" + stage, compiled);
  refuse_choice("zero_optimization.stage", std::to_string(c.stage), compiled);
}

template <class M, class F>
// NOLINTNEXTLINE(cppcoreguidelines-missing-std-forward): it is called, and handed on to nobody
decltype(auto) dispatch_policies(ResolvedConfig const& config, F&& f) {
  using A = Axes<M>;
  static_assert(!std::is_same_v<typename A::Shardings, Types<>>,
                "Menu: no sharding policy is in it");
  static_assert(!std::is_same_v<typename A::Precisions, Types<>>, "Menu: no precision is in it");
  return first_that_fits(
      typename A::Shardings{},
      [&]<class S>(std::type_identity<S>) {
        return stage_of<S>() == config.stage &&
               S::optimizer_tier == config.offload_optimizer.tier &&
               S::parameter_tier == config.offload_param.tier;
      },
      [&]<class S>(std::type_identity<S>) -> decltype(auto) {
        return first_that_fits(
            typename A::Precisions{},
            [&]<class R>(std::type_identity<R>) { return is_precision<R>(config.precision); },
            [&]<class R>(std::type_identity<R>) -> decltype(auto) { return f(S{}, R{}); },
            [&] {
              refuse_choice("precision", std::string(precision_name(config.precision)),
                            names_of(typename A::Precisions{}, []<class R>(std::type_identity<R>) {
                              return precision_text<R>();
                            }));
            });
      },
      [&] { refuse_sharding<typename A::Shardings>(config); });
}

}  // namespace detail

/// Calls f(sharding, precision, optimizer) with the types and numbers that a configuration asks
/// for.
/// @tparam M a Menu with a sharding policy, a precision and an optimizer at least
/// @throws ConfigError for what the menu lacks, listing what it has
/// @return what f returns, of one type for all
template <class M, class F>
// NOLINTNEXTLINE(cppcoreguidelines-missing-std-forward): it is called, and handed on to nobody
decltype(auto) dispatch(ResolvedConfig const& config, F&& f) {
  using Optimizers = typename detail::Axes<M>::Optimizers;
  static_assert(!std::is_same_v<Optimizers, detail::Types<>>, "Menu: no optimizer is in it");
  if (!config.optimizer)
    throw ConfigError(
        {{"optimizer", "nothing",
          "an optimizer section, or arguments that say one: this program brings none of its own"}});
  ScheduleChoice const schedule = schedule_of(config);
  bool const has_betas =
      config.optimizer->has("betas");  // others have no momentum to cycle, as in DeepSpeed
  bool const cycles = has_betas && schedule.momentum;
  return detail::dispatch_policies<M>(config, [&](auto sharding, auto precision) -> decltype(auto) {
    return detail::first_that_fits(
        Optimizers{},
        [&]<class O>(std::type_identity<O>) {
          return FromConfig<O>::takes(*config.optimizer) &&
                 detail::has_cycled_momentum<O> == cycles;
        },
        [&]<class O>(std::type_identity<O>) -> decltype(auto) {
          return f(sharding, precision, FromConfig<O>::make(*config.optimizer, schedule));
        },
        [&] {
          if (cycles && detail::any_takes(Optimizers{}, *config.optimizer))
            throw ConfigError({{"scheduler.params.cycle_momentum",
                                "true beside optimizer.type " + config.optimizer->type,
                                "false: this program compiles no momentum that cycles"}});
          detail::refuse_choice("optimizer.type", config.optimizer->type,
                                detail::names_of(Optimizers{}, []<class O>(std::type_identity<O>) {
                                  return FromConfig<O>::name;
                                }));
        });
  });
}

/// Whether an optimizer of the program's own may run under a configuration.
/// @tparam O its type; with offloaded state it needs an update on the host
/// @throws ConfigError naming zero_force_ds_cpu_optimizer, which forbids it beside offload unless
/// it is false
template <Optimizer O>
void judge_own_optimizer(ResolvedConfig const& config) {
  if (config.offload_optimizer.tier == Tier::device) return;
  if (config.force_ds_cpu_optimizer)
    throw ConfigError(
        {{"zero_force_ds_cpu_optimizer",
          "true, or nothing, with an optimizer of the program's own and offload_optimizer " +
              std::string(tier_name(config.offload_optimizer.tier)),
          "false, or an optimizer of the menu"}});
  static_assert(
      CanUpdate<Host, O, float, float>,
      "judge_own_optimizer: an optimizer whose state is offloaded needs an update on the host");
}

/// Calls f(sharding, precision, optimizer) with an optimizer of the program's own. The
/// configuration names none then; its schedule, if it has one, is schedule_of(config, lr).
/// @throws ConfigError for what the menu lacks, for an optimizer section, and as
/// judge_own_optimizer
template <class M, Optimizer O, class F>
// NOLINTNEXTLINE(cppcoreguidelines-missing-std-forward): it is called, and handed on to nobody
decltype(auto) dispatch(ResolvedConfig const& config, O const& own, F&& f) {
  if (config.optimizer)
    throw ConfigError({{"optimizer", config.optimizer->type,
                        "no optimizer section: this program brings its own"}});
  judge_own_optimizer<O>(config);
  return detail::dispatch_policies<M>(config, [&](auto sharding, auto precision) -> decltype(auto) {
    return f(sharding, precision, own);
  });
}

}  // namespace zero
