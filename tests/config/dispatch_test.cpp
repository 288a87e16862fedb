// SPDX-License-Identifier: Apache-2.0
// From a configuration to types, schedules and options.
#include <zero/optim/adamw.hpp>
#include <zero/optim/loss_scale.hpp>

#include <cases/descent.hpp>
#include <config/loading.hpp>
#include <doctest/doctest.h>
#include <support/loss_scale_table.hpp>
#include <support/schedule_table.hpp>

#include <cmath>

namespace zero {

/// A user's own optimizer joins a menu.
template <>
struct FromConfig<cases::Descent> {
  static constexpr std::string_view name = "SGD without momentum";
  static bool takes(MenuChoice const& c) { return c.type == "SGD" && c.number("momentum") == 0; }
  static cases::Descent make(MenuChoice const&, ScheduleChoice const& s) {
    return {static_cast<float>(s.lr)};
  }
};

}  // namespace zero

namespace {

using namespace config_test;
using zero::Menu;
using zero::Sharded;

zero::ResolvedConfig resolve(std::string const& members, Index world = 2) {
  Outcome const outcome = load_text(with(members), {}, world);
  REQUIRE_MESSAGE(outcome.config, outcome.text);
  return *outcome.config;
}
template <class M>
std::string dispatched(zero::ResolvedConfig const& config) {
  return zero::dispatch<M>(config, []<class S, class R, class O>(S, R, O const&) {
    return std::to_string(int{S::shards_optimizer} + int{S::shards_gradients} +
                          int{S::shards_parameters}) +
           " " + R::name + " " + std::string(zero::FromConfig<O>::name);
  });
}
template <class F>
std::string refusal(F f) {
  try {
    f();
  } catch (zero::ConfigError const& e) {
    return e.what();
  }
  return "nothing was refused";
}

using Whole = Menu<Sharded<0>, Sharded<1>, Sharded<2>, Sharded<3>, zero::Fp32, zero::Bf16Mixed,
                   zero::Fp16Mixed, zero::AdamW, zero::CycledMomentum<zero::AdamW>, cases::Descent>;
constexpr char const* adamw = R"("optimizer": {"type": "AdamW"})";

TEST_CASE("each axis of a menu is chosen by the configuration") {
  for (int stage : {0, 1, 2, 3}) {
    std::string const zero_section =
        R"("zero_optimization": {"stage": )" + std::to_string(stage) + "}, ";
    std::string const number = std::to_string(stage);
    CHECK(dispatched<Whole>(resolve(zero_section + adamw)) == number + " fp32 AdamW");
    CHECK(dispatched<Whole>(resolve(zero_section + R"("bf16": {"enabled": true}, )" + adamw)) ==
          number + " bf16 AdamW");
    CHECK(dispatched<Whole>(resolve(zero_section + R"("fp16": {"enabled": true}, )" + adamw)) ==
          number + " fp16 AdamW");
    CHECK(dispatched<Whole>(resolve(zero_section + R"("optimizer": {"type": "SGD"})")) ==
          number + " fp32 SGD without momentum");
  }
  CHECK(dispatched<Whole>(resolve(R"("optimizer": {"type": "Adam"})")) == "0 fp32 AdamW");
}

TEST_CASE("what the menu lacks is refused, with what it has") {
  using Small = Menu<zero::AdamW, zero::Fp32, Sharded<1>, Sharded<3>>;
  auto const says = [](std::string const& members) {
    return refusal([&] { dispatched<Small>(resolve(members)); });
  };
  CHECK(says(adamw) ==
        "zero_optimization.stage: found 0; expected what this program compiles: stage 1, stage 3");
  std::string const stage3 = std::string(R"("zero_optimization": {"stage": 3}, )");
  CHECK(says(stage3 + R"("bf16": {"enabled": true}, )" + adamw) ==
        "precision: found bf16; expected what this program compiles: fp32");
  CHECK(says(stage3 + R"("optimizer": {"type": "Lion"})") ==
        "optimizer.type: found Lion; expected what this program compiles: AdamW");
  CHECK(says(stage3 + R"("optimizer": {"type": "Adam", "params": {"adam_w_mode": false}})") ==
        "optimizer.type: found Adam; expected what this program compiles: AdamW");
  CHECK(says(R"("zero_optimization": {"stage": 3})")
            .starts_with("optimizer: found nothing; expected an optimizer section"));
  CHECK(says(stage3 + adamw) == "nothing was refused");
  for (std::string const tier : {"cpu", "nvme"}) {
    CHECK(says(R"("zero_optimization": {"stage": 3, "offload_optimizer": {"device": ")" + tier +
               R"(", "nvme_path": "/x"}}, )" + adamw) ==
          "zero_optimization.offload_optimizer.device: found \"" + tier +
              "\" at stage 3; expected what this program compiles: stage 1, stage 3");
  }
  CHECK(says(std::string(
                 R"("zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}, )") +
             adamw)
            .starts_with("zero_optimization.offload_param.device: found \"cpu\""));
}

