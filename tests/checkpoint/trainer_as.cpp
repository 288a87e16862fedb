// SPDX-License-Identifier: Apache-2.0
// The trainers of one stage; sources.cmake defines ZERO_TEST_STAGE.
#include <zero/launch/threads.hpp>
#include <zero/step/trainer.hpp>

#include <cases/given_gradients.hpp>
#include <checkpoint/trainers.hpp>
#include <support/joined.hpp>

#include <bit>

namespace checkpoints {

namespace {

std::uint32_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }
std::uint32_t bits(zero::bf16 x) { return x.bits; }
std::uint32_t bits(zero::fp16 x) { return x.bits; }

template <class Trainer>
class Typed final : public AnyTrainer {
 public:
  template <class... A>
  explicit Typed(zero::Units const& units, A... arguments)
      : units_(units), trainer_(cases::GivenGradients{units}, arguments...) {}

  int rank() const override { return const_cast<Trainer&>(trainer_).context().rank(); }
  void step(int step) override {
    batch_.clear();
    for (zero::Unit const& unit : units_) {
      for (zero::Tensor const& t : unit.tensors) {
        for (Index i = 0; t.trainable && i < t.elements(); ++i)
          batch_.push_back(
              static_cast<float>(0.01 * zero::noise_normal(5, step, std::ssize(batch_))));
      }
    }
    trainer_.step(batch_);
  }
  zero::Decision decision() override { return trainer_.decision(); }
  Index steps() override { return trainer_.context().step; }
  std::uint64_t hash() override { return zero::parameters_hash(trainer_); }
  std::map<std::string, std::vector<float>> seen() override {
    std::map<std::string, std::vector<float>> all;
    zero::Layout const& layout = trainer_.context().layout;
    trainer_.evaluate([&](auto& pass) {
      for (int u = 0; u < layout.size(); ++u) {
        auto const lease = pass.forward(u);
        for (std::size_t i = 0; i < layout[u].tensors.size(); ++i) {
          std::vector<float>& to = all[units_[at(u)].tensors[i].name];
          for (auto x : lease[static_cast<Index>(i)].span()) to.push_back(static_cast<float>(x));
        }
      }
    });
    return all;
  }
  void add_slices(Canonical& to) override {
    auto const into = [&](std::string const& kind) {
      return [&to, kind, this](zero::PlacedTensor const& t, Index first, auto values) {
        std::vector<std::uint32_t>& whole = to[kind + "/" + name(t.number)];
        whole.resize(at(t.elements), 0xdeadbeef);
        for (std::size_t i = 0; i < values.size(); ++i) whole[at(first) + i] = bits(values[i]);
      };
    };
    zero::read_weights(trainer_, into("master"));
    auto const o = zero::describe_optimizer(trainer_.optimizer_state().optimizer());
    for (std::size_t k = 0; k < o.states.size(); ++k)
      zero::read_state(trainer_, static_cast<int>(k), into("state." + o.states[k]));
    zero::read_frozen(trainer_, into("parameter"));
  }
  Index limit_memory(Index bytes) override {
    zero::Ledger& ledger = trainer_.context().device().ledger();
    ledger.limit_bytes(ledger.bytes() + bytes);
    return ledger.bytes() + bytes;
  }

 private:
  zero::AnyTrainer trainer() override { return trainer_; }

  std::string name(Index number) const {
    for (zero::Unit const& unit : units_) {
      for (zero::Tensor const& t : unit.tensors) {
        if (number-- == 0) return t.name;
      }
    }
    return {};
  }

  zero::Units units_;
  Trainer trainer_;
  cases::GivenGradients::Batch batch_;
};

/// At every other stage, and under a sanitizer at all of them, optimizers of as many states are one
/// type, of which a checkpoint shows nothing.
template <class O>
auto trained_as(O const& optimizer) {
  if constexpr (ZERO_TESTS_SANITIZED || ZERO_TEST_STAGE % 2 == 1) {
    return zero_test::joined(optimizer);
  } else {
    return optimizer;
  }
}

template <class Precision, class State, class O>
void run(Setup const& setup, O const& optimizer, std::function<void(AnyTrainer&)> const& f) {
  zero::launch<zero::Threads>(
      setup.world,
      [&](zero::ThreadCommunicator<zero::Host> ranks) {
        using Trainer =
            zero::Trainer<cases::GivenGradients, zero::ThreadCommunicator<zero::Host>, O,
                          zero::Policies<zero::Sharded<ZERO_TEST_STAGE>, Precision, State>>;
        Typed<Trainer> trainer(setup.units, ranks, optimizer, setup.options,
                               zero::Sharded<ZERO_TEST_STAGE>{}, Precision{}, State{});
        f(trainer);
      },
      {.timeout = setup.timeout});
}

}  // namespace

template <>
void on_ranks_as<ZERO_TEST_STAGE>(Setup const& setup, std::function<void(AnyTrainer&)> const& f) {
  using zero::bf16, zero::State;
  std::visit(
      [&](auto const& named) {
        auto const optimizer = trained_as(named);
        switch (setup.storage) {
          case Storage::floats:
            return run<zero::Fp32, State<float>>(setup, optimizer, f);
          case Storage::mixed:
            return run<zero::Bf16Mixed, State<float>>(setup, optimizer, f);
          case Storage::half:
            return run<zero::Fp16Mixed, State<float>>(setup, optimizer, f);
          case Storage::split:
            return run<zero::Bf16Split, State<float>>(setup, optimizer, f);
          case Storage::short_states:
            return run<zero::Fp32, State<bf16>>(setup, optimizer, f);
        }
      },
      setup.optimizer);
}

}  // namespace checkpoints
