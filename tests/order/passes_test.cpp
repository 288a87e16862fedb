// SPDX-License-Identifier: Apache-2.0
// Loops of a user's own that put passes together wrongly are told so, in a sentence, before bits
// are lost; and ranks that stray are told so by whatever the loop waits with.

#include <doctest/doctest.h>
#include <order/visits_model.hpp>

namespace zero_test {
namespace {

bool holds(std::string const& text, std::string const& part) {
  return text.find(part) != std::string::npos;
}

template <int Stage>
void a_pass_while_one_is_open() {
  zero::launch<zero::Threads>(2, [](auto ranks) {
    VisitsModel model;
    zero::Context context{
        model, ranks, zero::AdamW{}, zero::Options{}, zero::Sharded<Stage>{}, zero::Fp32{}};
    zero::Parameters parameters{context};
    zero::Gradients gradients{context};
    zero::OptimizerState state{context, zero::AdamW{}};
    {
      zero::Pass pass{parameters, gradients};
      { auto const w = pass.forward(0); }
      CHECK_THROWS_WITH_AS(zero::Pass{parameters},
                           "pass: another pass of this context is still open", zero::Error);
      CHECK_THROWS_AS((zero::Pass{parameters, gradients}), zero::Error);
      { auto const w = pass.forward(1); }
      for (int u : {1, 0}) {
        auto const [w, g] = pass.backward(u);
        for (float& x : g[0].span()) x += 1.0f;
      }
      pass.end();
      zero::Pass look{parameters};  // that one has ended
      look.end();
    }
    state.decide(gradients, 1);
    state.update(parameters, gradients);
    parameters.publish();
    context.wait();
  });
}

TEST_CASE("a pass that is opened while another is open is refused, and the open one goes on") {
  a_pass_while_one_is_open<0>();
  a_pass_while_one_is_open<1>();
  a_pass_while_one_is_open<2>();
  a_pass_while_one_is_open<3>();
}

TEST_CASE("micro-batches out of order, left out, or decided too early are refused") {
  zero::SingleRank<> one;
  VisitsModel model;
  zero::Context context{
      model,       one, zero::AdamW{}, zero::Options{.accumulation = 3}, zero::Sharded<2>{},
      zero::Fp32{}};
  zero::Parameters parameters{context};
  zero::Gradients gradients{context};
  zero::OptimizerState state{context, zero::AdamW{}};
  auto const run = [&](zero::Index number, zero::Index count) {
    zero::Pass pass{parameters, gradients, zero::MicroBatch{number, count}};
    model(pass, -1);
    pass.end();
  };
  CHECK_THROWS_WITH_AS(run(2, 3), "pass: micro-batch 2 of 3; of this step 0 of 0 passes have ended",
                       zero::InvalidArgument);
  CHECK_THROWS_WITH_AS(state.decide(gradients, 1),
                       "decide: 1 micro-batches; of step 0 0 of 0 passes have ended",
                       zero::InvalidArgument);
  run(0, 3);
  CHECK_THROWS_AS(run(2, 3), zero::InvalidArgument);
  CHECK_THROWS_AS(run(1, 2), zero::InvalidArgument);
  run(1, 3);
  CHECK_THROWS_AS(state.decide(gradients, 2), zero::InvalidArgument);
  CHECK_THROWS_AS(state.decide(gradients, 3), zero::InvalidArgument);
  { zero::Pass never_ended{parameters, gradients, zero::MicroBatch{2, 3}}; }
  CHECK_THROWS_AS(state.decide(gradients, 3), zero::InvalidArgument);
  for (zero::Index i : {0, 1, 2}) run(i, 3);  // the step from its beginning
  state.decide(gradients, 3);
  state.update(parameters, gradients);
  parameters.publish();
}

/// What a state of `optimizer` says to a context that was made for `planned`.
template <class Planned, class O>
std::string state_of_another(Planned const& planned, O const& optimizer) {
  VisitsModel model;
  zero::Context context{model, zero::SingleRank<>{}, planned, zero::Options{}, zero::Sharded<2>{}};
  try {
    zero::OptimizerState state{context, optimizer};
  } catch (zero::InvalidArgument const& e) {
    return e.what();
  }
  return "";
}

TEST_CASE("a state for another optimizer than the context's is refused, and says which is which") {
  CHECK(state_of_another(zero::Lamb{}, zero::Lamb{}) == "");
  CHECK(state_of_another(zero::AdamW{}, zero::Lamb{}) ==
        "OptimizerState: the context was made for an optimizer without trust ratios, and this one "
        "has some");
  CHECK(state_of_another(zero::Lamb{}, zero::AdamW{}) ==
        "OptimizerState: the context was made for an optimizer with trust ratios, and this one has "
        "none");
  CHECK(state_of_another(zero::AdamW{}, zero::Sgd{}) ==
        "OptimizerState: the context was made for an optimizer of 2 states an element, not 1");
}

TEST_CASE("a loss before the first step is refused") {
  zero::Trainer trainer{VisitsModel{}, zero::SingleRank<>{}, zero::AdamW{}};
  CHECK_THROWS_WITH_AS(trainer.loss(), "loss: there was no step and no evaluation yet",
                       zero::Error);
  trainer.step(-1);
  CHECK(std::isfinite(trainer.loss()));
}

/// Rank 1 visits unit 1 once more in step 2 of a loop that waits by `wait`.
template <int Stage, class Wait>
std::string strays(int ranks, Wait wait) {
  return failure_of(ranks, [&](auto communicator) {
    zero::Trainer trainer{
        VisitsModel{},          communicator, zero::AdamW{.lr = 0.01f}, zero::Options{.clip = 1},
        zero::Sharded<Stage>{}, zero::Fp32{}};
    for (int step = 1; step <= 3; ++step) {
      trainer.step(communicator.rank() == 1 && step == 2 ? 1 : -1);
      wait(trainer);
    }
  });
}

TEST_CASE(
    "a loop that only asks for losses, or only synchronizes, learns that a rank has strayed") {
  auto const loss = [](auto& trainer) { trainer.loss(); };
  auto const mean_loss = [](auto& trainer) { trainer.mean_loss(); };
  auto const synchronize = [](auto& trainer) { trainer.synchronize(); };
  for (int ranks : {2, 3}) {
    for (std::string const& text :
         {strays<1>(ranks, loss), strays<1>(ranks, mean_loss), strays<1>(ranks, synchronize),
          strays<2>(ranks, loss), strays<2>(ranks, mean_loss), strays<2>(ranks, synchronize)}) {
      INFO(text);
      CHECK(holds(text,
                  "rank 1 issued other collectives, or made other visits outside the schedule"));
      CHECK(holds(text, "step 2"));
    }
    std::string const replicated = strays<0>(ranks, mean_loss);
    INFO(replicated);
    CHECK(holds(replicated, "rank 1 made other visits outside the schedule than rank 0"));
    CHECK(holds(replicated, "step 2"));
  }
}

}  // namespace
}  // namespace zero_test
