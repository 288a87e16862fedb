// SPDX-License-Identifier: Apache-2.0
// A device whose work needs memory beside what it is given, as kernels of a GPU do: the plan has
// it, the step gives it before the first work, and nothing is allocated besides.
#include <zero/zero.hpp>

#include <doctest/doctest.h>

#include <cstring>
#include <span>
#include <vector>

namespace {

using zero::Index;

/// The host, whose sums of squares take a workspace: they throw without one, or where it is not as
/// the one before has left it.
class SpaciousStream : public zero::HostStream {
 public:
  static constexpr Index workspace_bytes = 1000;
  using zero::HostStream::HostStream;
  explicit SpaciousStream(zero::HostStream&& stream) : zero::HostStream(std::move(stream)) {}

  void use_workspace(std::byte* address, Index bytes) {
    if (workspace_ != nullptr || bytes != workspace_bytes) throw zero::Error("planted");
    std::memset(address, 7, zero::at(bytes));
    workspace_ = address;
    ++unsettled;
  }
  void synchronize() { unsettled = 0; }
  /// Workspaces of this thread's streams that were given since the host last waited: work on them
  /// may be under way.
  static inline thread_local int unsettled = 0;

  std::byte* workspace() const {
    if (workspace_ == nullptr || workspace_[workspace_bytes - 1] != std::byte{7})
      throw zero::Error("the workspace is not there, or is used by others");
    return workspace_;
  }

 private:
  std::byte* workspace_ = nullptr;
};

class Spacious : public zero::Host {
 public:
  using Stream = SpaciousStream;
  static Spacious with_threads(int) { return {}; }
  Stream stream() { return Stream(zero::Host::stream()); }
};

template <class T>
void add_squares(SpaciousStream& stream, zero::View<T const, Spacious> from,
                 zero::View<double, Spacious> record, Index unit) {
  std::byte* const workspace = stream.workspace();
  std::memset(workspace, 1, zero::at(SpaciousStream::workspace_bytes - 1));
  zero::add_squares<T, Spacious>(stream, from, record, unit);
}

static_assert(zero::HasWorkspace<Spacious> && !zero::HasWorkspace<zero::Host>);
static_assert(zero::workspace_bytes<Spacious> == 1000 && zero::workspace_bytes<zero::Host> == 0);

/// Three units that are to become what a batch says.
struct Targets {
  using Batch = float;

  zero::Units units() const {
    return {{"a", {{.name = "a.w", .shape = {100}}}},
            {"b", {{.name = "b.w", .shape = {7, 3}}, {.name = "b.v", .shape = {65}}}},
            {"c", {{.name = "c.w", .shape = {300}}}}};
  }
  template <class Pass>
  double operator()(Pass& pass, Batch const& target) {
    double loss = 0;
    for (int u = 0; u < 3; ++u) {
      auto const w = pass.forward(u);
      for (Index t = 0; t < (u == 1 ? 2 : 1); ++t) {
        std::span<typename Pass::Parameter const> const values = w[t];
        for (float value : values) loss += 0.5 * (value - target) * (value - target);
      }
    }
    if constexpr (Pass::trains) {
      for (int u = 3; u-- > 0;) {
        auto const [w, g] = pass.backward(u);
        for (Index t = 0; t < (u == 1 ? 2 : 1); ++t) {
          std::span<typename Pass::Parameter const> const values = w[t];
          std::span<typename Pass::Gradient> const gradients = g[t];
          for (std::size_t i = 0; i < values.size(); ++i)
            gradients[i] = gradients[i] + (values[i] - target);
        }
      }
    }
    return loss;
  }
};

struct Trained {
  Index planned, peak, held;
  zero::MemoryPlan plan;
  std::vector<double> numbers;  // losses and norms
};

template <class D, class O, class... P>
Trained train(O const& optimizer, zero::Options const& options, P... policies) {
  zero::SingleRank<D> const ranks;
  zero::Trainer trainer{Targets{}, ranks, optimizer, options, policies...};
  Trained result{.planned = 0, .peak = 0, .held = 0, .plan = trainer.plan(), .numbers = {}};
  for (int step = 0; step < 3; ++step) {
    trainer.step(0.5f * static_cast<float>(step));
    result.numbers.push_back(trainer.loss());
    result.numbers.push_back(trainer.decision().norm);
  }
  zero::Ledger const& ledger = ranks.device().ledger();
  result.planned = trainer.plan().total_bytes();
  result.peak = ledger.peak_bytes();
  result.held = ledger.bytes();
  return result;
}

/// Of one bundle: plan and peak are equal, the workspace is in the tables, and bits are the host's.
template <class O, class... P>
void check(O const& optimizer, zero::Options const& options, P... policies) {
  Trained const plain = train<zero::Host>(optimizer, options, policies...);
  Trained const spacious = train<Spacious>(optimizer, options, policies...);
  CHECK(plain.planned == plain.peak);
  CHECK(spacious.planned == spacious.peak);
  CHECK(spacious.planned == spacious.held);
  // 1000 bytes, and up to a multiple of 256.
  CHECK(spacious.plan.tables.bytes == plain.plan.tables.bytes + 1024);
  CHECK(spacious.planned == plain.planned + 1024);
  CHECK(spacious.numbers == plain.numbers);
}

template <int Stage>
void check_stage() {
  using zero::Sharded;
  zero::Options const options{.clip = 0.1f};
  check(zero::AdamW{.lr = 0.1f}, options, Sharded<Stage>{});
  check(zero::Lamb{.lr = 0.1f}, options, Sharded<Stage>{});  // the tensors' norms before it
}

}  // namespace