TEST_CASE("the optimizer gets the configuration's numbers") {
  auto const config =
      resolve(R"("optimizer": {"type": "AdamW", "params": {"lr": 0.25, "betas": [0.5, 0.75],
    "eps": 0.125, "weight_decay": 0.0625}})");
  zero::dispatch<Menu<Sharded<0>, zero::Fp32, zero::AdamW>>(config,
                                                            [](auto, auto, zero::AdamW const& o) {
                                                              CHECK(o.lr == 0.25f);
                                                              CHECK(o.beta1 == 0.5f);
                                                              CHECK(o.beta2 == 0.75f);
                                                              CHECK(o.eps == 0.125f);
                                                              CHECK(o.weight_decay == 0.0625f);
                                                              CHECK(o.learning_rate(1000) == 0.25f);
                                                            });
}

TEST_CASE("every type of optimizer gets its numbers") {
  using All = Menu<Sharded<0>, zero::Fp32, zero::AdamW, zero::Adam, zero::Lamb, zero::Lion,
                   zero::Adagrad, zero::Sgd>;
  auto const made = [](std::string const& type, std::string const& params, auto check) {
    auto const config = resolve(R"("optimizer": {"type": ")" + type +
                                R"(", "params": {"lr": 0.5, "weight_decay": 0.25)" + params + "}}");
    bool right = false;
    zero::dispatch<All>(config, [&]<class O>(auto, auto, O const& o) {
      CHECK(o.lr == 0.5f);
      CHECK(o.weight_decay == 0.25f);
      right = check(o);
    });
    CHECK_MESSAGE(right, type);
  };
  auto const is = []<class O>(std::type_identity<O>, auto holds) {
    return [holds]<class Made>(Made const& o) {
      if constexpr (std::is_same_v<Made, O>) return holds(o);
      return false;
    };
  };
  made("Adam", R"(, "adam_w_mode": false, "betas": [0.5, 0.75])",
       is(std::type_identity<zero::Adam>{},
          [](auto const& o) { return o.beta1 == 0.5f && o.beta2 == 0.75f && o.eps == 1e-8f; }));
  made("Lamb", R"(, "max_coeff": 0.5, "min_coeff": 0.125)",
       is(std::type_identity<zero::Lamb>{}, [](auto const& o) {
         return o.max_coeff == 0.5f && o.min_coeff == 0.125f &&
                o.correction == zero::LambCorrection::rate;
       }));
  made("Lamb", R"(, "bias_correction": false)",
       is(std::type_identity<zero::Lamb>{}, [](auto const& o) {
         return o.correction == zero::LambCorrection::none && o.max_coeff == 10;
       }));
  made("Lion", "", is(std::type_identity<zero::Lion>{}, [](auto const& o) {
         return o.beta1 == 0.9f && o.beta2 == 0.999f;
       }));
  made("Adagrad", "",
       is(std::type_identity<zero::Adagrad>{}, [](auto const& o) { return o.eps == 1e-10f; }));
  made("SGD", R"(, "momentum": 0.5, "nesterov": true)",
       is(std::type_identity<zero::Sgd>{},
          [](auto const& o) { return o.momentum == 0.5f && o.dampening == 0 && o.nesterov; }));
}

