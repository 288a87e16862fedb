// SPDX-License-Identifier: Apache-2.0
#pragma once
// What this room does with a trainer, behind one interface: so that saving, loading and exporting
// are compiled once, and not once for every trainer of a program.

#include <zero/checkpoint/consensus.hpp>
#include <zero/checkpoint/optimizer_facts.hpp>
#include <zero/checkpoint/owned.hpp>
#include <zero/checkpoint/rank_file.hpp>

#include <memory>

namespace zero {

/// A model that brings the text of the config.json with which transformers would build it.
template <class M>
concept HasModelConfig = requires(M const& model) {
  { model.config_json() } -> std::convertible_to<std::string>;
};

namespace detail {

/// Which numbers of a tensor are meant.
enum class NumberKind { weight, gradient, state };
struct NumberOf {
  NumberKind kind = NumberKind::weight;
  int state = -1;  ///< of the optimizer
};

/// A tensor of a model.
struct FoundTensor {
  int unit = 0;
  Index index = 0;  ///< in its unit
  PlacedTensor placed{};
};

/// What a sum of gradients is multiplied by for the mean that the last step had, before clipping.
inline double mean_of_sum(Decision const& d) {
  return static_cast<double>(d.factor) / d.clip_factor;
}

/// One rank's trainer. Offsets count in a unit's trainable, or frozen, part.
class TrainerAccess {
 public:
  virtual ~TrainerAccess() = default;

  virtual int rank() const = 0;
  virtual int world() const = 0;
  virtual Index step() const = 0;
  virtual int stage() const = 0;
  virtual std::string precision() const = 0;
  virtual std::string config_json() const = 0;  ///< empty where the model has none
  virtual Units const& units() const = 0;
  virtual Layout const& layout() const = 0;
  virtual Shares const& shares() const = 0;
  virtual std::uint64_t seed() const = 0;
  virtual LossScale const& loss_scale() const = 0;
  virtual CheckpointOptimizer optimizer() const = 0;
  virtual std::string_view state_type() const = 0;      ///< as files call it
  virtual std::string_view parameter_type() const = 0;  ///< as files call it

  virtual bool has_gradients() const = 0;  ///< else no number of that kind is read or written

  virtual Decision decision() = 0;
  virtual void synchronize() = 0;
  /// Every rank's words, in rank order. Waits.
  virtual std::vector<std::vector<std::uint64_t>> gather_words(std::span<std::uint64_t const> mine,
                                                               std::string_view what) = 0;
  /// A failure in f ends the work of all ranks.
  virtual void guarded(std::function<void()> const& f) = 0;

  /// Numbers that this rank keeps, as floats. Waits.
  virtual void read(NumberOf number, FoundTensor const& t, Decision const& decision, Index begin,
                    Index n, float* to) = 0;
  virtual void write(NumberOf number, int unit, bool trainable, Decision const& decision,
                     Index begin, std::span<float const> values) = 0;
  virtual void clear_states() = 0;
  /// Sends parameters that were written to the ranks that keep replicas.
  virtual void publish() = 0;
  virtual void set_decision(Decision const& decision, Index step) = 0;
  /// Every rank's row, [world, mine.size()], on every rank; only where ranks keep slices.
  virtual void all_gather(std::span<float const> mine, std::span<float> all,
                          std::string_view name) = 0;

  /// The stretch that this rank keeps of a part: of the trainable one, its weights and states.
  std::pair<Index, Index> kept(int u, bool trainable) const {
    if (trainable) return {shares().owned_begin(u, rank()), shares().owned(u)};
    if (!shares().sharded_parameters(u)) return {0, layout()[u].frozen};
    return {layout().frozen_slice_begin(u, rank()), layout().frozen_slice(u)};
  }
  /// The stretch that this rank alone writes to files.
  std::pair<Index, Index> slice(int u, bool trainable) const {
    if (trainable) return {layout().slice_begin(u, rank()), layout().slice(u)};
    return {layout().frozen_slice_begin(u, rank()), layout().frozen_slice(u)};
  }
};

/// Of a trainer, which outlives it.
template <HasParts T>
class AccessOf final : public TrainerAccess {
 public:
  explicit AccessOf(T& trainer) : t_(trainer), x_(trainer.context()) {}

