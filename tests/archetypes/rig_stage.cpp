// SPDX-License-Identifier: Apache-2.0
// The trainers of one stage, ZERO_RIG_STAGE, behind the interface.
#include <zero/report/slices.hpp>
#include <zero/step/trainer.hpp>

#include <archetypes/rig.hpp>

#include <algorithm>

namespace rig {
namespace {

template <class S, class R>
class TrainerAs final : public Trainer {
 public:
  TrainerAs(Setup const& setup, Ranks ranks, zero::CollectiveLog& log)
      : trainer_(Walker(setup.units, schedule_of(setup), setup.gradient, setup.fill),
                 zero::Recording<Ranks>(std::move(ranks), log), setup.optimizer, setup.options) {}

  void step(Batch const& batch) override { trainer_.step(batch); }
  void step(std::span<Batch const> batches) override { trainer_.step(batches); }
  double evaluate(Batch const& batch) override { return trainer_.evaluate(batch); }
  void visit(std::span<int const> units) override {
    trainer_.evaluate([&](auto& pass) {
      for (int unit : units) auto const lease = pass.forward(unit);
    });
  }
  zero::Decision decision() override { return trainer_.decision(); }
  double loss() override { return trainer_.loss(); }
  std::uint64_t parameters_hash() override { return zero::parameters_hash(trainer_); }
  void read_weights(Weights const& f) override { zero::read_weights(trainer_, f); }

  std::vector<float> tensor(int unit, Index index) override {
    std::vector<float> values;
    trainer_.evaluate([&](auto& pass) {
      auto const lease = pass.forward(unit);
      std::span<typename R::Parameter const> const view = lease[index];
      for (auto const x : view) values.push_back(static_cast<float>(x));
    });
    return values;
  }

  bool padding_is_zero() override {
    bool zero = true;
    trainer_.evaluate([&](auto& pass) {
      for (int u = 0; u < layout().size(); ++u) {
        auto const lease = pass.forward(u);
        std::span<typename R::Parameter const> const unit = lease.flat();
        std::vector<char> covered(unit.size(), 0);
        for (std::size_t t = 0; t < layout()[u].tensors.size(); ++t) {
          auto const first = covered.begin() + layout().offset(u, static_cast<Index>(t));
          std::fill(first, first + layout()[u].tensors[t].elements, char{1});
        }
        for (std::size_t i = 0; i < unit.size(); ++i)
          zero = zero && (covered[i] != 0 || static_cast<float>(unit[i]) == 0.0f);
      }
    });
    return zero;
  }

  zero::MemoryPlan const& plan() const override { return trainer_.plan(); }
  zero::Layout const& layout() const override { return context().layout; }
  zero::Deviations deviations() const override { return context().deviations; }

 private:
  using Mine = zero::Trainer<Walker, zero::Recording<Ranks>, zero::AdamW, zero::Policies<S, R>>;

  typename Mine::Context& context() const { return const_cast<Mine&>(trainer_).context(); }

  Mine trainer_;
};

}  // namespace

template <>
std::unique_ptr<Trainer> make_stage<ZERO_RIG_STAGE>(Setup const& setup, Ranks ranks,
                                                    zero::CollectiveLog& log) {
  using S = zero::Sharded<ZERO_RIG_STAGE>;
  if (setup.bf16) return std::make_unique<TrainerAs<S, zero::Bf16Mixed>>(setup, ranks, log);
  return std::make_unique<TrainerAs<S, zero::Fp32>>(setup, ranks, log);
}

}  // namespace rig
