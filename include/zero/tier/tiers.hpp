// SPDX-License-Identifier: Apache-2.0
#pragma once
// The memories below one rank's device: streams of their own, reduced gradients that come down unit
// by unit, parameters that are fetched for gathers, and the step's decision. What an optimizer
// keeps there is OffloadedState's.

#include <zero/policy/policies.hpp>
#include <zero/tier/blocks.hpp>
#include <zero/tier/free_memory.hpp>
#include <zero/tier/thread_transfers.hpp>
#include <zero/tier/tier_plan.hpp>
#include <zero/tier/update_order.hpp>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

namespace zero {

/// In place of Tiers, where everything lies on the device.
struct NoTiers {
  template <class... A>
  explicit NoTiers(A const&...) {}  ///< whatever Tiers takes
  template <class... A>
  void begin(A const&...) {}  ///< has nothing to begin
  void extra_visit(int) {}    ///< has nothing that it concerns
  template <class F>
  void for_each_stream(F) {}  ///< has none
};

/// @tparam D the device
/// @tparam P a Policies<...> with a tier that is not the device's
/// @tparam Shares what the rank owns, as step/shares.hpp has it
template <Device D, class P, class Shares>
class Tiers {
 public:
  using H = HostSide<D>;                                            ///< the host's memory
  using Stream = typename D::Stream;                                ///< of the device
  using Sharding = typename P::Sharding;                            ///< whose facts these are
  using Parameter = typename P::Precision::Parameter;               ///< as kept, and on the wire
  using Gradient = typename P::Precision::Gradient;                 ///< as it comes down
  static constexpr Tier optimizer_tier = Sharding::optimizer_tier;  ///< of states and weights
  static constexpr Tier parameter_tier = Sharding::parameter_tier;  ///< of parameters
  /// Gradients are looked at before anything is updated.
  static constexpr bool checks = P::Checking::checks;

  /// Allocates. @param device,layout,shares,plan outlive this @param rank of the device
  /// @throws OutOfMemory naming the buffers, where the plan does not fit; StorageError
  Tiers(D& device, Layout const& layout, Shares const& shares, TierPlan const& plan, int rank)
      : layout_(layout),
        shares_(shares),
        plan_(plan),
        rank_(rank),
        memory_(device, shares.offload().pin_memory),
        down(device.stream()),
        sums(device.stream()),
        host(device.stream()),
        up(device.stream()),
        tables_((check_memory(), memory_), plan.tables),
        staging_(memory_, plan.staging),
        gradients_(memory_, plan.gradients),
        raised_(tables_[1].template on<std::int32_t>(host).view().address()),
        parameters_(memory_, plan.parameters, file_system(), stop(Reader::parameter_file)) {
    *raised_ = 0;
    for (Index table : {Index{2}, Index{3}}) {
      auto claim = tables_[table].template on<double>(host);
      fill_zero(host, claim.view());
    }
  }
  Tiers(Tiers const&) = delete;
  Tiers& operator=(Tiers const&) = delete;

  H& memory() { return memory_; }                 ///< with the ledgers of host memory
  Ledger& files() { return files_; }              ///< of bytes in files
  TierPlan const& plan() const { return plan_; }  ///< of all below the device
  /// Streams that look at whether updates are stopped.
  enum class Reader {
    up,             ///< what brings tiles up
    state_file,     ///< transfers of optimizer state
    parameter_file  ///< transfers of parameters
  };
  /// Says it to one of them. Each claims a slot of its own, so that none waits for another.
  StopFlag<D> stop(Reader reader) { return {&tables_[flags_of(reader)], raised_}; }
  /// Where and how files are made.
  FileSystem file_system() {
    if constexpr (optimizer_tier == Tier::nvme || parameter_tier == Tier::nvme) {
      OffloadOptions const& o = shares_.offload();
      if (transfers_ == nullptr)
        transfers_ = o.transfers != nullptr
                         ? o.transfers
                         : std::make_shared<ThreadTransfers>(o.io_threads, o.io_block_bytes);
      return {o.nvme_path, rank_, transfers_, &files_};
    } else {
      return {};
    }
  }
  /// Calls f(Stream&) for each stream.
  template <class F>
  void for_each_stream(F f) {
    for (Stream* stream : {&down, &sums, &host, &up}) f(*stream);
    for (Stream* stream : watched_) f(*stream);
    parameters_.with_stream(f);
  }
  /// A further stream that is one of these, until unwatch.
  void watch(Stream& stream) { watched_.push_back(&stream); }
  /// Ends that.
  void unwatch(Stream& stream) noexcept { std::erase(watched_, &stream); }