  int rank() const override { return x_.rank(); }
  int world() const override { return x_.world(); }
  Index step() const override { return x_.step; }
  int stage() const override { return x_.shares.facts().stage(); }
  std::string precision() const override {
    if constexpr (requires { X::Policy::Precision::name; }) {
      return X::Policy::Precision::name;
    } else {
      return {};
    }
  }
  std::string config_json() const override {
    if constexpr (requires { t_.model(); }) {
      if constexpr (HasModelConfig<std::remove_cvref_t<decltype(t_.model())>>)
        return t_.model().config_json();
    }
    return {};
  }
  Units const& units() const override { return x_.units; }
  Layout const& layout() const override { return x_.layout; }
  Shares const& shares() const override { return x_.shares; }
  std::uint64_t seed() const override { return x_.options.seed; }
  LossScale const& loss_scale() const override { return x_.loss_scale; }
  CheckpointOptimizer optimizer() const override {
    return describe_optimizer(t_.optimizer_state().optimizer());
  }
  std::string_view state_type() const override { return stored_name<typename X::State>; }
  std::string_view parameter_type() const override { return stored_name<typename X::Parameter>; }

  bool has_gradients() const override {
    return requires { t_.gradients(); };
  }

  Decision decision() override {
    Decision d;
    x_.guarded([&] {
      auto claim = x_.decision().template on<Decision>(x_.compute);
      copy_out(x_.compute, &d, View<Decision const, D>(claim.view(0, 1)));
      claim.end();
      x_.wait();
      x_.check_decision(d);
    });
    return d;
  }
  void synchronize() override {
    if constexpr (requires { x_.tiers.early; }) x_.tiers.early.require_whole();
    t_.synchronize();
  }
  std::vector<std::vector<std::uint64_t>> gather_words(std::span<std::uint64_t const> mine,
                                                       std::string_view what) override {
    return detail::gather_words(
        [&](std::span<std::uint64_t const> row) { return x_.exchange(row, what); },
        [&](auto const& f) { x_.guarded(f); }, x_.world(), mine);
  }
  void guarded(std::function<void()> const& f) override { x_.guarded(f); }

