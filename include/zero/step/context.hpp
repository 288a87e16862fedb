// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the parts of one sharded model share: its layout, timeline and plan, the communicator, the
// streams, and the small tables. Parameters, Gradients and OptimizerState are made from it and must
// not outlive it.

#include <zero/comm/communicator.hpp>
#include <zero/core/counters.hpp>
#include <zero/core/hash.hpp>
#include <zero/core/version.hpp>
#include <zero/model/model.hpp>
#include <zero/optim/optimizer_hash.hpp>
#include <zero/step/exchange.hpp>
#include <zero/step/requirements.hpp>

#include <string>
#include <utility>

namespace zero {

/// @tparam C the communicator, which brings the device
/// @tparam P a Policies<...>
template <Communicator C, class P>
class Context : Requirements<C, P> {
 public:
  using Communicator = C;
  using Policy = P;
  using Device = typename C::Device;
  using Sharding = typename P::Sharding;
  using Parameter = typename P::Precision::Parameter;
  using Gradient = typename P::Precision::Gradient;
  static constexpr bool has_master = P::Precision::has_master;

  /// Plans everything, compares the plan with the other ranks', allocates the tables. Every rank
  /// makes its context with equal units, schedule and options.
  /// @throws InvalidArgument for what the descriptions or options get wrong; OutOfMemory, naming
  ///   every planned buffer, when the plan does not fit the device's limit; CommunicationError,
  ///   naming the first difference, when ranks were built differently
  /// @param optimizer_facts what is compared of the optimizer, hash(optimizer)
  Context(Description model, C ranks, Index num_states, Options const& run_options,
          std::uint64_t optimizer_facts = 0)
      : units((validate(run_options), std::move(model.units))),
        options(run_options),
        loss_scale(options.loss_scale.value_or(std::same_as<Gradient, fp16> ? LossScale::dynamic()
                                                                            : LossScale())),
        layout(units, ranks.size()),
        shares(layout, Facts::of<P>(num_states), options),
        timeline((validate(model.schedule, units), std::move(model.schedule)), layout, shares,
                 options),
        plan(layout, shares, timeline),
        communicator(std::move(ranks)),
        compute(device().stream()),
        gathering(device().stream()),
        reducing(device().stream()),
        tables((check_limit(), device()), plan.tables),
        extra_parameters(device()),
        extra_gradients(device()) {
    compare(optimizer_facts);
    auto claim = decision().template on<Decision>(compute);
    Decision first{};
    first.loss_scale = first.used_scale = loss_scale.initial();
    first.scale_state = LossScaleState::first(loss_scale);
    copy_in(compute, claim.view(), &first);
    claim.end();
    compute.synchronize();
  }
  /// From a model and its parts: Context{model, communicator, AdamW{}, Options{}, Sharded<2>{}}.
  template <Model M, Optimizer O, zero::Policy... Q>
  Context(M const& model, C ranks, O const& optimizer, Options const& run_options, Q...)
      : Context(describe(model), std::move(ranks), O::num_states, run_options, hash(optimizer)) {}
  Context(Context const&) = delete;
  Context& operator=(Context const&) = delete;

  /// Waits for the compute stream; rethrows what has failed on any: what compute has waited for may
  /// have failed where it was done.
  void wait() {
    compute.synchronize();
    check();
  }
  /// Rethrows what has failed on any stream so far; does not wait.
  void check() {
    compute.check();
    gathering.check();
    reducing.check();
  }
  /// Runs f. A failure on this rank ends the work of all: the others throw its text.
  template <class F>
  void guarded(F f) {
    try {
      f();
    } catch (NotFinite const&) {
      throw;  // every rank makes the same decision and throws by itself
    } catch (std::exception const& e) {
      communicator.abort("rank " + std::to_string(rank()) + " failed: " + e.what());
      throw;
    } catch (...) {
      communicator.abort("rank " + std::to_string(rank()) + " failed");
      throw;
    }
  }
  /// Waits for all streams, whatever has failed on them: memory may be given back afterwards. What
  /// has failed here ends the others, which could otherwise wait for this rank.
  void settle() noexcept {
    for (bool waits : {false, true}) {
      for (auto* stream : {&compute, &gathering, &reducing}) {
        try {
          guarded([&] { waits ? stream->synchronize() : stream->check(); });
        } catch (...) {  // whoever wanted to know has asked before
        }
      }
    }
  }

  Device& device() const { return communicator.device(); }
  int rank() const { return communicator.rank(); }
  int world() const { return communicator.size(); }
  std::string_view unit_name(Index u) const { return layout[static_cast<int>(u)].name; }

