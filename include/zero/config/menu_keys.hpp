// SPDX-License-Identifier: Apache-2.0
#pragma once
// The types of optimizer and scheduler, and what each of them takes. Defaults are those of
// DeepSpeed's code; those of Sgd are torch's.

#include <zero/config/key.hpp>

#include <array>

namespace zero::keys {

/// Types that a section `optimizer` may name.
inline constexpr std::string_view optimizer_types = "Adam AdamW Lamb Lion Adagrad SGD";
/// Types that DeepSpeed has and this library refuses, and why.
inline constexpr std::string_view foreign_optimizer_types =
    "Muon OneBitAdam ZeroOneAdam OneBitLamb MuAdam MuAdamW MuSGD";
/// Types that a section `scheduler` may name.
inline constexpr std::string_view scheduler_types =
    "LRRangeTest OneCycle WarmupLR WarmupDecayLR WarmupCosineLR";
/// Types that the arguments may name.
inline constexpr std::string_view argument_scheduler_types =
    "linear cosine polynomial constant constant_with_warmup";

/// Keys of the section `optimizer`.
inline constexpr auto optimizer = std::to_array<Key>({
    text("optimizer.type", "").drives("the optimizer's type"),
    section("optimizer.params").drives("the optimizer's numbers"),
    boolean("optimizer.legacy_fusion", "false").harmless("DeepSpeed's own kernels"),
    number("optimizer.params.lr", "0.001")
        .at_least(0)
        .filled(Auto::learning_rate)
        .only("Adam AdamW Lamb Lion SGD")
        .drives("the learning rate, which a schedule varies"),
    number("optimizer.params.lr", "0.01")
        .at_least(0)
        .filled(Auto::learning_rate)
        .only("Adagrad")
        .drives("the learning rate, which a schedule varies"),
    pair("optimizer.params.betas", "[0.9, 0.999]")
        .at_least(0)
        .below(1)
        .filled(Auto::betas)
        .only("Adam AdamW Lamb Lion")
        .drives("the rates of decay of the moments"),
    number("optimizer.params.eps", "1e-8")
        .at_least(0)
        .filled(Auto::epsilon)
        .only("Adam AdamW Lamb")
        .drives("what the denominator gets added"),
    number("optimizer.params.eps", "1e-10")
        .at_least(0)
        .filled(Auto::epsilon)
        .only("Adagrad")
        .drives("what the denominator gets added"),
    number("optimizer.params.weight_decay", "0")
        .at_least(0)
        .filled(Auto::weight_decay)
        .only("Adam AdamW Lamb Lion Adagrad SGD")
        .drives("the weight decay, times each tensor's own factor"),
    boolean("optimizer.params.adam_w_mode", "true")
        .only("Adam AdamW")
        .drives("\"Adam\" means AdamW unless this is false: then decay joins the gradient"),
    boolean("optimizer.params.bias_correction", "true")
        .only("Adam AdamW")
        .refused("the moments are always corrected"),
    boolean("optimizer.params.bias_correction", "true")
        .only("Lamb")
        .drives("whether the moments are corrected"),
    boolean("optimizer.params.torch_adam", "false")
        .only("Adam AdamW")
        .harmless("there is one kernel, of one result"),
    boolean("optimizer.params.amsgrad", "false")
        .only("Adam AdamW")
        .refused("another update; DeepSpeed ignores it on the CPU and raises on the GPU"),
    boolean("optimizer.params.fp32_optimizer_states", "true")
        .only("Adam AdamW")
        .refused("the state's type is chosen when the program is compiled"),
    number("optimizer.params.max_coeff", "10.0")
        .above(0)
        .only("Lamb")
        .drives("the largest trust ratio"),
    number("optimizer.params.min_coeff", "0.01")
        .at_least(0)
        .only("Lamb")
        .drives("the smallest trust ratio"),
    boolean("optimizer.params.eps_inside_sqrt", "false").only("Lamb").refused("another update"),
    number("optimizer.params.momentum", "0").at_least(0).only("SGD").drives("the momentum"),
    number("optimizer.params.dampening", "0").only("SGD").drives("the momentum's dampening"),
    boolean("optimizer.params.nesterov", "false").only("SGD").drives("Nesterov's momentum"),
});

/// Keys of the section `scheduler`.
inline constexpr auto scheduler = std::to_array<Key>({
    text("scheduler.type", "").drives("the schedule's type"),
    section("scheduler.params").drives("the schedule's numbers"),
    whole("scheduler.params.last_batch_iteration", "-1")
        .only("LRRangeTest OneCycle WarmupLR WarmupDecayLR WarmupCosineLR")
        .refused("a checkpoint knows the step"),
    number("scheduler.params.warmup_min_lr", "0")
        .at_least(0)
        .filled(Auto::nothing)
        .only("WarmupLR WarmupDecayLR")
        .drives("the rate at the start of the warm-up"),
    number("scheduler.params.warmup_max_lr", "null")
        .at_least(0)
        .filled(Auto::learning_rate)
        .only("WarmupLR WarmupDecayLR")
        .drives("the rate at its end; absent: the optimizer's"),
    whole("scheduler.params.warmup_num_steps", "1000")
        .at_least(0)
        .at_most(most_updates)
        .counts("updates")
        .filled(Auto::warmup_steps)
        .only("WarmupLR WarmupDecayLR WarmupCosineLR")
        .drives("updates of the warm-up; 0: none"),
    choice("scheduler.params.warmup_type", "\"log\"", "log linear")
        .only("WarmupLR WarmupDecayLR WarmupCosineLR")
        .drives("how the rate rises"),
    whole("scheduler.params.total_num_steps", "")
        .at_least(0)
        .at_most(most_updates)
        .counts("updates")
        .filled(Auto::total_steps)
        .only("WarmupDecayLR WarmupCosineLR")
        .drives("updates of the whole run"),
    number("scheduler.params.warmup_min_ratio", "0")
        .at_least(0)
        .only("WarmupCosineLR")
        .drives("the first rate, as a part of the optimizer's"),
    number("scheduler.params.cos_min_ratio", "0.0001")
        .at_least(0)
        .only("WarmupCosineLR")
        .drives("the last rate, as a part of the optimizer's"),
    number("scheduler.params.cycle_min_lr", "")
        .at_least(0)
        .only("OneCycle")
        .drives("the rate at both ends of the cycle"),
    number("scheduler.params.cycle_max_lr", "")
        .at_least(0)
        .only("OneCycle")
        .drives("the rate in its middle"),
    number("scheduler.params.decay_lr_rate", "0")
        .at_least(0)
        .only("OneCycle")
        .drives("the decay after the cycle"),
    whole("scheduler.params.cycle_first_step_size", "2000")
        .at_least(1)
        .at_most(most_updates)
        .counts("updates")
        .only("OneCycle")
        .drives("updates of the rise"),
    whole("scheduler.params.cycle_second_step_size", "null")
        .at_least(1)
        .at_most(most_updates)
        .counts("updates")
        .only("OneCycle")
        .drives("updates of the fall; absent: those of the rise"),
    whole("scheduler.params.cycle_first_stair_count", "0")
        .at_least(0)
        .at_most(most_updates)
        .only("OneCycle")
        .drives("stairs of the rise; 0: none"),
    whole("scheduler.params.cycle_second_stair_count", "null")
        .at_least(0)
        .at_most(most_updates)
        .only("OneCycle")
        .drives("stairs of the fall; absent: those of the rise"),
    whole("scheduler.params.decay_step_size", "0")
        .at_least(0)
        .at_most(most_updates)
        .counts("updates")
        .only("OneCycle")
        .drives("updates of one decay; 0: no decay"),
    boolean("scheduler.params.cycle_momentum", "true")
        .only("OneCycle")
        .drives("whether beta1 moves against the rate, and beta2 becomes 0.99"),
    number("scheduler.params.cycle_min_mom", "0.8")
        .at_least(0)
        .below(1)
        .only("OneCycle")
        .drives("the smallest beta1"),
    number("scheduler.params.cycle_max_mom", "0.9")
        .at_least(0)
        .below(1)
        .only("OneCycle")
        .drives("the largest beta1"),
    number("scheduler.params.decay_mom_rate", "0")
        .at_least(0)
        .only("OneCycle")
        .drives("the growth of beta1 after the cycle"),
    number("scheduler.params.lr_range_test_min_lr", "0.001")
        .at_least(0)
        .only("LRRangeTest")
        .drives("the first rate"),
    whole("scheduler.params.lr_range_test_step_size", "2000")
        .at_least(1)
        .at_most(most_updates)
        .counts("updates")
        .only("LRRangeTest")
        .drives("updates of one growth"),
    number("scheduler.params.lr_range_test_step_rate", "1.0")
        .at_least(0)
        .only("LRRangeTest")
        .drives("the growth"),
    boolean("scheduler.params.lr_range_test_staircase", "false")
        .only("LRRangeTest")
        .drives("whether it grows in stairs"),
});

/// What the schedules of the arguments hold; a file cannot name them.
inline constexpr auto argument_scheduler = std::to_array<Key>({
    whole("scheduler.params.num_warmup_steps", "0")
        .at_least(0)
        .at_most(most_updates)
        .counts("updates")
        .only("linear cosine polynomial constant_with_warmup")
        .drives("updates of the warm-up; 0: none; only from the arguments"),
    whole("scheduler.params.num_training_steps", "")
        .at_least(1)
        .at_most(most_updates)
        .counts("updates")
        .only("linear cosine polynomial")
        .drives("updates of the whole run; only from the arguments"),
    number("scheduler.params.num_cycles", "0.5")
        .at_least(0)
        .at_most(1e9)
        .only("cosine")
        .drives("waves of the cosine; only from lr_scheduler_kwargs"),
    number("scheduler.params.lr_end", "1e-7")
        .at_least(0)
        .only("polynomial")
        .drives("the last rate; only from lr_scheduler_kwargs"),
    number("scheduler.params.power", "1.0")
        .at_least(0)
        .at_most(1e9)
        .only("polynomial")
        .drives("the exponent; only from lr_scheduler_kwargs"),
});

}  // namespace zero::keys