// The trajectories themselves stand in tests/optim: here it is which type a name means.
TEST_CASE(
    "C13: Adam means AdamW, and with adam_w_mode false the form that adds the decay to the "
    "gradient") {
  using Both = Menu<Sharded<0>, zero::Fp32, zero::AdamW, zero::Adam>;
  CHECK(dispatched<Both>(resolve(R"("optimizer": {"type": "AdamW"})")) == "0 fp32 AdamW");
  CHECK(dispatched<Both>(resolve(R"("optimizer": {"type": "Adam"})")) == "0 fp32 AdamW");
  CHECK(dispatched<Both>(
            resolve(R"("optimizer": {"type": "Adam", "params": {"adam_w_mode": false}})")) ==
        "0 fp32 Adam");
}

TEST_CASE("a program may bring its own optimizer, and then alone") {
  using Policies = Menu<Sharded<0>, Sharded<2>, zero::Fp32>;
  auto const run = [](zero::ResolvedConfig const& config) {
    return zero::dispatch<Policies>(config, cases::Descent{0.5f},
                                    [](auto s, auto, cases::Descent const& o) {
                                      return (decltype(s)::shards_gradients ? 2.0f : 0.0f) + o.lr;
                                    });
  };
  CHECK(run(resolve(R"("zero_optimization": {"stage": 2})")) == 2.5f);
  CHECK(refusal([&] { run(resolve(adamw)); }).starts_with("optimizer: found AdamW"));
}

TEST_CASE(
    "F06: beside an offloaded optimizer a program's own needs zero_force_ds_cpu_optimizer false") {
  for (std::string const flag : {R"("zero_force_ds_cpu_optimizer": true, )", ""}) {
    auto const config = resolve(
        flag + R"("zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}})");
    CHECK(refusal([&] {
            zero::judge_own_optimizer<cases::Descent>(config);
          }).starts_with("zero_force_ds_cpu_optimizer: found true, or nothing"));
  }
  auto const free = resolve(R"("zero_force_ds_cpu_optimizer": false,
    "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}})");
  CHECK_NOTHROW(zero::judge_own_optimizer<cases::Descent>(free));
  CHECK_NOTHROW(
      zero::judge_own_optimizer<cases::Descent>(resolve(R"("zero_force_ds_cpu_optimizer": true)")));
}

// ---- schedules

zero::ScheduleChoice schedule(std::string const& type, std::string const& params) {
  return zero::schedule_of(
      resolve(R"("optimizer": {"type": "AdamW", "params": {"lr": 0.5}}, "scheduler": {"type": ")" +
              type + R"(", "params": )" + params + "}"));
}
double rate(zero::ScheduleChoice const& s, Index t) { return s.lr * s.schedule.factor(t); }