TEST_CASE("what a device's work needs beside its arguments is a table of the plan") {
  check_stage<0>();
  check_stage<1>();
  check_stage<2>();
  check_stage<3>();
}

TEST_CASE("and stands behind all other tables, with state below the device in part") {
  using zero::Offload;
  zero::Options options{.clip = 0.1f};
  options.offload.ratio = 0.5;
  check(zero::AdamW{.lr = 0.1f}, options, zero::Sharded<3, Offload<zero::OnHost>>{});
  check(zero::AdamW{.lr = 0.1f}, options, zero::Sharded<3, Offload<zero::OnHost, zero::OnHost>>{});
}

TEST_CASE("a plan from descriptions alone has it where it is told of it") {
  zero::Facts const facts = zero::Facts::of<zero::Policies<zero::Sharded<3>>>(2);
  auto const plan = [&](Index workspace) {
    return zero::plan_memory(Targets{}.units(), zero::default_schedule(3), 4, facts, {}, workspace);
  };
  CHECK(plan(0).total_bytes() + 1024 == plan(zero::workspace_bytes<Spacious>).total_bytes());
}

TEST_CASE("a replay that is refused is refused before anything is allocated or enqueued") {
  SpaciousStream::unsettled = 0;
  zero::SingleRank<Spacious> const ranks;
  CHECK_THROWS_WITH_AS(
      (zero::Trainer{Targets{}, ranks, zero::AdamW{}, zero::Options{.replay = true}}),
      "Options::replay: found true; expected false, since the device records no work",
      zero::InvalidArgument);
  CHECK(SpaciousStream::unsettled == 0);
  CHECK(ranks.device().ledger().peak_bytes() == 0);
}

TEST_CASE("a context that cannot start waits for its work before it gives memory back") {
  auto const f = [](auto communicator) {
    if (communicator.rank() == 1) throw zero::Error("planted");
    SpaciousStream::unsettled = 0;
    CHECK_THROWS_AS((zero::Trainer{Targets{}, communicator, zero::AdamW{}, zero::Options{}}),
                    zero::CommunicationError);
    CHECK(SpaciousStream::unsettled == 0);
    CHECK(communicator.device().ledger().bytes() == 0);
  };
  CHECK_THROWS_AS(zero::launch<zero::ThreadsOn<Spacious>>(2, f, {}, zero::Environment({})),
                  zero::Error);
}
