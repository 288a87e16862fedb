// SPDX-License-Identifier: Apache-2.0
#pragma once
// The keys at the top level of a DeepSpeed configuration, and the sections beside
// zero_optimization, optimizer and scheduler. Defaults are those of DeepSpeed's code.

#include <zero/config/key.hpp>

#include <array>

namespace zero::keys {

/// Batch, clipping, precision.
inline constexpr auto training = std::to_array<Key>({
    whole("train_batch_size", "null")
        .at_least(1)
        .counts("samples")
        .filled(Auto::train_batch)
        .drives("samples of one update over all ranks; micro-batch x accumulation x world"),
    whole("train_micro_batch_size_per_gpu", "null")
        .at_least(1)
        .counts("samples")
        .filled(Auto::micro_batch)
        .drives("samples of one rank's micro-batch; the program cuts its batches by it"),
    whole("gradient_accumulation_steps", "null")
        .at_least(1)
        .counts("micro-batches")
        .filled(Auto::accumulation)
        .drives("Options::accumulation; 1 where nothing else says it"),
    number("gradient_clipping", "1.0")
        .at_least(0)
        .filled(Auto::max_grad_norm)
        .drives("Options::clip, the largest global L2 norm; 0 does not clip"),
    section("optimizer").drives("the optimizer; absent: the arguments', else the program's own"),
    section("scheduler").drives("the schedule; absent: the arguments', else the program's own"),
    section("zero_optimization").drives("the sharding policy; true means stage 1, false stage 0"),
    section("fp16").drives("Fp16Mixed and its loss scale"),
    section("bf16").drives("Bf16Mixed"),
    alias("bfloat16", "bf16", true),
    boolean("fp16.enabled", "false").filled(Auto::fp16).drives("the precision fp16"),
    boolean("fp16.auto_cast", "false").refused("a model's inputs are the model's own"),
    number("fp16.loss_scale", "0")
        .at_least(0)
        .at_most(0x1p100)
        .drives("a static loss scale; 0: dynamic"),
    whole("fp16.initial_scale_power", "16")
        .at_least(0)
        .at_most(100)
        .drives("the dynamic scale starts at 2 to this power"),
    whole("fp16.loss_scale_window", "1000")
        .at_least(1)
        .at_most(most_updates)
        .counts("steps")
        .drives("good steps between two doublings of the scale"),
    whole("fp16.hysteresis", "2")
        .at_least(1)
        .at_most(most_updates)
        .counts("overflows")
        .drives("overflows from which on the scale is halved"),
    boolean("fp16.consecutive_hysteresis", "false").drives("each good step refills the hysteresis"),
    number("fp16.min_loss_scale", "1")
        .at_least(0x1p-24)
        .drives("the scale below which an overflow ends the run"),
    boolean("fp16.fp16_master_weights_and_grads", "false")
        .refused("master weights are float in every precision here"),
    boolean("bf16.enabled", "false").filled(Auto::bf16).drives("the precision bf16"),
    boolean("bf16.immediate_grad_update", "false")
        .harmless("a gradient is reduced as soon as it is complete, always"),
    boolean("bf16.check_grad_overflow", "true")
        .harmless("a gradient that is not finite is found and skipped at every stage, always"),
    boolean("bf16.bf16_master_weights_and_grads", "false")
        .refused("master weights are float in every precision here"),
    boolean("bf16.bf16_optimizer_states", "false")
        .refused("the state's type is chosen when the program is compiled"),
    choice("communication_data_type", "null", "fp16 bf16 fp32")
        .drives("nothing but a check: gradients travel in the precision's gradient type"),
    choice("seq_parallel_communication_data_type", "\"fp32\"", "fp16 bf16 fp32")
        .harmless("there is no sequence-parallel group"),
    choice("gradient_allreduce_op", "\"mean\"", "mean sum")
        .refused("gradients are averaged over ranks: expected \"mean\""),
    boolean("prescale_gradients", "false")
        .refused("the wire carries sums, which are divided once, in float, by the update"),
    number("gradient_predivide_factor", "1.0")
        .refused("the wire carries sums, which are divided once, in float, by the update"),
    section("data_types").drives("checks only"),
    choice("data_types.grad_accum_dtype", "null", "fp32 fp16 bf16")
        .drives("nothing but a check: micro-batches are always added in float"),
    choice("data_types.param_dtype", "null", "fp32 fp16 bf16")
        .drives("nothing but a check: it must be the precision's"),
    choice("data_types.buffer_dtype", "null", "fp32 fp16 bf16")
        .harmless("buffers that are no parameters belong to the model"),
    boolean("zero_allow_untested_optimizer", "false")
        .harmless("every optimizer of the concept is sharded exactly, there is no list"),
    boolean("zero_force_ds_cpu_optimizer", "true")
        .drives("false lets a user's own optimizer run with an offloaded optimizer state"),
});

/// What DeepSpeed prints, and other switches that change no number.
inline constexpr auto reporting = std::to_array<Key>({
    boolean("managed_gradient_accumulation", "true")
        .harmless("a step takes the micro-batches that it is given"),
    whole("steps_per_print", "null").at_least(1).harmless("zero::Progress decides when it prints"),
    boolean("wall_clock_breakdown", "false")
        .harmless("times by phase are always kept, zero::Metrics writes them"),
    boolean("memory_breakdown", "false").harmless("the memory plan and the ledger are always kept"),
    boolean("dump_state", "false").harmless("zero-config check prints what is resolved"),
    text("log_level", "null").harmless("there is no logger"),
    section("timers").harmless("the rate of tokens is measured without stopping a device"),
    section("timers.throughput").harmless("see timers"),
    boolean("timers.throughput.enabled", "true").harmless("see timers"),
    boolean("timers.throughput.synchronized", "true").harmless("see timers"),
    boolean("dataloader_drop_last", "false").harmless("batches are the program's"),
    whole("vocabulary_size", "null").harmless("DeepSpeed only warns about it"),
    boolean("graph_harvesting", "false").harmless("an optimization of DeepSpeed's own kernels"),
    boolean("disable_allgather", "false").refused("an old form of stage 1"),
    boolean("sparse_gradients", "false").refused("gradients are dense"),
    section("flops_profiler").only_if_enabled().harmless("a profiler of Python modules"),
    boolean("flops_profiler.enabled", "false").harmless("see flops_profiler"),
    number("flops_profiler.recompute_fwd_factor", "0.0").harmless("see flops_profiler"),
    whole("flops_profiler.profile_step", "1").harmless("see flops_profiler"),
    whole("flops_profiler.module_depth", "-1").harmless("see flops_profiler"),
    whole("flops_profiler.top_modules", "1").harmless("see flops_profiler"),
    boolean("flops_profiler.detailed", "true").harmless("see flops_profiler"),
    text("flops_profiler.output_file", "null").harmless("see flops_profiler"),
    section("comms_logger").only_if_enabled().harmless("zero::Recording logs collectives"),
    boolean("comms_logger.enabled", "false").harmless("see comms_logger"),
    boolean("comms_logger.verbose", "false").harmless("see comms_logger"),
    boolean("comms_logger.prof_all", "true").harmless("see comms_logger"),
    boolean("comms_logger.debug", "false").harmless("see comms_logger"),
    list("comms_logger.prof_ops", "[]").harmless("see comms_logger"),
    section("aio").drives("requests to NVMe, for the tier nvme"),
    whole("aio.block_size", "1048576").at_least(1).counts("bytes").drives("bytes of a request"),
    whole("aio.queue_depth", "8").at_least(1).drives("requests under way at once"),
    whole("aio.intra_op_parallelism", "1").at_least(1).drives("threads that share a transfer"),
    whole("aio.thread_count", "1")
        .harmless("DeepSpeed's documentation names it, its code reads intra_op_parallelism"),
    boolean("aio.single_submit", "false").harmless("requests are handed over as they come"),
    boolean("aio.overlap_events", "true")
        .harmless("requests are always handed over while others run"),
    boolean("aio.use_gds", "false").refused("transfers pass through host memory"),
    section("checkpoint").drives("checkpoints"),
    choice("checkpoint.tag_validation", "\"Warn\"",
           "Ignore Warn Fail IGNORE WARN FAIL ignore warn fail")
        .harmless("saving is collective, and every rank is held to one folder"),
    boolean("checkpoint.load_universal", "false")
        .harmless("every checkpoint loads at every stage and world"),
    boolean("checkpoint.use_node_local_storage", "false")
        .refused("a checkpoint is one folder that all ranks see"),
    section("checkpoint.parallel_write").harmless("every rank writes its own file"),
    boolean("checkpoint.parallel_write.pipeline_stage", "false")
        .harmless("every rank writes its own file"),
    boolean("checkpoint.checkpoint_serialization", "true").harmless("files are safetensors"),
    section("checkpoint.writer").harmless("files are written by the library's own writer"),
    choice("checkpoint.writer.type", "null", "FAST PYTHON MOCK").harmless("see checkpoint.writer"),
    whole("checkpoint.writer.io_buffer_size", "67108864").harmless("see checkpoint.writer"),
    boolean("checkpoint.writer.io_buffer_double", "true").harmless("see checkpoint.writer"),
    boolean("checkpoint.writer.show_statistics", "false").harmless("see checkpoint.writer"),
    choice("checkpoint.writer.data_parallel", "null", "replica socket machine")
        .harmless("see checkpoint.writer"),
    boolean("checkpoint.writer.decoupled", "false").harmless("see checkpoint.writer"),
    number("checkpoint.writer.io_multiplier", "1").harmless("see checkpoint.writer"),
});

/// Systems that this library is not: off they may stand, on they are refused by name.
inline constexpr auto foreign = std::to_array<Key>({
    section("activation_checkpointing").harmless("a model recomputes what it likes"),
    boolean("activation_checkpointing.partition_activations", "false")
        .refused("activations belong to the model"),
    boolean("activation_checkpointing.cpu_checkpointing", "false")
        .refused("activations belong to the model"),
    boolean("activation_checkpointing.contiguous_memory_optimization", "false")
        .refused("activations belong to the model"),
    whole("activation_checkpointing.number_checkpoints", "null")
        .refused("activations belong to the model"),
    boolean("activation_checkpointing.synchronize_checkpoint_boundary", "false")
        .harmless("see activation_checkpointing"),
    boolean("activation_checkpointing.profile", "false").harmless("see activation_checkpointing"),
    section("amp").only_if_enabled().refused("apex mixed precision: use fp16 or bf16"),
    section("torch_autocast").only_if_enabled().refused("autocast of torch: use fp16 or bf16"),
    section("elasticity").only_if_enabled().refused("elastic batch sizes change the batch"),
    section("tensorboard").only_if_enabled().refused("zero::Metrics writes CSV and JSON lines"),
    section("csv_monitor").only_if_enabled().refused("zero::Metrics writes CSV and JSON lines"),
    section("wandb").only_if_enabled().refused("zero::Metrics writes CSV and JSON lines"),
    section("comet").only_if_enabled().refused("zero::Metrics writes CSV and JSON lines"),
    section("nebula").only_if_enabled().refused("another checkpoint system"),
    section("datastates_ckpt").only_if_enabled().refused("another checkpoint system"),
    section("autotuning").only_if_enabled().refused("zero-config plan --recommend chooses a stage"),
    section("hybrid_engine").only_if_enabled().refused("an engine for inference"),
    section("eigenvalue").only_if_enabled().refused("another training method"),
    section("progressive_layer_drop").only_if_enabled().refused("another training method"),
    section("curriculum_learning").only_if_enabled().refused("another training method"),
    section("data_efficiency").only_if_enabled().refused("another training method"),
    section("quantize_training").only_if_enabled().refused("another training method"),
    section("weight_quantization").only_if_enabled().refused("another training method"),
    anything("compression_training", "{}").refused("another training method"),
    anything("sparse_attention", "null").refused("attention belongs to the model"),
    anything("pipeline", "{}").refused("pipeline parallelism"),
    section("compile").refused("a compiler of Python modules"),
    boolean("compile.deepcompile", "false").refused("a compiler of Python modules"),
    section("tensor_parallel").refused("tensor parallelism"),
    whole("tensor_parallel.autotp_size", "0").refused("tensor parallelism"),
    whole("sequence_parallel_size", "1").refused("sequence parallelism"),
    anything("expert_parallel", "{}").refused("expert parallelism"),
    boolean("use_data_before_expert_parallelism", "false").refused("expert parallelism"),
});

}  // namespace zero::keys