  /// A unit's reduced gradients come down from what a reduction left.
  /// @param u the unit @param mark of it, unit_mark()
  /// @param from,begin where they are: elements [begin, begin + owned)
  /// @param adds to what came before in this step; else they are what there is
  /// @param last nothing more is expected: their squares are summed, where gradients are checked
  void receive(int u, Index mark, Slot<D>& from, Index begin, bool adds, bool last) {
    Index const n = shares_.owned(u);
    if (n == 0) return;
    if (!checks && last) early.comes_down(u);
    if (!adds && !shares_.accumulates()) {
      auto source = from.template on<Gradient>(down);
      auto to = gradients_[u].template on<Gradient>(down);
      copy_out(down, to.view().address(), View<Gradient const, D>(source.view(begin, n)));
    } else {
      receive_staged(u, from, begin, n, adds);
    }
    if (!checks || !last) return;
    constexpr Index width = norm_record_doubles;
    auto records = tables_[3].template on<double>(host);
    auto const record = records.view(u * width, width);
    fill_zero(host, record);
    with_sums(u, 0, n, [&](auto of_unit) { add_squares(host, of_unit, record, mark); });
  }
  /// Calls f(View) with sums [begin, begin + count) of a unit's owned elements, claimed on `host`;
  /// elements are float where micro-batches are accumulated, else Gradient.
  template <class F>
  void with_sums(int u, Index begin, Index count, F f) {
    if (shares_.accumulates()) {
      auto claim = gradients_[u].template on<float>(host);
      f(View<float const, H>(claim.view(begin, count)));
    } else {
      auto claim = gradients_[u].template on<Gradient>(host);
      f(View<Gradient const, H>(claim.view(begin, count)));
    }
  }
  /// The sums of squares of units whose state stays on the device: [units, 4], 0 for others.
  void take_squares(Stream& compute, View<double const, D> records) {
    auto claim = tables_[6].template on<double>(compute);
    copy_out(compute, claim.view().address(), records);
  }
  /// Brings the sums of squares of all units, added in their order, to the first two numbers of a
  /// rank's record.
  void write_squares(Stream& compute, View<double, D> record) {
    {
      auto records = tables_[3].template on<double>(host);
      auto total = tables_[2].template on<double>(host);
      auto kept = tables_[6].template on<double>(host);
      host.enqueue([this, from = records.view().address(), to = total.view().address(),
                    device = kept.view().address()] {
        to[0] = to[1] = 0;
        for (int u = 0; u < layout_.size(); ++u) {
          bool const above = shares_.mixes() && !shares_.offloads(u);
          double const* const row = (above ? device : from) + u * norm_record_doubles;
          to[0] += row[0];
          to[1] = std::max(to[1], row[1]);
        }
      });
    }
    auto total = tables_[2].template on<double>(compute);
    copy_in(compute, record.sub(0, 2), static_cast<double const*>(total.view().address()));
  }
  /// A step begins. Where nothing is looked at its decision is known now: the device makes it on
  /// what it has of the step before, and puts that back, and updates need not wait until it comes
  /// to decide. So the rate is the device's on the host too, to the last bit.
  /// @param compute the device's stream @param decision of the step before
  /// @param micro_batches of this step
  void begin([[maybe_unused]] Stream& compute, [[maybe_unused]] View<Decision, D> decision,
             [[maybe_unused]] Index micro_batches) {
    if constexpr (optimizer_tier != Tier::device && !checks) {
      if (!decides_) return;  // nothing is updated
      {
        auto before = tables_[8].template on<Decision>(compute);
        auto now = tables_[7].template on<Decision>(compute);
        copy_out(compute, before.view().address(), View<Decision const, D>(decision));
        decides_(compute, decision, micro_batches);
        copy_out(compute, now.view().address(), View<Decision const, D>(decision));
        copy_in(compute, decision, static_cast<Decision const*>(before.view().address()));
      }
      // The updates of the step before may still read theirs.
      auto made = tables_[7].template on<Decision>(host);
      auto now = tables_[0].template on<Decision>(host);
      host.enqueue([from = made.view().address(), to = now.view().address()] { *to = *from; });
    }
  }
  /// A visit outside the schedule, whose unit must not have been updated.
  /// @throws Error where it has
  void extra_visit(int u) { early.extra_visit(u); }
  /// What makes the decision of a step that looks at nothing.
  /// @param decides (Stream& compute, View<Decision, D> decision, Index micro_batches): replaces
  ///   the decision of the step before, on the stream
  void decide_by(std::function<void(Stream&, View<Decision, D>, Index)> decides) {
    decides_ = std::move(decides);
  }
  /// The step is decided: updates on the host read it there. Where nothing is looked at they have
  /// known it since it began.
  /// @param compute the device's stream @param decision of this step
  void decided([[maybe_unused]] Stream& compute, [[maybe_unused]] View<Decision, D> decision) {
    if constexpr (checks) {
      {
        auto claim = tables_[0].template on<Decision>(compute);
        copy_out(compute, claim.view().address(), View<Decision const, D>(decision));
      }
      auto claim = tables_[0].template on<Decision>(host);
      auto const up_looks = stop(Reader::up).on(host);
      auto const state_looks = stop(Reader::state_file).on(host);
      auto const parameters_look = stop(Reader::parameter_file).on(host);
      host.enqueue([d = claim.view().address(), stopped = raised_] {
        detail::raise(stopped, d->skip != 0);
      });
    }
  }
  Slot<H>& decision() { return tables_[0]; }  ///< of the step, on the host
  Slot<H>& norms() { return tables_[4]; }     ///< of tensors, [world, trained tensors, 2]
  Slot<H>& segments() { return tables_[5]; }  ///< of all tiles
  /// Host memory through which parameters go up, in turn. @param i any number
  Slot<H>& parameter_staging(Index i) {
    return staging_[TierPlan::gradient_staging + i % TierPlan::parameter_staging];
  }