TEST_CASE("schedules of a file have DeepSpeed's rates") {
  // Closed forms of DeepSpeed's documentation, i = t - 2 calls after the first.
  auto const linear =
      schedule("WarmupLR", R"({"warmup_min_lr": 0.1, "warmup_max_lr": 0.3, "warmup_num_steps": 4,
    "warmup_type": "linear"})");
  for (Index t = 1; t <= 8; ++t) {
    double const way = std::clamp(static_cast<double>(t - 2) / 4, 0.0, 1.0);
    CHECK(rate(linear, t) == doctest::Approx(0.1 + 0.2 * way).epsilon(1e-15));  // some roundings
  }
  auto const decay = schedule(
      "WarmupDecayLR", R"({"warmup_num_steps": 5, "total_num_steps": 20, "warmup_max_lr": 1e-3})");
  CHECK(rate(decay, 3) == doctest::Approx(1e-3 * std::log(2.0) / std::log(5.0)).epsilon(1e-15));
  CHECK(rate(decay, 20) == doctest::Approx(1e-3 * 2 / 15).epsilon(1e-15));
  auto const cosine =
      schedule("WarmupCosineLR", R"({"warmup_num_steps": 5, "total_num_steps": 20})");
  CHECK(cosine.lr == 0.5);
  CHECK(rate(cosine, 14) ==
        doctest::Approx(0.5 * (1e-4 + (1 - 1e-4) * (1 + std::cos(std::acos(-1.0) * 8 / 15)) / 2))
            .epsilon(1e-14));
  auto const range =
      schedule("LRRangeTest", R"({"lr_range_test_min_lr": 0.25, "lr_range_test_step_size": 4,
    "lr_range_test_step_rate": 2, "lr_range_test_staircase": true})");
  for (Index t = 1; t <= 9; ++t)
    CHECK(rate(range, t) == 0.25 * (1 + 2.0 * static_cast<double>((t - 1 + 0) / 4)));
  auto const cycle = schedule(
      "OneCycle", R"({"cycle_min_lr": 0.25, "cycle_max_lr": 1, "cycle_first_step_size": 3})");
  double const rates[] = {0.25, 0.5, 0.75, 1, 0.75, 0.5, 0.25, 0.25};
  for (Index t = 1; t <= 8; ++t)
    CHECK(rate(cycle, t) == doctest::Approx(rates[t - 1]).epsilon(1e-15));
  REQUIRE(cycle.momentum);
  CHECK(cycle.momentum->value(4) == doctest::Approx(0.8).epsilon(1e-15));
  // A start above the peak falls to it.
  auto const falling =
      schedule("WarmupLR", R"({"warmup_min_lr": 0.75, "warmup_max_lr": 0.25, "warmup_num_steps": 2,
    "warmup_type": "linear"})");
  CHECK(rate(falling, 1) == 0.75);
  CHECK(rate(falling, 3) == 0.5);
  CHECK(rate(falling, 9) == 0.25);
}

TEST_CASE("every row of the tables of schedules") {
  auto const check = [](zero::ScheduleChoice const& s, std::vector<double> const& rates) {
    for (std::size_t c = 0; c < rates.size(); ++c) {
      CAPTURE(c);
      // Two roundings between a factor and its rate.
      CHECK(rate(s, static_cast<Index>(c) + 1) == doctest::Approx(rates[c]).epsilon(1e-15));
    }
  };
  using namespace schedule_table;
  std::string const ten =
      R"({"warmup_max_lr": 0.001, "warmup_min_lr": 0.0, "warmup_num_steps": 10, "warmup_type": ")";
  std::string const twenty =
      R"({"total_num_steps": 20, "warmup_num_steps": 5, "warmup_type": "linear")";
  check(schedule("WarmupLR", ten + R"(linear"})"), warmup_linear);
  check(schedule("WarmupLR", ten + R"(log"})"), warmup_log);
  check(schedule("WarmupDecayLR", twenty + R"(, "warmup_max_lr": 0.001})"), warmup_decay);
  zero::ScheduleChoice cosine = schedule("WarmupCosineLR", twenty + "}");
  cosine.lr = 1e-3;  // the table's
  check(cosine, warmup_cosine);
  zero::ScheduleChoice const cycle = schedule(
      "OneCycle", R"({"cycle_first_step_size": 5, "cycle_max_lr": 0.001, "cycle_min_lr": 0.0001})");
  check(cycle, one_cycle);
  check(
      schedule("LRRangeTest", R"({"lr_range_test_min_lr": 0.0001, "lr_range_test_step_size": 5})"),
      range_test);
  for (std::size_t c = 0; c < one_cycle_momentum.size(); ++c)
    CHECK(cycle.momentum->value(static_cast<Index>(c) + 1) ==
          doctest::Approx(one_cycle_momentum[c]).epsilon(1e-15));
}

