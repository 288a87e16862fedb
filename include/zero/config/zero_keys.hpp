// SPDX-License-Identifier: Apache-2.0
#pragma once
// The keys of the section zero_optimization. Sizes are counted in elements. Defaults are those of
// DeepSpeed's code, not of its documentation.

#include <zero/config/key.hpp>

#include <array>

namespace zero::keys {

/// Keys of the section `zero_optimization`.
inline constexpr auto sharding = std::to_array<Key>({
    whole("zero_optimization.stage", "0").at_least(0).at_most(3).drives("Sharded<stage>"),
    whole("zero_optimization.reduce_bucket_size", "500000000")
        .at_least(0)
        .counts("elements")
        .filled(Auto::hidden_squared)
        .drives("Options::bucket: neighbouring units up to so many elements are reduced, and at "
                "stage 3 "
                "gathered, as one group"),
    whole("zero_optimization.allgather_bucket_size", "500000000")
        .at_least(0)
        .counts("elements")
        .drives("Options::publish_bucket: neighbouring units are published as one group"),
    alias("allgather_size", "zero_optimization.allgather_bucket_size", true),
    whole("zero_optimization.stage3_prefetch_bucket_size", "50000000")
        .at_least(0)
        .counts("elements")
        .filled(Auto::prefetch)
        .drives("Options::prefetch: as many visits ahead as the largest unit fits into it"),
    whole("zero_optimization.stage3_param_persistence_threshold", "100000")
        .at_least(0)
        .counts("elements")
        .filled(Auto::persistence)
        .drives("Options::persistence_threshold, of a whole unit, not of one tensor"),
    whole("zero_optimization.stage3_model_persistence_threshold", "9223372036854775807")
        .at_least(0)
        .counts("elements")
        .drives("the most that stays gathered of all units; the threshold falls until it holds"),
    whole("zero_optimization.stage3_max_live_parameters", "1000000000")
        .at_least(0)
        .counts("elements")
        .drives("bounds the prefetch: so many elements are gathered at once at most"),
    whole("zero_optimization.stage3_max_reuse_distance", "1000000000")
        .at_least(0)
        .counts("elements")
        .harmless("a unit is kept where it comes back within the prefetch"),
    boolean("zero_optimization.stage3_gather_16bit_weights_on_model_save", "false")
        .filled(Auto::no_gather)
        .drives("whether stage 3 may save a whole 16-bit model"),
    section("zero_optimization.offload_optimizer").drives("the tier of optimizer state"),
    choice("zero_optimization.offload_optimizer.device", "\"none\"", "none cpu nvme")
        .drives("Offload<OptimizerTier, ...>: OnDevice, OnHost, OnNvme"),
    text("zero_optimization.offload_optimizer.nvme_path", "null")
        .drives("the folder of the tier nvme"),
    whole("zero_optimization.offload_optimizer.buffer_count", "4")
        .at_least(1)
        .drives("the tier's tiles"),
    boolean("zero_optimization.offload_optimizer.pin_memory", "true")
        .drives("whether the tier locks its host memory"),
    boolean("zero_optimization.offload_optimizer.pipeline_read", "false")
        .harmless("the tier's reads always run ahead"),
    boolean("zero_optimization.offload_optimizer.pipeline_write", "false")
        .harmless("the tier's writes always run behind"),
    boolean("zero_optimization.offload_optimizer.fast_init", "false")
        .harmless("the tier's first values are written a tile at a time, as the trainer is made"),
    number("zero_optimization.offload_optimizer.ratio", "1.0")
        .at_least(0)
        .at_most(1)
        .drives("the share of optimizer state that is offloaded"),
    boolean("zero_optimization.offload_optimizer.super_offload", "false")
        .refused("an update that is guessed and rolled back"),
    number("zero_optimization.offload_optimizer.cpuadam_cores_perc", "0.8")
        .at_least(0)
        .at_most(1)
        .harmless("only super_offload reads it"),
    section("zero_optimization.offload_param").drives("the tier of parameters"),
    choice("zero_optimization.offload_param.device", "\"none\"", "none cpu nvme")
        .drives("Offload<..., ParameterTier>: OnDevice, OnHost, OnNvme"),
    text("zero_optimization.offload_param.nvme_path", "null").drives("the folder of the tier nvme"),
    whole("zero_optimization.offload_param.buffer_count", "5")
        .at_least(1)
        .drives("the tier's tiles; the larger one of the two sections, at least 3"),
    whole("zero_optimization.offload_param.buffer_size", "100000000")
        .at_least(1)
        .counts("elements")
        .harmless("a buffer always holds the largest tile, so that none is too small"),
    whole("zero_optimization.offload_param.max_in_cpu", "1000000000")
        .at_least(0)
        .counts("elements")
        .drives("elements that the tier nvme may keep in host memory"),
    boolean("zero_optimization.offload_param.pin_memory", "true")
        .drives("whether the tier locks its host memory"),
    whole("zero_optimization.sub_group_size", "1000000000")
        .at_least(0)
        .counts("elements")
        .drives("the tile of the offloaded update; without offload nothing"),

    // Deprecated and other spellings.
    boolean("zero_optimization.cpu_offload", "null").drives("deprecated: offload_optimizer.device"),
    boolean("zero_optimization.cpu_offload_param", "null")
        .drives("deprecated: offload_param.device"),
    boolean("zero_optimization.cpu_offload_use_pin_memory", "null")
        .harmless(
            "deprecated, and without effect in DeepSpeed: pin_memory of the offload sections"),
    alias("zero_optimization.stage3_gather_fp16_weights_on_model_save",
          "zero_optimization.stage3_gather_16bit_weights_on_model_save", true),
    alias("zero_optimization.gather_fp16_weights_on_model_save",
          "zero_optimization.stage3_gather_16bit_weights_on_model_save", true),
    alias("zero_optimization.gather_16bit_weights_on_model_save",
          "zero_optimization.stage3_gather_16bit_weights_on_model_save", false),
    alias("zero_optimization.prefetch_bucket_size", "zero_optimization.stage3_prefetch_bucket_size",
          false),
    alias("zero_optimization.param_persistence_threshold",
          "zero_optimization.stage3_param_persistence_threshold", false),
    alias("zero_optimization.model_persistence_threshold",
          "zero_optimization.stage3_model_persistence_threshold", false),
    alias("zero_optimization.max_live_parameters", "zero_optimization.stage3_max_live_parameters",
          false),
    alias("zero_optimization.max_reuse_distance", "zero_optimization.stage3_max_reuse_distance",
          false),
    alias("zero_optimization.module_granularity_threshold",
          "zero_optimization.stage3_module_granularity_threshold", false),
    alias("zero_optimization.use_all_reduce_for_fetch_params",
          "zero_optimization.stage3_use_all_reduce_for_fetch_params", false),
    alias("zero_optimization.allgather_sequential", "zero_optimization.stage3_allgather_sequential",
          false),

    // What the library always does, or never, without a change of results.
    boolean("zero_optimization.contiguous_gradients", "true")
        .harmless("a unit's gradients are always contiguous"),
    boolean("zero_optimization.overlap_comm", "null")
        .drives("Options::overlap: false reduces on the compute stream, null and true beside it"),
    boolean("zero_optimization.reduce_scatter", "true")
        .harmless("stages 1 to 3 always reduce each slice to its owner"),
    boolean("zero_optimization.use_multi_rank_bucket_allreduce", "true")
        .harmless("stages 1 to 3 always reduce each slice to its owner"),
    boolean("zero_optimization.allgather_partitions", "true")
        .harmless("updated slices are always gathered, never broadcast"),
    boolean("zero_optimization.round_robin_gradients", "false")
        .harmless("every unit is spread over all ranks evenly"),
    boolean("zero_optimization.ignore_unused_parameters", "true")
        .harmless("visits that a pass leaves out are made empty"),
    whole("zero_optimization.stage3_module_granularity_threshold", "0")
        .harmless("a unit is what is gathered together"),
    boolean("zero_optimization.stage3_use_all_reduce_for_fetch_params", "false")
        .harmless("parameters are fetched by all_gather, of equal bits"),
    boolean("zero_optimization.stage3_allgather_sequential", "false")
        .harmless("a unit is gathered at once"),
    section("zero_optimization.leaf_module").harmless("a unit is what is gathered together"),
    list("zero_optimization.leaf_module.classes", "null").harmless("see leaf_module"),
    list("zero_optimization.leaf_module.names", "null").harmless("see leaf_module"),
    list("zero_optimization.leaf_module.name_suffixes", "null").harmless("see leaf_module"),
    boolean("zero_optimization.memory_efficient_linear", "true").harmless("layers are the model's"),
    boolean("zero_optimization.override_module_apply", "true")
        .harmless("there are no Python modules"),
    boolean("zero_optimization.pipeline_loading_checkpoint", "false")
        .harmless("loading always goes by ranges"),
    boolean("zero_optimization.elastic_checkpoint", "false")
        .harmless("every checkpoint loads at every world"),
    boolean("zero_optimization.log_trace_cache_warnings", "false")
        .harmless("the order of visits is known before the first step"),
    boolean("zero_optimization.enable_sanity_checks", "false")
        .harmless("ranks are always compared before the first step"),
    boolean("zero_optimization.load_from_fp32_weights", "true")
        .refused("master weights are what a checkpoint holds"),

    // ZeRO++, MiCS and other systems.
    whole("zero_optimization.zero_hpz_partition_size", "1").refused("ZeRO++: a second sharding"),
    boolean("zero_optimization.zero_quantized_weights", "false").refused("ZeRO++ rounds weights"),
    boolean("zero_optimization.zero_quantized_nontrainable_weights", "false")
        .refused("ZeRO++ rounds weights"),
    boolean("zero_optimization.zero_quantized_gradients", "false")
        .refused("ZeRO++ rounds gradients"),
    anything("zero_optimization.zeropp_loco_param", "null").refused("ZeRO++ rounds gradients"),
    whole("zero_optimization.mics_shard_size", "-1").refused("MiCS shards within groups of ranks"),
    boolean("zero_optimization.mics_hierarchical_params_gather", "false")
        .refused("MiCS shards within groups of ranks"),
    anything("zero_optimization.zenflow", "null").refused("ZenFlow updates with stale gradients"),
    boolean("zero_optimization.save_muon_momentum_buffer_in_memory", "false")
        .refused("there is no Muon"),
    boolean("zero_optimization.legacy_stage1", "false").refused("DeepSpeed has removed it"),
    boolean("zero_optimization.grad_hooks", "true").refused("DeepSpeed has removed it"),
});

}  // namespace zero::keys
