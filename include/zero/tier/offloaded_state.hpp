// SPDX-License-Identifier: Apache-2.0
#pragma once
// What an optimizer keeps of its elements, below the device: float weights and states, tile by
// tile, updated on the host by the arithmetic that devices use, and parameters that go back up.
// While tile k is updated, tiles behind it come from the file and those before it go there, and
// parameters of earlier ones go up.

#include <zero/model/initial.hpp>
#include <zero/optim/trust_ratio.hpp>
#include <zero/tier/tiers.hpp>

#include <vector>

namespace zero {

/// In place of OffloadedState, where it lies on the device.
struct NoOffloadedState {
  template <class... A>
  explicit NoOffloadedState(A const&...) {}  ///< whatever OffloadedState takes
  template <class... A>
  void begin(A const&...) {}  ///< has nothing to update
};

/// The offloaded part of an optimizer's state. A tile's block holds its weights (the float master
/// weights, their lower halves, or, where the device's parameters are float, those), then the
/// states, [num_states, elements], then, where weights are split, their upper halves.
/// @tparam X a Context with tiers; @tparam O the optimizer
template <class X, Optimizer O>
class OffloadedState {
 public:
  using D = typename X::Device;                  ///< of this rank
  using H = HostSide<D>;                         ///< the memory below it
  using P = typename X::Stored;                  ///< how elements are stored
  using Parameter = typename X::Parameter;       ///< of the device
  using State = typename X::State;               ///< of the optimizer's numbers
  using Weight = typename StorageOf<P>::Master;  ///< what a block keeps of a weight
  static_assert(CanUpdate<H, O, P, typename X::Gradient>,
                "zero: an optimizer whose state is offloaded needs update on the host beside the "
                "communicator's device; see zero/tier/host_side.hpp");

  /// Allocates and initialises: weights as the tensors' initial values, states 0.
  /// @throws OutOfMemory; StorageError
  OffloadedState(X& context, O const& optimizer)
      : context_(context),
        optimizer_(optimizer),
        tiers_(context.tiers),
        plan_(tiers_.plan()),
        order_(context.timeline, plan_, !X::Policy::Checking::checks),
        blocks_(tiers_.memory(), plan_.state, tiers_.file_system(),
                tiers_.stop(Reader::state_file)) {
    auto segments = tiers_.segments().template on<Segment>(tiers_.host);
    segments_ = segments.view();
    for (std::size_t t = 0; t < plan_.tiles.size(); ++t) {
      Tile const& tile = plan_.tiles[t];
      Index const begin = context.shares.owned_begin(tile.unit, context.rank()) + tile.begin;
      std::vector<Segment> const table = context.layout.segments(tile.unit, begin, tile.elements);
      num_segments_.push_back(static_cast<Index>(table.size()));
      covered_.push_back(table.empty() ? 0 : table.back().end);
      if (!table.empty())
        copy_in(tiers_.host, segments.view(tile.first_segment, num_segments_.back()), table.data());
      with_block(static_cast<Index>(t), Access::overwrite, [&](Views const& v) {
        fill_zero(tiers_.host, v.weights);
        fill_zero(tiers_.host, v.states);
        write_initial(context, tiers_.host, tile.unit, true, begin, v.weights);
        if constexpr (X::splits_master) {
          fill_zero(tiers_.host, v.uppers);
          write_initial(context, tiers_.host, tile.unit, true, begin, v.uppers);
        }
      });
      tiers_.host.synchronize();
    }
    blocks_.with_stream([](auto& stream) { stream.check(); });
    if constexpr (!X::Policy::Checking::checks) decide_early();
  }
  OffloadedState(OffloadedState const&) = delete;
  OffloadedState& operator=(OffloadedState const&) = delete;

  ~OffloadedState() { tiers_.early.end(); }

