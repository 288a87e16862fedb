// SPDX-License-Identifier: Apache-2.0
// Options::replay on a device that records what its streams are given and runs the record: if
// anything that changes from step to step were an argument instead of device memory, bits would
// differ from those of a device that enqueues every step anew.
#include <zero/zero.hpp>

#include <doctest/doctest.h>

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace {

using zero::Index;

/// The host's stream, which can write down the work that it is given.
class TapedStream : public zero::HostStream {
 public:
  using Tape = std::vector<std::function<void()>>;
  explicit TapedStream(zero::HostStream&& stream) : zero::HostStream(std::move(stream)) {}

  template <class F>
  void enqueue(F work) {
    if (tape != nullptr) {
      tape->push_back(work);
    } else {
      work();
    }
  }
  Tape* tape = nullptr;  ///< where work goes in place of being run
};

/// How often a part was called for, and how often its work was made.
struct Counts {
  int calls = 0;
  int made = 0;
};
thread_local Counts counts;

class Replay {
 public:
  template <class F>
  void operator()(TapedStream& stream, F&& f) {
    ++counts.calls;
    if (tape_.empty()) {
      ++counts.made;
      stream.tape = &tape_;
      f();
      stream.tape = nullptr;
    }
    for (auto const& work : tape_) work();
  }

 private:
  TapedStream::Tape tape_;
};

class Taped : public zero::Host {
 public:
  using Stream = TapedStream;
  using Replay = ::Replay;
  static Taped with_threads(int) { return {}; }
  Stream stream() { return Stream(zero::Host::stream()); }
};

static_assert(zero::CanReplay<Taped> && !zero::CanReplay<zero::Host>);

/// Three units that are to become what a batch says; a batch that says NaN spoils its gradients.
struct Targets {
  using Batch = float;

  zero::Units units() const {
    return {{"a", {{.name = "a.w", .shape = {100}}}},
            {"b", {{.name = "b.w", .shape = {7, 3}}, {.name = "b.v", .shape = {65}}}},
            {"c", {{.name = "c.w", .shape = {300}}}}};
  }
  template <class Pass>
  void operator()(Pass& pass, Batch const& target) {
    for (int u = 0; u < 3; ++u) auto const w = pass.forward(u);
    if constexpr (Pass::trains) {
      using G = typename Pass::Gradient;
      for (int u = 3; u-- > 0;) {
        auto const [w, g] = pass.backward(u);
        for (Index t = 0; t < (u == 1 ? 2 : 1); ++t) {
          std::span<typename Pass::Parameter const> const values = w[t];
          std::span<G> const gradients = g[t];
          for (std::size_t i = 0; i < values.size(); ++i)
            gradients[i] = G(float(gradients[i]) + (float(values[i]) - target));
        }
      }
    }
  }
};

constexpr int steps = 6;

/// Every decision and every weight and state of rank 0, as numbers.
template <class D, class O, class... P>
std::vector<double> train(int ranks, O const& optimizer, zero::Options const& options,
                          P... policies) {
  std::vector<double> numbers;
  auto f = [&](auto communicator) {
    counts = {};
    zero::Trainer trainer{Targets{}, communicator, optimizer, options, policies...};
    std::vector<double> mine;
    for (int s = 0; s < steps; ++s) {
      std::vector<float> batches;
      // One micro-batch or as many as there may be: the mean differs, and with it the arguments.
      for (Index m = 0; m < (s % 2 == 0 ? options.accumulation : 1); ++m)
        batches.push_back(s == 3 ? std::numeric_limits<float>::quiet_NaN()
                                 : static_cast<float>(s + m + communicator.rank()));
      trainer.step(batches);
      zero::Decision const d = trainer.decision();
      for (double x : {d.skip != 0 ? -1.0 : d.norm, d.clip_factor, double{d.learning_rate},
                       static_cast<double>(d.updates), static_cast<double>(d.skipped)})
        mine.push_back(x);
    }
    auto const read = [&](zero::PlacedTensor const&, Index, auto values) {
      for (float value : values) mine.push_back(double{value});
    };
    zero::read_weights(trainer, read);
    for (int state = 0; state < static_cast<int>(O::num_states); ++state)
      zero::read_state(trainer, state, read);
    if (options.replay) {
      // The squares of all units, and all updates, each made once and called for in every step.
      CHECK(counts.calls == 2 * steps);
      CHECK(counts.made == 2);
    }
    if (communicator.rank() == 0) numbers = mine;
  };
  zero::launch<zero::ThreadsOn<D>>(ranks, f, {}, zero::Environment({}));
  return numbers;
}

template <class O, class... P>
void check_all(O const& optimizer, P... policies) {
  for (int ranks : {1, 2}) {
    for (Index accumulation : {1, 3}) {
      zero::Options options{.accumulation = accumulation, .clip = 0.5f};
      std::vector<double> const eager = train<zero::Host>(ranks, optimizer, options, policies...);
      options.replay = true;
      CAPTURE(ranks);
      CAPTURE(accumulation);
      std::vector<double> const replayed = train<Taped>(ranks, optimizer, options, policies...);
      CHECK(eager == replayed);
      CHECK(eager.size() > std::size_t{5 * steps + 100});
    }
  }
}

/// Decisions and weights of a loop of one's own whose parts are made anew where those before them
/// were: the gradients before step 2, the parameters, and with them all weights, before step 4.
template <class D>
std::vector<double> train_remade(zero::Options const& options) {
  counts = {};
  zero::AdamW const optimizer{.lr = 0.05f};
  Targets model;
  zero::Context context{model, zero::SingleRank<D>{}, optimizer, options, zero::Sharded<1>{}};
  using X = decltype(context);
  zero::OptimizerState state(context, optimizer);
  std::optional<zero::Parameters<X>> parameters(std::in_place, context);
  std::optional<zero::Gradients<X>> gradients(std::in_place, context);
  std::vector<double> numbers;
  for (int s = 0; s < steps; ++s) {
    if (s == 2) gradients.emplace(context);
    if (s == 4) parameters.emplace(context);
    zero::Pass pass(*parameters, *gradients, zero::MicroBatch{0, 1});
    model(pass, static_cast<float>(s));
    pass.end();
    state.decide(*gradients, 1);
    state.update(*parameters, *gradients);
    parameters->publish();
    context.synchronize();
    numbers.push_back(
        context.decision().template on<zero::Decision>(context.compute).view(0, 1).address()->norm);
    for (int u = 0; u < context.layout.size(); ++u) {
      auto const claim = parameters->kept(u).template on<float>(context.compute);
      std::span<float> const weights = claim.view();
      numbers.insert(numbers.end(), weights.begin(), weights.end());
    }
  }
  return numbers;
}

/// A rate that moves, so that a number of the step that was recorded would show.
zero::AdamW const adamw{
    .lr = 0.05f, .weight_decay = 0.1f, .schedule = zero::LearningRate::linear(2, 50)};

}  // namespace

