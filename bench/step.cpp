// SPDX-License-Identifier: Apache-2.0
// A training step at each stage: two ranks at stages 0 to 3 against stage 0, for the GPT that
// examples/gpt2 trains by default and for one so small that communication is what it does; and one
// rank through Trainer against the same GPT in a loop written by hand. Losses are told: variants
// that did the same work end with the same one.
#include <zero/zero.hpp>

#include <bench/harness.hpp>
#include <bench/plain_loop.hpp>
#include <gpt2/matrix.hpp>
#include <gpt2/model.hpp>

#include <string>
#include <utility>

namespace {

using bench::Index;
using gpt2::Gpt2;

constexpr float lr = 1e-3f;
constexpr float clip = 1.0f;

/// A model and how many tokens a rank gives it in a step.
struct Workload {
  std::string name;
  gpt2::Configuration size;
  Index sequences;
};

/// Made-up tokens, keyed by rank.
gpt2::TokenBatch tokens(Workload const& w, int rank) {
  gpt2::TokenBatch batch{.length = w.size.context, .inputs = {}, .targets = {}};
  for (Index i = 0; i < w.sequences * w.size.context; ++i) {
    auto const token = [&](Index place) {
      return static_cast<gpt2::Token>(zero::noise_bits(1, rank, place) % 61);
    };
    batch.inputs.push_back(token(i));
    batch.targets.push_back(token(i + 1));
  }
  return batch;
}

/// A variant's body: trains with a policy, and tells what a rank keeps, sends and where a step's
/// time goes.
template <class Sharding, class Precision>
struct Train {
  Workload workload;

  template <class Communicator>
  void operator()(Communicator communicator, bench::Measure measure) const {
    Gpt2 const model(workload.size);
    zero::Options const options{.clip = clip};
    zero::Trainer trainer{model,   communicator, zero::AdamW{.lr = lr},
                          options, Sharding{},   Precision{}};
    gpt2::TokenBatch const batch = tokens(workload, communicator.rank());
    measure([&] {
      trainer.step(batch);
      trainer.synchronize();
    });
    auto const& context = trainer.context();
    auto const ms = [&](double seconds) {
      return 1e3 * seconds / static_cast<double>(context.step);
    };
    double const loss = trainer.mean_loss();
    measure.fact("loss", loss);
    measure.fact("bytes", communicator.device().ledger().peak_bytes());
    measure.fact("wire_elements",
                 zero::plan_wire_elements(model.units(), model.schedule(), communicator.size(),
                                          context.shares.facts(), options, 1));
    measure.fact("gather_ms", ms(context.seconds.gather));
    measure.fact("reduce_ms", ms(context.seconds.reduce));
    measure.fact("clip_ms", ms(context.seconds.clip));
    measure.fact("update_ms", ms(context.seconds.update));
    measure.fact("publish_ms", ms(context.seconds.publish));
  }
};

/// All stages on `ranks` ranks.
void add_stages(bench::Harness& harness, Workload const& workload, int ranks, double at_most) {
  auto const name = [&](int stage) {
    return workload.name + ", " + std::to_string(ranks) + " ranks, stage " + std::to_string(stage);
  };
  auto const add = [&]<int Stage>(std::integral_constant<int, Stage>) {
    harness.add({.name = name(Stage),
                 .ranks = ranks,
                 .against = Stage == 0 ? "" : name(0),
                 .at_most = Stage == 3 ? at_most : 0},
                Train<zero::Sharded<Stage>, zero::Bf16Mixed>{workload});
  };
  add(std::integral_constant<int, 0>{});
  add(std::integral_constant<int, 1>{});
  add(std::integral_constant<int, 2>{});
  add(std::integral_constant<int, 3>{});
}

/// One rank by hand and through Trainer.
template <class Precision>
void add_one_rank(bench::Harness& harness, Workload const& workload) {
  std::string const name = workload.name + ", 1 rank, " + Precision::name;
  harness.add({.name = name + ", by hand"}, [workload](bench::Measure measure) {
    using Parameter = typename Precision::Parameter;
    bench::PlainLoop<Gpt2, Parameter> loop(Gpt2(workload.size), lr, clip, zero::Options{}.seed);
    gpt2::TokenBatch const batch = tokens(workload, 0);
    measure([&] { loop.step(batch); });
    measure.fact("loss", loop.loss());
  });
  Train<zero::Sharded<3>, Precision> const train{workload};
  harness.add({.name = name + ", Trainer", .against = name + ", by hand", .at_most = 1.02},
              [train](bench::Measure measure) { train(zero::SingleRank<>{}, measure); });
}

}  // namespace

int main(int argc, char** argv) {
  gpt2::use_one_blas_thread();
  bench::Harness harness(argc, argv, "step",
                         "A training step: stages against stage 0, Trainer against a plain loop");
  int const ranks = static_cast<int>(harness.number("ranks", 2, "ranks of the stages", 2));
  Workload const usual{"default GPT", {}, 8};
  Workload const small{"2 x 64 GPT", {.context = 32, .width = 64, .heads = 2, .layers = 2}, 1};
  add_stages(harness, usual, ranks, ranks == 2 ? 1.10 : 0);
  add_stages(harness, small, ranks, 0);
  add_one_rank<zero::Bf16Mixed>(harness, usual);
  add_one_rank<zero::Fp32>(harness, usual);
  return harness.run();
}