  /// The tables' slots.
  Slot<Device>& decision() { return tables[0]; }
  Slot<Device>& loss() { return tables[1]; }
  Slot<Device>& records() { return tables[2]; }
  Slot<Device>& exchange_rows() { return tables[3]; }
  Slot<Device>& segments(int u) { return tables[4 + u]; }

  /// The place of a collective, and its entry in the hash of this step's collectives.
  Where where(std::string_view phase, int u) {
    issued.add(phase).add(Index{u});
    return {phase, layout[u].name, step, micro_batches};
  }

  /// Every rank's words, in rank order; waits. Uses the stage's own collectives.
  /// @param words at most max_exchanged_words, the same count on every rank
  /// @param what names the exchange in errors; outlives the call
  std::vector<std::uint64_t> exchange(std::span<std::uint64_t const> words, std::string_view what) {
    if (shares.alone()) return {words.begin(), words.end()};
    C ranks = communicator.channel(0);
    return exchange_words<P>(ranks, exchange_rows(), compute, words, Where{"exchange", what, step});
  }

  Units const units;
  Options const options;
  LossScale const loss_scale;
  Layout const layout;
  Shares const shares;
  Timeline const timeline;
  MemoryPlan const plan;
  C const communicator;
  typename Device::Stream compute;    ///< the model's work, clip and update; channel 0
  typename Device::Stream gathering;  ///< gathers and publications; channel 1
  typename Device::Stream reducing;   ///< reductions; channel 2
  SlotArray<Device> tables;
  ExtraSlots<Device> extra_parameters;
  ExtraSlots<Device> extra_gradients;
  Index step = 0;           ///< steps begun so far
  Index micro_batches = 0;  ///< of the step under way; 0 in an evaluation
  Hash issued{};            ///< of the collectives issued since the last decision
  Deviations deviations{};
  PhaseSeconds seconds{};

 private:
  void check_limit() const {
    Index const limit = device().ledger().limit_bytes();
    Index const used = device().ledger().bytes();
    if (limit == 0 || used + plan.total_bytes() <= limit) return;
    throw OutOfMemory("stage " + std::to_string(shares.facts().stage()) + " on " +
                      std::to_string(world()) + " ranks does not fit: the plan needs " +
                      std::to_string(plan.total_bytes()) + " bytes a rank, the device's limit is " +
                      std::to_string(limit) + " bytes with " + std::to_string(used) +
                      " in use. Plan: " + plan.text());
  }

  void compare(std::uint64_t optimizer_facts) {
    if (shares.alone()) return;
    auto const bits = [](float x) { return std::uint64_t{std::bit_cast<std::uint32_t>(x)}; };
    DynamicLossScale const& scale = loss_scale.settings();
    std::pair<char const*, std::uint64_t> const facts[] = {
        {"the library's version", Hash().add(version).value()},
        {"the model's layout", layout.hash()},
        {"the model's schedule", hash(timeline.schedule())},
        {"the policy", shares.facts().hash()},
        {"the optimizer", optimizer_facts},
        {"Options::loss_scale", Hash()
                                    .add(Index{loss_scale.moves()})
                                    .add(bits(loss_scale.initial()))
                                    .add(scale.window)
                                    .add(scale.hysteresis)
                                    .add(bits(scale.minimum))
                                    .add(Index{scale.consecutive_hysteresis})
                                    .add(scale.max_bad_losses)
                                    .value()},
        {"Options::accumulation", static_cast<std::uint64_t>(options.accumulation)},
        {"Options::clip", bits(options.clip)},
        {"Options::reduction", std::uint64_t{shares.boundary()}},
        {"Options::prefetch", static_cast<std::uint64_t>(options.prefetch)},
        {"Options::bucket", static_cast<std::uint64_t>(options.bucket)},
        {"Options::publish_bucket",
         static_cast<std::uint64_t>(options.publish_bucket.value_or(options.bucket))},
        {"Options::persistence_threshold",
         static_cast<std::uint64_t>(options.persistence_threshold)},
        {"Options::release_after_forward", std::uint64_t{options.release_after_forward}},
        {"Options::seed", options.seed}};
    std::vector<std::uint64_t> words;
    for (auto const& [name, value] : facts) words.push_back(value);
    std::vector<std::uint64_t> const all = exchange(words, "start");
    for (std::size_t i = 0; i < words.size(); ++i) {
      for (Index r = 1; r < world(); ++r) {
        if (all[at(r) * words.size() + i] == all[i]) continue;
        throw CommunicationError(std::string("ranks were built differently: rank ") +
                                 std::to_string(r) + " differs from rank 0 in " + facts[i].first);
      }
    }
  }
};

template <Model M, Communicator C, Optimizer O, Policy... Q>
Context(M, C, O, Options, Q...) -> Context<C, Policies<Q...>>;

}  // namespace zero