TEST_CASE("every row of the tables of the loss scale") {
  auto const check = [](std::string const& fp16, std::vector<loss_scale_table::Row> const& rows) {
    zero::LossScale const option =
        zero::loss_scale_of(resolve(R"("fp16": {"enabled": true, )" + fp16 + "}"));
    zero::LossScaleState state = zero::LossScaleState::first(option);
    float scale = option.initial();
    for (loss_scale_table::Row const& row : rows) {
      CHECK(scale == row.before);
      CHECK(state.advance(scale, option, row.overflow) == !row.error);
      CHECK(scale == row.after);
    }
  };
  check(R"("initial_scale_power": 8, "loss_scale_window": 4, "hysteresis": 1)",
        loss_scale_table::a1);
  check(R"("loss_scale_window": 1000)", loss_scale_table::a9);
}

TEST_CASE("OneCycle's momentum asks for an optimizer whose beta1 follows") {
  std::string const cycle =
      R"(, "scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0, "cycle_max_lr": 1}})";
  CHECK(dispatched<Whole>(resolve(adamw + cycle)) == "0 fp32 AdamW whose momentum cycles");
  CHECK(refusal([&] {
          dispatched<Menu<Sharded<0>, zero::Fp32, zero::AdamW>>(resolve(adamw + cycle));
        }) ==
        "scheduler.params.cycle_momentum: found true beside optimizer.type AdamW; expected false: "
        "this program compiles no momentum that cycles");
  CHECK(refusal([&] { dispatched<Whole>(resolve(R"("optimizer": {"type": "Lion"})" + cycle)); }) ==
        "optimizer.type: found Lion; expected what this program compiles: AdamW, AdamW whose "
        "momentum cycles, SGD without momentum");
  // An optimizer without betas has none to cycle, as in DeepSpeed.
  CHECK(dispatched<Whole>(resolve(R"("optimizer": {"type": "SGD"})" + cycle)) ==
        "0 fp32 SGD without momentum");
  std::string const still =
      R"(, "scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0, "cycle_max_lr": 1, "cycle_momentum": false}})";
  CHECK(dispatched<Whole>(resolve(adamw + still)) == "0 fp32 AdamW");
}

TEST_CASE("schedules of the arguments have transformers' rates") {
  auto const of = [](char const* type) {
    return zero::schedule_of(*load_text(with(""), zero::TrainingArguments{.learning_rate = 0.5,
                                                                          .lr_scheduler_type = type,
                                                                          .warmup_steps = 2,
                                                                          .max_steps = 10})
                                  .config);
  };
  for (char const* type : {"linear", "cosine", "polynomial", "constant_with_warmup"})
    CHECK(rate(of(type), 2) == 0.25);
  CHECK(rate(of("linear"), 7) == 0.25);
  CHECK(rate(of("cosine"), 7) == doctest::Approx(0.25).epsilon(1e-15));
  CHECK(rate(of("polynomial"), 7) == doctest::Approx((0.5 - 1e-7) * 0.5 + 1e-7).epsilon(1e-15));
  CHECK(rate(of("constant_with_warmup"), 7) == 0.5);
  CHECK(rate(of("constant"), 1) == 0.5);
}

TEST_CASE("the loss scale of a section fp16") {
  CHECK(!zero::loss_scale_of(resolve(adamw)).moves());
  auto const dynamic =
      zero::loss_scale_of(resolve(R"("fp16": {"enabled": true, "initial_scale_power": 5,
    "loss_scale_window": 7, "hysteresis": 3, "consecutive_hysteresis": true, "min_loss_scale": 2})"));
  CHECK(dynamic.moves());
  CHECK(dynamic.initial() == 32);
  CHECK(dynamic.settings().window == 7);
  CHECK(dynamic.settings().hysteresis == 3);
  CHECK(dynamic.settings().consecutive_hysteresis);
  CHECK(dynamic.settings().minimum == 2);
  auto const fixed = zero::loss_scale_of(resolve(R"("fp16": {"enabled": true, "loss_scale": 12})"));
  CHECK(!fixed.moves());
  CHECK(fixed.initial() == 12);
}

}  // namespace