  /// A step begins which update() will end, whatever its gradients are: where they are not looked
  /// at, units are updated as they come down, while backward is still enqueued. Not with trust
  /// ratios, which wait for all of them.
  /// @param parameters those of the context
  /// @throws Error where a step before was broken off behind some of its updates
  template <class Parameters>
  void begin([[maybe_unused]] Parameters& parameters) {
    if constexpr (!X::Policy::Checking::checks && !HasTrustRatio<O>) {
      tiers_.early.begin(std::span(order_.units).first(at(order_.early)),
                         [this, &parameters](int u) {
                           // A lease of the model may still be open where it reads what the update
                           // replaces.
                           if (parameters.kept(u).claimed()) return false;
                           update_unit(parameters, u);
                           return true;
                         });
    }
    turn_ = 0;  // a step before may have broken off
  }
  /// Applies the step's decision to all tiles. Enqueues; the device's parameters are claimed by
  /// what uses them next.
  /// @param parameters those of the context
  template <class Parameters>
  void update(Parameters& parameters) {
    Index const early = tiers_.early.end();
    if (early == 0) turn_ = 0;  // a loop of the user's own begins nothing
    auto const rest = std::span<int const>(order_.units).subspan(at(early));
    for (int u : rest) update_unit(parameters, u);
    turn_ = 0;
    // The last tiles go to the file, and the first ones come, while the next step's gradients are
    // made.
    expect_first(BlockUse::any);
  }
  /// Sums of squares of the offloaded slices' weights and directions.
  /// @param slices which row of the host's norms they are added to
  void measure() requires HasTrustRatio<O> {
    Index const tensors = context_.layout.trained_tensors();
    auto const decision = tiers_.decision().template on<Decision>(tiers_.host);
    {
      auto norms = tiers_.norms().template on<double>(tiers_.host);
      fill_zero(tiers_.host, norms.view());
    }
    expect_first(BlockUse::update);
    for (Index turn = 0; turn < blocks_.size(); ++turn) {
      auto norms = tiers_.norms().template on<double>(tiers_.host);
      NormSlices const slices{context_.rank(), 1, plan_.tiles[at(tile_of(turn))].elements, tensors};
      with_update(turn, decision.view(0, 1), {}, Access::measure, [&](auto const& of_tile) {
        measure_norms(tiers_.host, of_tile, norms.view(), slices);
      });
    }
  }

  /// Reads a unit's float weights, or the optimizer's number k, of owned elements [begin, begin +
  /// count). Waits.
  void read_weights(int u, Index begin, Index count, float* to) {
    read(u, begin, count, to, [](Views const& v, Index i) {
      if constexpr (X::splits_master) {
        return join(bits_as_parameter(v.uppers.address()[i]), v.weights.address()[i]);
      } else {
        return v.weights.address()[i];
      }
    });
  }
  /// As read_weights.
  void read_states(int u, int k, Index begin, Index count, float* to) {
    read(u, begin, count, to, [k](Views const& v, Index i) {
      return static_cast<float>(v.states.address()[k * v.weights.size() + i]);
    });
  }
  /// Replaces a unit's float weights, or the optimizer's number k, of owned elements [begin, begin
  /// + count); parameters of the device are the caller's. Waits.
  void write_weights(int u, Index begin, Index count, float const* from) {
    write(u, begin, count, from, [](Views const& v, Index i, float value) {
      v.weights.address()[i] = Weight(value);
      if constexpr (X::splits_master) v.uppers.address()[i] = UpperHalf(value);
    });
  }
  /// As write_weights; rounded to nearest where states are shorter.
  void write_states(int u, int k, Index begin, Index count, float const* from) {
    write(u, begin, count, from, [k](Views const& v, Index i, float value) {
      v.states.address()[k * v.weights.size() + i] = static_cast<State>(value);
    });
  }
  /// Calls f(begin, weights, states, uppers) for each tile of a unit, in order, to be replaced in
  /// work on the host's stream: views of host memory of `begin` counted in the owned elements;
  /// `uppers` is empty where weights are not split. Parameters of the device are the caller's.
  template <class F>
  void rewrite(int u, F f) {
    for (Index t = first(u); t < first(u + 1); ++t) {
      with_block(t, Access::change, [&](Views const& v) {
        f(plan_.tiles[at(t)].begin, v.weights, v.states, v.uppers);
      });
      context_.tiers.host.synchronize();
    }
  }

 private:
  using Reader = typename std::remove_reference_t<decltype(std::declval<X&>().tiers)>::Reader;
  enum class Access { read, change, overwrite, measure, update };
  struct Views {
    View<Weight, H> weights;    // [n]
    View<State, H> states;      // [num_states, n]
    View<UpperHalf, H> uppers;  // [n], or none
  };