TEST_CASE("replays of norm and update have the bits of single launches, at every stage") {
  check_all(adamw, zero::Sharded<0>{});
  check_all(adamw, zero::Sharded<1>{});
  check_all(adamw, zero::Sharded<2>{}, zero::Bf16Mixed{});
  check_all(adamw, zero::Sharded<3>{}, zero::Bf16Mixed{});
}

TEST_CASE("... with a loss scale that moves, and with trust ratios") {
  check_all(adamw, zero::Sharded<1>{}, zero::Fp16Mixed{});
  check_all(zero::Lamb{.lr = 0.05f}, zero::Sharded<1>{});
}

TEST_CASE("parts that are made anew at the address of others are recorded anew") {
  zero::Options options{.clip = 0.5f};
  std::vector<double> const eager = train_remade<zero::Host>(options);
  options.replay = true;
  CHECK(train_remade<Taped>(options) == eager);
  CHECK(counts.calls == 2 * steps);
  // Squares and updates at first and with other gradients, updates with other parameters besides.
  CHECK(counts.made == 5);
}

TEST_CASE("a replay on one rank alone is an error that says so") {
  CHECK_THROWS_WITH_AS(
      zero::launch<zero::ThreadsOn<Taped>>(
          2,
          [](auto communicator) {
            zero::Options const options{.replay = communicator.rank() == 1};
            zero::Trainer trainer{Targets{}, communicator, adamw, options, zero::Sharded<1>{}};
          },
          {}, zero::Environment({})),
      "ranks were built differently: rank 1 differs from rank 0 in Options::replay",
      zero::CommunicationError);
}

TEST_CASE("a replay is refused where there is none to be had") {
  zero::Options const options{.replay = true};
  CHECK_THROWS_WITH_AS(
      (zero::Trainer{Targets{}, zero::SingleRank<>{}, adamw, options}),
      "Options::replay: found true; expected false, since the device records no work",
      zero::InvalidArgument);
  CHECK_THROWS_WITH_AS(
      (zero::Trainer{Targets{}, zero::SingleRank<Taped>{}, adamw, options,
                     zero::Sharded<1, zero::Offload<zero::OnHost>>{}}),
      "Options::replay: found true; expected false, since state lies below the device",
      zero::InvalidArgument);
  CHECK_THROWS_WITH_AS(
      (zero::Trainer{Targets{}, zero::SingleRank<Taped>{}, adamw, options,
                     zero::UncheckedGradients{}}),
      "Options::replay: found true; expected false, since with UncheckedGradients each update "
      "waits for its own reduction",
      zero::InvalidArgument);
}