  /// The host's norms of this rank's slices go to their row on the device.
  /// @param compute the device's stream @param row of the device's table
  /// @param rank counted in rows of norms()
  void bring_up_norms(Stream& compute, View<double, D> row, Index rank) {
    auto claim = tables_[4].template on<double>(compute);
    copy_in(compute, row,
            static_cast<double const*>(claim.view(rank * row.size(), row.size()).address()));
  }
  /// The norms of all ranks' slices come to the host.
  void take_norms(Stream& compute, View<double const, D> rows) {
    auto claim = tables_[4].template on<double>(compute);
    copy_out(compute, claim.view().address(), rows);
  }

  /// Brings this rank's slices of a unit to their places in the slot of all of it.
  /// @param u the unit @param full the slot
  /// @param next the unit that will be fetched next, or -1: reading it may begin
  void fetch(int u, Slot<D>& full, int next) {
    Index const places[] = {layout_.slice_begin(u, rank_),
                            layout_[u].trainable + layout_.frozen_slice_begin(u, rank_)};
    for (Index part : {Index{0}, Index{1}}) bring(u, part, full, places[part]);
    for (Index part : {Index{0}, Index{1}}) {
      if (next >= 0 && slice(next, part) > 0)
        parameters_.expect(2 * Index{next} + part, BlockUse::any);
    }
  }
  /// Brings the trainable, 0, or frozen, 1, slice of a unit to a place of a slot.
  void bring(int u, Index part, Slot<D>& to, Index place) {
    Index const n = slice(u, part);
    if (n == 0) return;
    Slot<H>& kept = open_parameters(u, part, true, BlockUse::any);
    {
      auto from = kept.template on<Parameter>(up);
      auto target = to.template on<Parameter>(up);
      copy_in(up, target.view(place, n), static_cast<Parameter const*>(from.view().address()));
    }
    close_parameters(u, part, false, BlockUse::any);
  }
  /// Takes a unit's trainable slice from the start of a slot.
  void take_back(int u, Slot<D>& from) {
    Slot<H>& kept = open_parameters(u, 0, false, BlockUse::any);
    {
      auto source = from.template on<Parameter>(down);
      auto to = kept.template on<Parameter>(down);
      copy_out(down, to.view().address(), View<Parameter const, D>(source.view(0, slice(u, 0))));
    }
    close_parameters(u, 0, true, BlockUse::any);
  }
  /// Where a unit's slice is kept, until close_parameters.
  /// @param u,part the unit, and 0 trainable or 1 frozen @param reads what is there is needed
  /// @param use as Blocks::open
  Slot<H>& open_parameters(int u, Index part, bool reads, BlockUse use) {
    return parameters_.open(2 * Index{u} + part, reads, use);
  }
  /// @param u,part,use as they were opened @param changed it is to be kept
  void close_parameters(int u, Index part, bool changed, BlockUse use) {
    parameters_.close(2 * Index{u} + part, changed, use);
  }