  static constexpr bool has_files =
      X::Sharding::optimizer_tier == Tier::nvme || X::Sharding::parameter_tier == Tier::nvme;
  static bf16 bits_as_parameter(UpperHalf half) { return half.rounded(); }
  Index first(int u) const { return plan_.first_tile[at(u)]; }
  Index ring() const { return context_.options.offload.buffer_count; }
  /// The tile that is updated in a turn; past the last one, a number that no tile has.
  Index tile_of(Index turn) const {
    return turn < blocks_.size() ? order_.tiles[at(turn)] : blocks_.size();
  }
  void expect_first(BlockUse use) {
    for (Index turn = 0; turn + 1 < ring(); ++turn) blocks_.expect(tile_of(turn), use);
  }
  /// As Clip decides where it knows nothing.
  void decide_early() {
    tiers_.decide_by(
        [&context = context_, rate = LearningRateOf<O>{optimizer_}](
            typename D::Stream& compute, View<Decision, D> decision, Index micro_batches) {
          Index const world = context.world();
          auto claim = context.records().template on<double>(compute);
          View<double, D> const records = claim.view(0, world * norm_record_doubles);
          fill_zero(compute, records);
          decide(compute, View<double const, D>(records), decision,
                 DecisionInputs{world, 0, static_cast<double>(world * micro_batches), LossScale()},
                 rate);
        });
  }
  /// @param next the tile that is to come to the ring when this one's step has begun
  template <class F>
  void with_block(Index t, Access access, F f, Index next = 0) {
    Index const n = plan_.tiles[at(t)].elements;
    bool const steps = access == Access::measure || access == Access::update;
    BlockUse const use = steps ? BlockUse::update : BlockUse::any;
    Slot<H>& slot = blocks_.open(t, access != Access::overwrite, use);
    {
      auto claim = slot.template on<std::byte>(tiers_.host);
      std::byte* const begin = claim.view().address();
      std::byte* const states = begin + n * Index{sizeof(Weight)};
      std::byte* const uppers = states + n * O::num_states * Index{sizeof(State)};
      f(Views{{reinterpret_cast<Weight*>(begin), n},
              {reinterpret_cast<State*>(states), n * O::num_states},
              {reinterpret_cast<UpperHalf*>(uppers), X::splits_master ? n : 0}});
    }
    blocks_.close(t, access != Access::read && access != Access::measure, use);
    // Its slot is that of the tile before, which has gone to the file while this one was updated.
    if (steps) blocks_.expect(next, use);
  }

  /// Calls f(Update) with everything claimed on the host's stream. @param rounded where parameters
  /// go; none where the block keeps them
  /// @param decision claimed there, as the segments are that nothing but this stream reads: few
  ///   pieces of work a tile, of which a device takes so many ahead
  template <class F>
  void with_update(Index turn, View<Decision, H> decision, View<Parameter, H> rounded,
                   Access access, F f) {
    Index const t = tile_of(turn);
    Tile const& tile = plan_.tiles[at(t)];
    NormsOf<O, H> norms_view{};
    Claim<double, H> norms;
    if constexpr (HasTrustRatio<O>) {
      norms = tiers_.norms().template on<double>(tiers_.host);
      norms_view = {norms.view(), context_.world(), context_.layout.trained_tensors()};
    }
    auto const with = [&](Views const& v) {
      if constexpr (X::splits_master)
        rounded = {reinterpret_cast<Parameter*>(v.uppers.address()), v.uppers.size()};
      if constexpr (has_files) {  // one that has failed stops the step here as well
        tiers_.host.enqueue([d = decision.address(), stopped = tiers_.stop(Reader::up).raised] {
          if (detail::raised(stopped)) d->skip = 1;
        });
      }
      tiers_.with_sums(tile.unit, tile.begin, tile.elements, [&](auto sums) {
        using G = std::remove_const_t<typename decltype(sums)::Element>;
        Update<O, G, P, H> update{optimizer_,
                                  sums,
                                  v.weights,
                                  v.states,
                                  rounded,
                                  segments_.sub(tile.first_segment, num_segments_[at(t)]),
                                  View<Decision const, H>(decision),
                                  context_.options.seed,
                                  norms_view};
        f(update);
      });
    };
    with_block(t, access, with, tile_of(turn + ring() - 1));
  }