  void read(NumberOf number, FoundTensor const& t, Decision const& decision, Index begin, Index n,
            float* to) override {
    if (number.kind == NumberKind::state) {
      read_state_range(t_.optimizer_state(), number.state, t.unit, begin, n, to);
    } else if (number.kind == NumberKind::gradient) {
      if constexpr (requires { t_.gradients(); }) {
        t_.gradients().with_sums(t.unit, begin, n, [&](auto sums) {
          using G = std::remove_const_t<typename decltype(sums)::Element>;
          std::vector<G> kept(at(n));
          copy_out(x_.compute, kept.data(), sums);
          x_.wait();
          for (Index i = 0; i < n; ++i) {
            double const sum = static_cast<double>(static_cast<float>(kept[at(i)]));
            to[i] = static_cast<float>(sum * mean_of_sum(decision));
          }
        });
      }
    } else if (t.placed.trainable) {
      read_weight_range(t_.parameters(), t_.optimizer_state(), t.unit, begin, n, to);
    } else {
      std::vector<typename X::Parameter> kept(at(n));
      read_frozen_range(t_.parameters(), t.unit, begin, n, kept.data());
      for (std::size_t i = 0; i < kept.size(); ++i) to[i] = static_cast<float>(kept[i]);
    }
  }
  void write(NumberOf number, int u, bool trainable, Decision const& decision, Index begin,
             std::span<float const> values) override {
    if (number.kind == NumberKind::state) {
      write_state(t_.optimizer_state(), number.state, u, begin, values);
    } else if (number.kind == NumberKind::gradient) {
      if constexpr (requires { t_.gradients(); }) {
        t_.gradients().with_sums(u, begin, std::ssize(values), [&](auto sums) {
          using G = std::remove_const_t<typename decltype(sums)::Element>;
          std::vector<G> sum(values.size());
          for (std::size_t i = 0; i < values.size(); ++i) {
            sum[i] = static_cast<G>(
                static_cast<float>(static_cast<double>(values[i]) / mean_of_sum(decision)));
          }
          View<G, D> const to(const_cast<G*>(sums.address()), sums.size());
          copy_in(x_.compute, to, static_cast<G const*>(sum.data()));
          x_.wait();
        });
      }
    } else if (trainable) {
      write_weights(t_.parameters(), t_.optimizer_state(), u, begin, values);
    } else {
      write_frozen(t_.parameters(), u, begin, values);
    }
  }
  void clear_states() override { detail::clear_states(t_.optimizer_state()); }
  void publish() override { t_.parameters().publish(); }
  void set_decision(Decision const& decision, Index step) override {
    x_.step = step;
    auto claim = x_.decision().template on<Decision>(x_.compute);
    copy_in(x_.compute, View<Decision, D>(claim.view(0, 1)), &decision);
    claim.end();
    x_.wait();
  }
  void all_gather(std::span<float const> mine, std::span<float> all,
                  std::string_view name) override {
    if constexpr (X::Sharding::shards_optimizer) {
      // Two floats a double, which a collective moves and does not look at.
      Index const own = std::ssize(mine) / 2;
      Index const full = std::ssize(all) / 2;
      std::vector<double> host(at(full));
      std::memcpy(host.data() + rank() * own, mine.data(), mine.size_bytes());
      auto buffer = x_.device().allocate(full * Index{sizeof(double)}, "gather by name");
      Slot<D> slot(buffer.address(), full * Index{sizeof(double)}, x_.device().event());
      auto claim = slot.template on<double>(x_.compute);
      copy_in(x_.compute, claim.view(0, full), static_cast<double const*>(host.data()));
      auto ranks = x_.communicator.channel(0);
      ranks.all_gather(claim.source(rank() * own, own), claim.target(0, full),
                       Where{"gather by name", name, x_.step});
      copy_out(x_.compute, host.data(), View<double const, D>(claim.view(0, full)));
      claim.end();
      x_.wait();
      std::memcpy(all.data(), host.data(), all.size_bytes());
    }
  }

 private:
  using X = std::remove_cvref_t<decltype(std::declval<T&>().context())>;
  using D = typename X::Device;

  T& t_;
  X& x_;
};

}  // namespace detail

/// A trainer of whatever type, as this room's functions take it; a Trainer becomes one by itself.
/// A program of many trainers makes it where their types are known and calls the functions
/// elsewhere, in one object: saving and loading are then compiled there alone.
class AnyTrainer {
 public:
  /// @param trainer a Trainer, or what has its parts; outlives this and its copies
  template <HasParts T>
  // NOLINTNEXTLINE(google-explicit-constructor): a trainer is what is saved
  AnyTrainer(T& trainer) : access_(std::make_shared<detail::AccessOf<T>>(trainer)) {}

  int rank() const { return access_->rank(); }  ///< of this process or thread
  /// For this room.
  std::shared_ptr<detail::TrainerAccess> const& access() const { return access_; }

 private:
  std::shared_ptr<detail::TrainerAccess> access_;
};

namespace detail {

/// The ranks of a trainer. @param what they do, for errors; a literal
inline Ranks ranks_of(TrainerAccess& x, std::string_view what) {
  return {x.rank(), x.world(),
          [&x, what](Ranks::Words mine) { return x.gather_words(mine, what); }};
}

/// Every piece of a tensor in a stretch of a rank's: `kept` or `slice` of TrainerAccess.
inline std::vector<OwnedPiece> pieces_of(TrainerAccess const& x, bool trainable,
                                         std::pair<Index, Index> (TrainerAccess::*stretch)(int,
                                                                                           bool)
                                             const) {
  std::vector<OwnedPiece> pieces;
  for (int u = 0; u < x.layout().size(); ++u) {
    auto const [begin, count] = (x.*stretch)(u, trainable);
    x.layout().pieces(u, trainable, begin, count,
                      [&, first = begin](PlacedTensor const&, Piece const& p) {
                        pieces.push_back({u, p.tensor_index, p.first, p.elements, first + p.begin});
                      });
  }
  return pieces;
}

}  // namespace detail

}  // namespace zero