  /// Reads elements [begin, begin + count) of a unit's trainable, 0, or frozen, 1, slice. Waits.
  void read_parameters(int u, Index part, Index begin, Index count, Parameter* to) {
    Slot<H>& kept = open_parameters(u, part, true, BlockUse::any);
    {
      auto claim = kept.template on<Parameter>(host);
      copy_out(host, to, View<Parameter const, H>(claim.view(begin, count)));
    }
    close_parameters(u, part, false, BlockUse::any);
    host.synchronize();
    parameters_.with_stream([](auto& stream) { stream.check(); });
  }
  /// Replaces them; `from` may go when this returns.
  void write_parameters(int u, Index part, Index begin, Index count, Parameter const* from) {
    Slot<H>& kept = open_parameters(u, part, true, BlockUse::any);
    {
      auto claim = kept.template on<Parameter>(host);
      copy_in(host, claim.view(begin, count), from);
    }
    close_parameters(u, part, true, BlockUse::any);
    host.synchronize();
    parameters_.with_stream([](auto& stream) { stream.check(); });
  }

 private:
  static constexpr Index flags_of(Reader reader) {
    return reader == Reader::up ? 1 : reader == Reader::state_file ? 9 : 10;
  }
  Index slice(int u, Index part) const {
    return part == 0 ? layout_.slice(u) : layout_.frozen_slice(u);
  }

  void receive_staged(int u, Slot<D>& from, Index begin, Index n, bool adds) {
    Index const piece = plan_.staging.slots[0].bytes / Index{sizeof(Gradient)};
    for (Index done = 0; done < n; done += piece) {
      Index const count = std::min(piece, n - done);
      Slot<H>& slot = staging_[next_staging_];
      next_staging_ = (next_staging_ + 1) % TierPlan::gradient_staging;
      {
        auto source = from.template on<Gradient>(down);
        auto to = slot.template on<Gradient>(down);
        copy_out(down, to.view().address(),
                 View<Gradient const, D>(source.view(begin + done, count)));
      }
      auto staged = slot.template on<Gradient>(sums);
      View<Gradient const, H> const arrived = staged.view(0, count);
      if (shares_.accumulates()) {
        combine<float>(u, done, arrived, adds);
      } else {
        combine<Gradient>(u, done, arrived, adds);
      }
    }
  }
  template <class T>
  void combine(int u, Index begin, View<Gradient const, H> from, bool adds) {
    auto kept = gradients_[u].template on<T>(sums);
    if (adds) {
      add(sums, kept.view(begin, from.size()), from);
    } else {
      assign(sums, kept.view(begin, from.size()), from);
    }
  }

  void check_memory() {
    Index const needed = plan_.host_bytes();
    Index const limit = shares_.offload().host_limit_bytes;
    memory_.ledger().limit_bytes(limit);
    Index const available = free_host_bytes();
    bool const fits = (limit == 0 || needed <= limit) && (available < 0 || needed <= available);
    if (fits) return;
    throw OutOfMemory("the tiers do not fit: the plan needs " + std::to_string(needed) +
                      " bytes of host memory a rank; " +
                      (limit != 0 && needed > limit
                           ? "OffloadOptions::host_limit_bytes is " + std::to_string(limit)
                           : "this machine has " + std::to_string(available) + " free") +
                      ". Plan: " + plan_.text());
  }

  Layout const& layout_;
  Shares const& shares_;
  TierPlan const& plan_;
  int rank_;
  H memory_;
  Ledger files_{"files"};
  std::shared_ptr<Transfers> transfers_{};

 public:
  Stream down;  ///< from the device to the host
  Stream sums;  ///< of micro-batches, which updates of other units are not to wait for
  Stream host;  ///< other work on host memory
  Stream up;    ///< from the host to the device

  EarlyUpdates early{layout_};  ///< where nothing is looked at

 private:
  SlotArray<H> tables_;
  SlotArray<H> staging_;
  SlotArray<H> gradients_;
  std::int32_t* raised_;
  std::vector<Stream*> watched_;
  std::function<void(Stream&, View<Decision, D>, Index)> decides_;
  Blocks<D, parameter_tier> parameters_;
  Index next_staging_ = 0;
};

}  // namespace zero
