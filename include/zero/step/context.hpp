// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the parts of one sharded model share: its layout, timeline and plan, the communicator, the
// streams, and the small tables. Parameters, Gradients and OptimizerState are made from it and must
// not outlive it.

#include <zero/comm/communicator.hpp>
#include <zero/core/counters.hpp>
#include <zero/core/hash.hpp>
#include <zero/core/version.hpp>
#include <zero/device/flatten.hpp>
#include <zero/device/range.hpp>
#include <zero/device/replay.hpp>
#include <zero/model/backward_place.hpp>
#include <zero/model/model.hpp>
#include <zero/optim/optimizer_hash.hpp>
#include <zero/step/exchange.hpp>
#include <zero/step/requirements.hpp>
#include <zero/tier/tiers.hpp>

#include <array>
#include <string>
#include <utility>

namespace zero {

/// @tparam C the communicator, which brings the device
/// @tparam P a Policies<...>
template <Communicator C, class P>
class Context : Requirements<C, P> {
 public:
  using Communicator = C;                                       ///< of the ranks
  using Policy = P;                                             ///< the bundle
  using Device = typename C::Device;                            ///< of this rank
  using Sharding = typename P::Sharding;                        ///< who keeps what
  using Parameter = typename P::Precision::Parameter;           ///< type on device and wire
  using Gradient = typename P::Precision::Gradient;             ///< type on device and wire
  using State = typename P::State::Type;                        ///< of the optimizer's numbers
  using Range = RangeOf<Device>;                                ///< names what is enqueued
  static constexpr bool has_master = P::Precision::has_master;  ///< float weights behind them
  /// Master weights are the parameters and the 16 bits below.
  static constexpr bool splits_master = zero::splits_master<typename P::Precision>;
  /// Some state lies below the device.
  static constexpr bool has_tiers =
      Sharding::optimizer_tier != Tier::device || Sharding::parameter_tier != Tier::device;
  /// How the elements of an update lie in memory.
  using Stored = StoredAs<Parameter, State, splits_master>;