  /// The unit whose turn it is.
  template <class Parameters>
  void update_unit(Parameters& parameters, int u) {
    if (turn_ == 0) expect_first(BlockUse::update);
    bool const below = context_.shares.stores_parameters(u);
    auto const decision = tiers_.decision().template on<Decision>(tiers_.host);
    Slot<H>* const kept = below ? &tiers_.open_parameters(u, 0, false, BlockUse::update) : nullptr;
    for (Index t = first(u); t < first(u + 1); ++t)
      update_tile(parameters, turn_++, decision.view(0, 1), kept);
    if (below) tiers_.close_parameters(u, 0, true, BlockUse::update);
  }
  /// @param kept where the unit's parameters lie below the device, or null
  template <class Parameters>
  void update_tile(Parameters& parameters, Index turn, View<Decision, H> decision, Slot<H>* kept) {
    Index const t = tile_of(turn);
    Tile const& tile = plan_.tiles[at(t)];
    Index const n = tile.elements;
    Slot<H>& slot = kept != nullptr ? *kept : tiers_.parameter_staging(turn);
    {
      auto to = slot.template on<Parameter>(tiers_.host);
      View<Parameter, H> const rounded = to.view(kept != nullptr ? tile.begin : 0, n);
      with_update(turn, decision, rounded, Access::update, [&](auto const& of_tile) {
        zero::update(tiers_.host, of_tile);
        if constexpr (X::splits_master)
          copy_in_unless(tiers_.host, rounded,
                         static_cast<Parameter const*>(of_tile.rounded.address()),
                         tiers_.stop(Reader::up).raised);
      });
      // Segments alone are written, and what lies here is of another unit or of none: a unit's
      // padding is 0, as on the device.
      Index const covered = covered_[at(t)];
      fill_zero_unless(tiers_.host, rounded.sub(covered, n - covered),
                       tiers_.stop(Reader::up).raised);
    }
    if (kept != nullptr) return;
    auto const flag = tiers_.stop(Reader::up).on(tiers_.up);
    auto from = slot.template on<Parameter>(tiers_.up);
    auto device = parameters.kept(tile.unit).template on<Parameter>(tiers_.up);
    Index const place =
        context_.shares.owned_in_parameters(tile.unit, context_.rank()) + tile.begin;
    copy_in_unless(tiers_.up, device.view(place, n),
                   static_cast<Parameter const*>(from.view().address()),
                   tiers_.stop(Reader::up).raised);
  }

  template <class Value>
  void read(int u, Index begin, Index count, float* to, Value value) {
    for (Index t = first(u); t < first(u + 1); ++t) {
      Tile const& tile = plan_.tiles[at(t)];
      Index const from = std::max(begin, tile.begin);
      Index const end = std::min(begin + count, tile.begin + tile.elements);
      if (from >= end) continue;
      with_block(t, Access::read, [&](Views const& v) {
        tiers_.host.enqueue([=, first = tile.begin] {
          for (Index i = from; i < end; ++i) to[i - begin] = value(v, i - first);
        });
      });
    }
    // First what writes to the caller's memory has ended, then what has failed is thrown.
    tiers_.host.synchronize();
    context_.wait();
  }

  template <class Assign>
  void write(int u, Index begin, Index count, float const* values, Assign assign) {
    for (Index t = first(u); t < first(u + 1); ++t) {
      Tile const& tile = plan_.tiles[at(t)];
      Index const from = std::max(begin, tile.begin);
      Index const end = std::min(begin + count, tile.begin + tile.elements);
      if (from >= end) continue;
      with_block(t, Access::change, [&](Views const& v) {
        tiers_.host.enqueue([=, first = tile.begin] {
          for (Index i = from; i < end; ++i) assign(v, i - first, values[i - begin]);
        });
      });
    }
    tiers_.host.synchronize();
    context_.wait();
  }

  /// While it lives, the context looks at the files' stream as well.
  struct Watched {
    explicit Watched(OffloadedState& state) : of(state) {
      of.blocks_.with_stream([&](auto& stream) { of.tiers_.watch(stream); });
    }
    Watched(Watched const&) = delete;
    Watched& operator=(Watched const&) = delete;
    ~Watched() {
      of.blocks_.with_stream([&](auto& stream) { of.tiers_.unwatch(stream); });
    }
    OffloadedState& of;
  };

  X& context_;
  O optimizer_;
  std::remove_reference_t<decltype(std::declval<X&>().tiers)>& tiers_;
  TierPlan const& plan_;
  UpdateOrder order_;
  Blocks<D, X::Sharding::optimizer_tier> blocks_;
  View<Segment, H> segments_{};      // of all tiles
  Index turn_ = 0;                   // of the next tile
  std::vector<Index> num_segments_;  // of each tile
  std::vector<Index> covered_;       // by them, from the tile's start: behind it lies padding
  Watched watched_{*this};
};

}  // namespace zero