  /// Plans everything, compares the plan with the other ranks', allocates the tables. Every rank
  /// makes its context with equal units, schedule and options.
  /// @throws InvalidArgument for what the descriptions or options get wrong; OutOfMemory, naming
  ///   every planned buffer, when the plan does not fit the device's limit; CommunicationError,
  ///   naming the first difference, when ranks were built differently
  /// @param facts Facts::of<P>(num_states, has_trust_ratio) of the optimizer
  /// @param optimizer_facts what is compared of the optimizer, hash(optimizer)
  /// @param model what is trained
  /// @param ranks the communicator
  /// @param run_options the same on every rank
  Context(Description model, C ranks, Facts const& facts, Options const& run_options,
          std::uint64_t optimizer_facts = 0)
      : units((validate(run_options, ranks.size()), validate(facts, run_options),
               require_replay<Device>(run_options.replay, has_tiers, P::Checking::checks),
               std::move(model.units))),
        options(run_options),
        loss_scale(options.loss_scale.value_or(std::same_as<Gradient, fp16> ? LossScale::dynamic()
                                                                            : LossScale())),
        layout(units, ranks.size()),
        shares(layout, facts, options),
        timeline((validate(model.schedule, units), std::move(model.schedule)), layout, shares,
                 options),
        plan(layout, shares, timeline, workspace_bytes<Device>, CanPin<Device>),
        communicator(std::move(ranks)),
        compute(device().stream()),
        gathering(device().stream()),
        beside(device().stream()),
        reducing(options.overlap ? beside : compute),
        tables((check_limit(), device()), plan.tables),
        tiers(device(), layout, shares, plan.tiers, communicator.rank()),
        extra_parameters(device()),
        extra_gradients(device()) {
    try {
      start(optimizer_facts);
    } catch (...) {  // no member goes while a stream works on it
      settle();
      throw;
    }
  }
  /// From a model and its parts: Context{model, communicator, AdamW{}, Options{}, Sharded<2>{}}.
  template <Model M, Optimizer O, zero::Policy... Q>
  Context(M const& model, C ranks, O const& optimizer, Options const& run_options, Q...)
      : Context(describe(model), std::move(ranks), Facts::of<P>(O::num_states, HasTrustRatio<O>),
                run_options, hash(optimizer)) {}
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
    for_each_stream([](auto& stream) { stream.check(); });
  }
  /// Waits for all streams; rethrows what has failed on any.
  void synchronize() {
    for_each_stream([](auto& stream) { stream.synchronize(); });
    check();
  }
  /// Calls f(stream) for each stream of the context.
  template <class F>
  void for_each_stream(F f) {
    for (auto* stream : {&compute, &gathering, &reducing}) f(*stream);
    tiers.for_each_stream(f);
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
      for_each_stream([&](auto& stream) {
        try {
          guarded([&] { waits ? stream.synchronize() : stream.check(); });
        } catch (...) {  // whoever wanted to know has asked before
        }
      });
    }
  }

  Device& device() const { return communicator.device(); }  ///< of this rank
  int rank() const { return communicator.rank(); }          ///< of this process or thread
  int world() const { return communicator.size(); }         ///< ranks
  /// Of unit u in norm records.
  Index mark(int u) const { return unit_mark(u, timeline.visits() - timeline.last_backward(u)); }
  /// Where backward met first what is not finite in unit u's gradient, Decision::bad_unit.
  std::string place(Index u) const { return backward_place(timeline.schedule(), units, u); }

  /// The tables' slots.
  Slot<Device>& decision() { return tables[0]; }
  Slot<Device>& loss() { return tables[1]; }           ///< the sum over micro-batches, and a mark
  Slot<Device>& records() { return tables[2]; }        ///< [world, 4] doubles
  Slot<Device>& exchange_rows() { return tables[3]; }  ///< [world, words]
  Slot<Device>& segments(int u) { return tables[4 + u]; }  ///< of unit u's owned slice
  /// The tensors' norms, [world, trained tensors, 2]; only where the optimizer has trust ratios.
  Slot<Device>& norms() { return tables[4 + layout.size()]; }

  /// Sums of squares by unit, [units, 4]; only where Shares::mixes().
  Slot<Device>& unit_records() {
    return tables[4 + layout.size() + Index{shares.facts().has_trust_ratio}];
  }

  /// The place of a collective, and its entry in the hash of this step's collectives. A channel has
  /// a hash of its own: how the channels' collectives interleave may differ between ranks.
  Where where(int channel, std::string_view phase, int u) {
    issued[at(channel)].add(phase).add(Index{u});
    return {phase, layout[u].name, step, micro_batches};
  }
  /// A number that nothing else of this context has had, from 1: a part keeps one as its name in
  /// what is recorded, since another part may come to lie at its address.
  Index new_number() { return ++numbers_; }
  /// A visit outside the schedule, which all ranks must make alike.
  void extra_visit(Phase phase, int u) {
    tiers.extra_visit(u);
    ++deviations.extra_visits;
    extra_visits.add(Index{phase == Phase::backward}).add(Index{u});
  }
  /// A hash of what this rank has done since the last decision, and of all its extra visits.
  std::uint64_t done() const {
    Hash all = extra_visits;
    for (Hash const& channel : issued) all.add(channel.value());
    return all.value();
  }
  /// @throws CommunicationError, on every rank alike, when a decision shows that ranks did not do
  ///   the same; NotFinite, as check_finite
  void check_decision(Decision const& d) const {
    if (d.diverged_rank >= 0) {
      throw CommunicationError("rank " + std::to_string(d.diverged_rank) +
                               " issued other collectives, or made other visits outside the "
                               "schedule, than rank 0 before step " +
                               std::to_string(step) + " was decided");
    }
    check_finite(d, d.updates + d.skipped, [this](Index u) { return place(u); });
  }

  /// Every rank's words, in rank order; waits. Uses the stage's own collectives.
  /// @param words fewer than max_exchanged_words, the same count on every rank
  /// @param what names the exchange in errors; outlives the call
  /// @throws InvalidArgument for more words; CommunicationError, on every rank, when ranks
  ///   have made different visits outside the schedule
  std::vector<std::uint64_t> exchange(std::span<std::uint64_t const> words, std::string_view what) {
    if (shares.alone()) return {words.begin(), words.end()};
    C ranks = communicator.channel(0);
    std::vector<std::uint64_t> row(words.begin(), words.end());
    row.push_back(extra_visits.value());
    std::vector<std::uint64_t> const rows =
        exchange_words<P>(ranks, exchange_rows(), compute, row, Where{"exchange", what, step});
    std::vector<std::uint64_t> all;
    for (std::size_t r = 0; r < rows.size(); r += row.size()) {
      if (rows[r + words.size()] != rows[words.size()]) {
        throw CommunicationError("rank " + std::to_string(r / row.size()) +
                                 " made other visits outside the schedule than rank 0 before '" +
                                 std::string(what) + "' in step " + std::to_string(step));
      }
      all.insert(all.end(), &rows[r], &rows[r] + words.size());
    }
    return all;
  }

  Units const units;                  ///< as described
  Options const options;              ///< as given
  LossScale const loss_scale;         ///< as given, or what the precision needs
  Layout const layout;                ///< who owns what
  Shares const shares;                ///< what this rank keeps
  Timeline const timeline;            ///< what is communicated when
  MemoryPlan const plan;              ///< every buffer, in bytes
  C const communicator;               ///< all ranks; channels are made from it
  typename Device::Stream compute;    ///< the model's work, clip and update; channel 0
  typename Device::Stream gathering;  ///< gathers and publications; channel 1
  typename Device::Stream beside;     ///< what reduces where options.overlap says so
  typename Device::Stream& reducing;  ///< reductions; channel 2
  SlotArray<Device> tables;           ///< small, by the names above
  /// What lies below the device.
  [[no_unique_address]] std::conditional_t<has_tiers, Tiers<Device, P, Shares>, NoTiers> tiers;
  ExtraSlots<Device> extra_parameters;  ///< gathers off the schedule
  ExtraSlots<Device> extra_gradients;   ///< gradients off the schedule
  std::vector<FlatPiece> pieces{};      ///< of a unit that is flattened; kept, to allocate once
  Index step = 0;                       ///< steps begun so far
  Index micro_batches = 0;              ///< of the step under way; 0 in an evaluation
  std::array<Hash, 3> issued{};         ///< by channel: of the collectives since the last decision
  Hash extra_visits{};                  ///< of all visits outside the schedule
  bool in_pass = false;                 ///< a Pass is open
  Index passes = 0;                     ///< training passes that the step under way is made of
  Index passes_ended = 0;               ///< those that have ended
  Deviations deviations{};              ///< from the schedule, so far
  PhaseSeconds seconds{};               ///< host time, so far

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

  /// The constructor's work on the tables.
  void start(std::uint64_t optimizer_facts) {
    if constexpr (HasWorkspace<Device>) {
      auto workspace = tables[tables.size() - 1].template on<std::byte>(compute);
      View<std::byte, Device> const all = workspace.view();
      compute.use_workspace(all.address(), all.size());
    }
    compare(optimizer_facts);
    auto claim = decision().template on<Decision>(compute);
    Decision first{};
    first.loss_scale = first.used_scale = loss_scale.initial();
    first.scale_state = LossScaleState::first(loss_scale);
    copy_in(compute, claim.view(), &first);
    claim.end();
    compute.synchronize();
  }

  void compare(std::uint64_t optimizer_facts) {
    if (shares.alone()) return;
    auto const bits = [](float x) { return std::uint64_t{std::bit_cast<std::uint32_t>(x)}; };
    DynamicLossScale const& scale = loss_scale.settings();
    std::pair<char const*, std::uint64_t> const facts[] = {
        {"the library's version", Hash().add(version).value()},
        {"the model's layout", layout.hash()},
        {"the model's schedule", hash(timeline.schedule())},
        {has_tiers ? "the policy or Options::offload" : "the policy",
         shares.facts().hash() + (has_tiers ? options.offload.hash() : 0)},
        {"the optimizer", optimizer_facts},
        {"Options::loss_scale", Hash()
                                    .add(Index{loss_scale.given()})
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
        {"Options::prefetch", static_cast<std::uint64_t>(options.prefetch)},
        {"Options::bucket", static_cast<std::uint64_t>(options.bucket)},
        {"Options::publish_bucket",
         static_cast<std::uint64_t>(options.publish_bucket.value_or(options.bucket))},
        {"Options::persistence_threshold",
         static_cast<std::uint64_t>(options.persistence_threshold)},
        {"Options::seed", options.seed},
        {nullptr, std::uint64_t{shares.boundary()} | std::uint64_t{options.overlap} << 1 |
                      std::uint64_t{options.release_after_forward} << 2 |
                      std::uint64_t{options.replay} << 3}};
    char const* const switches[] = {"Options::reduction", "Options::overlap",  // of the last word
                                    "Options::release_after_forward", "Options::replay"};
    std::vector<std::uint64_t> words;
    for (auto const& [name, value] : facts) words.push_back(value);
    std::vector<std::uint64_t> const all = exchange(words, "start");
    for (std::size_t i = 0; i < words.size(); ++i) {
      for (Index r = 1; r < world(); ++r) {
        std::uint64_t const apart = all[at(r) * words.size() + i] ^ all[i];
        if (apart == 0) continue;
        throw CommunicationError(
            std::string("ranks were built differently: rank ") + std::to_string(r) +
            " differs from rank 0 in " +
            (facts[i].first != nullptr ? facts[i].first : switches[std::countr_zero(apart)]));
      }
    }
  }

  Index numbers_ = 0;
};

template <Model M, Communicator C, Optimizer O, Policy... Q>
Context(M, C, O, Options, Q...) -> Context<C, Policies<Q...>>;  ///< from its parts

}  // namespace zero
