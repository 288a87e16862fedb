// SPDX-License-Identifier: Apache-2.0
// One rank of several over NCCL: cuda_ranks SCENARIO, started by several_ranks.sh or a launcher.

#include <zero/cuda/cuda.cuh>
#include <zero/launch/agree.hpp>
#include <zero/zero.hpp>

#include <cuda/collectives.hpp>
#include <cuda/training.hpp>

#include <support/device_memory.hpp>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace zero_test {
namespace {

using zero::Index;
using zero::cuda::Device;
using zero::cuda::Nccl;

void collectives(zero::LaunchOptions const& options) {
  zero::launch<Nccl>(
      1,
      [](auto communicator) {
        for (int channel : {0, 1, 3}) {
          auto c = communicator.channel(channel);
          for (Index slice : {Index{1}, Index{64}, Index{100'003}}) {
            check_collectives<float>(c, slice);
            check_collectives<zero::bf16>(c, slice);
            check_collectives<zero::fp16>(c, slice);
            check_collectives<double>(c, slice);
          }
        }
        demand(zero::agree(communicator, true), "agreement");
        demand(!zero::agree(communicator, communicator.rank() != 0), "disagreement");
      },
      options);
}

/// Adam's first average after one step is 1 - 0.9 of the mean gradient, and alone it is that of one
/// rank's gradient: added up in double, in rank order, they are what NCCL has to bring. It rounds
/// `world - 1` sums to the wire's type, each by at most u = 2^-24 (2^-8 in bf16) of what is
/// added up: (1 + u)^(world - 1) - 1 of the magnitudes; the mean, its product with 0.1 and what was
/// read of each rank round in float: 8 u_32.
void sums(int stage, int world, Precision precision) {
  bool const bf16 = precision == Precision::bf16;
  Training t;
  t.model = everything();
  t.precision = precision;
  t.steps = 1;
  std::vector<Trained> alone;
  for (int r = 0; r < world; ++r) {
    t.first_rank = r;
    alone.push_back(train_stage(0, t));
  }
  t.first_rank = 0;
  t.world = world;
  t.on = RunsOn::nccl;
  Trained const got = train_stage(stage, t);
  double const u = std::ldexp(1.0, bf16 ? -8 : -24);
  double worst = 0;
  Index elements = 0;
  Index seen_twice = 0;
  for (auto const& [place, values] : got.elements) {
    double sum = 0;
    double magnitude = 0;
    for (Trained const& one : alone) {
      double const term = double{one.elements.at(place)[1]} / world;
      sum += term;
      magnitude += std::abs(term);
    }
    double const bound = magnitude * (std::pow(1 + u, world - 1) - 1 + 8 * std::ldexp(1.0, -24));
    double const found = values[1];
    demand(std::abs(found - sum) <= bound, "a sum of gradients: found " + std::to_string(found) +
                                               ", expected " + std::to_string(sum));
    if (magnitude == 0) continue;
    ++elements;
    worst = std::max(worst, std::abs(found - sum) / bound);
    double const twice = sum + double{alone[0].elements.at(place)[1]} / world;
    seen_twice += std::abs(found - twice) > bound;
  }
  std::printf(
      "stage %d, world %d, %s: %lld sums of gradients, worst/bound %.3f; a rank counted twice "
      "would be seen in %lld\n",
      stage, world, bf16 ? "bf16" : "fp32", static_cast<long long>(elements), worst,
      static_cast<long long>(seen_twice));
  demand(elements > 0, "no gradients");
  // One rank of `world` has about 1 / world of the magnitude, many times the bound.
  demand(seen_twice * 2 > elements, "a rank counted twice would be passed over");
}

/// From the second step on nothing is allocated and the host waits for nothing; what CUDA was asked
/// for is the plan, but for the one byte that a buffer of none takes; all of it is given back. A
/// host that is 128 launches of a channel ahead waits, as it does for CUDA's own queue: steps that
/// have fewer in all show that nothing else lets it wait.
void quiet(int stage, int world) {
  for (bool replay : {false, true}) {
    for (bool ahead : {false, true}) {
      Training t;
      t.model = everything();
      t.world = world;
      t.precision = Precision::bf16;
      t.on = RunsOn::nccl;
      // A channel launches at most a gather a visit or a publication and a reduction a unit.
      std::size_t const launches = t.model.schedule.size() + t.model.units.size();
      t.steps = ahead ? 40 : static_cast<int>(zero::cuda::detail::NcclLaunches::most / launches);
      demand(t.steps > 3, "too few steps");
      t.quiet = true;
      t.options.clip = 0.5f;
      t.options.replay = replay;
      Trained const got = train_stage(stage, t);
      demand(got.calls.allocations == 0, std::to_string(got.calls.allocations) + " allocations");
      demand(got.calls.waits == 0, std::to_string(got.calls.waits) + " waits");
      demand(got.calls.conditions == 0, std::to_string(got.calls.conditions) + " conditions");
      demand(ahead || got.calls.pauses == 0, std::to_string(got.calls.pauses) + " pauses");
      demand(got.peak_bytes == got.planned_bytes, "plan and peak of the ledger");
      std::printf(
          "stage %d, world %d%s, %d steps: planned %lld bytes, CUDA gave at most %lld, %lld are "
          "left; %lld pauses\n",
          stage, world, replay ? ", replayed" : "", t.steps,
          static_cast<long long>(got.planned_bytes), static_cast<long long>(got.allocated.peak),
          static_cast<long long>(got.allocated.bytes), static_cast<long long>(got.calls.pauses));
      int const rank = zero::find_place(zero::Environment::of_process())->rank;
      demand(rank != 0 || (got.allocated.peak >= got.planned_bytes &&
                           got.allocated.peak <= got.planned_bytes + 16),
             "plan and peak of CUDA");
      demand(got.allocated.bytes == 0 && got.allocated.pinned == 0, "memory is left");
    }
  }
}

/// What quiet() does not find would be counted: a stream that its work holds up lets the host wait
/// where 128 launches are under way, and where it is synchronized, and nowhere before.
void counted_waits(zero::LaunchOptions const& options) {
  zero::launch<Nccl>(
      1,
      [](auto communicator) {
        auto stream = communicator.device().stream();
        Index const elements = 64 * communicator.size();
        DeviceMemory<float, Device> memory(communicator.device(), elements);
        auto claim = memory.claim(stream);
        auto const reduce = [&](std::size_t times) {
          for (std::size_t i = 0; i < times; ++i)
            communicator.all_reduce(claim.target(0, elements), zero::Where{"test", "unit", 1});
        };
        reduce(1);
        stream.synchronize();  // the channel is made, and nothing is under way
        auto const pauses = [&](auto f) {
          stream.enqueue([] { std::this_thread::sleep_for(std::chrono::milliseconds(500)); });
          Calls const before = calls();
          f();
          Index const found = (calls() - before).pauses;
          stream.synchronize();
          return found;
        };
        std::size_t const most = zero::cuda::detail::NcclLaunches::most;
        Index const below = pauses([&] { reduce(most); });
        Index const full = pauses([&] { reduce(most + 1); });
        Index const ended = pauses([&] { stream.synchronize(); });
        std::printf(
            "pauses: %lld with %zu launches under way, %lld with one more, %lld at the end\n",
            static_cast<long long>(below), most, static_cast<long long>(full),
            static_cast<long long>(ended));
        demand(below == 0, "a host waits before its channel is full");
        demand(full > 0, "a wait for a full channel is not counted");
        demand(ended > 0, "a wait for a stream is not counted");
      },
      options);
}

/// Elements of a whose weight is farther than the bound from b's, and the worst share of it.
std::pair<Index, double> beyond(Trained const& a, Trained const& b, double bound) {
  Index count = 0;
  double worst = 0;
  for (auto const& [place, values] : a.elements) {
    double const apart = std::abs(double{values[0]} - double{b.elements.at(place)[0]});
    worst = std::max(worst, apart / bound);
    count += apart > bound;
  }
  return {count, worst};
}

/// Against threads on this rank's GPU, which add in rank order and round once to the wire's type.
/// NCCL rounds world - 1 sums, so that both together are off by world * u, u = 2^-24 in float and
/// 2^-8 in bf16, of a gradient whose terms do not cancel. Adam's step is the rate times a quotient
/// of averages over the steps so far, of gradients and of their squares: where each step's gradient
/// is off by a share, both averages are off by a mean of the shares, with nearly the same weights,
/// and the quotient by less than one share. So world * u of the rate a step is the bound in bf16;
/// weights that differ add little, as all but a few are rounded to the same parameters. The first
/// step alone says nothing: it is the rate, whatever a gradient's size. In float nothing is rounded
/// in between, and what differs is handed on: 64 times as much. Beyond the bound are gradients of
/// about 0: at most 1 %. One rank whose batches are another's moves a fifth of the weights farther.
void training(int stage, int world) {
  for (Precision precision : {Precision::fp32, Precision::bf16}) {
    bool const bf16 = precision == Precision::bf16;
    sums(stage, world, precision);
    for (Index accumulation : {1, 3}) {
      for (int steps : bf16 ? std::vector<int>{2, 3, 4} : std::vector<int>{4}) {
        Training t;
        t.model = everything();
        t.world = world;
        t.precision = precision;
        t.steps = steps;
        t.options.accumulation = accumulation;
        t.options.bucket = 500;
        Trained const reference = train_stage(stage, t);
        t.first_rank = 1;  // ranks 1 to `world` in place of 0 to `world` - 1
        Trained const exchanged = train_stage(stage, t);
        t.first_rank = 0;
        t.on = RunsOn::nccl;
        Trained const got = train_stage(stage, t);
        if (steps == 4) {
          t.options.replay = true;  // publications as well
          demand(train_stage(stage, t).elements == got.elements, "replays have other bits");
        }
        for (std::size_t s = 0; s < got.decisions.size(); ++s) {
          double const norm = reference.decisions[s][0];
          demand(std::abs(got.decisions[s][0] - norm) <= norm * (bf16 ? 0.02 : 1e-4), "norm");
        }
        double const rate = 0.02;
        double const bound = rate * steps * world * (bf16 ? 0x1p-8 : 64 * 0x1p-24);
        auto const [count, worst] = beyond(got, reference, bound);
        Index const seen = beyond(exchanged, reference, bound).first;
        std::printf(
            "stage %d, world %d, %s, accumulation %lld, %d steps: %zu elements, worst/bound %.3f, "
            "beyond %lld; another rank's batches would be seen in %lld\n",
            stage, world, bf16 ? "bf16" : "fp32", static_cast<long long>(accumulation), steps,
            got.elements.size(), worst, static_cast<long long>(count),
            static_cast<long long>(seen));
        auto const elements = static_cast<Index>(got.elements.size());
        demand(elements > 0, "no elements");
        demand(count * 100 <= elements, "more than 1 % beyond");
        demand(seen * 5 > elements, "another rank's batches would be passed over");
      }
    }
  }
  quiet(stage, world);
}

/// Who gathers changes no bit: copy engines move what NCCL's kernels move. Ranks that claim a host
/// each, as they must to share a GPU, do not reach each other's memory: there it is refused before
/// training.
void copy_engines(int world) {
  bool const refused = std::getenv("NCCL_HOSTID") != nullptr;
  for (int stage : {1, 2, 3}) {
    for (bool replay : {false, true}) {
      Training t;
      t.model = everything();
      t.world = world;
      t.precision = Precision::bf16;
      t.on = RunsOn::nccl;
      t.options.bucket = 500;
      t.options.prefetch = 2;
      t.options.replay = replay;
      Trained const by_kernels = refused ? Trained{} : train_stage(stage, t);
      t.copy_engines = true;
      if (refused) {
        try {
          train_stage(stage, t);
        } catch (zero::CommunicationError const& e) {
          std::string const text = e.what();
          demand(text.find("whose GPUs reach each other's memory") != text.npos, text);
          std::printf("refused: %s\n", e.what());
          return;
        }
        throw zero::Error("wrong: windows between ranks on several hosts were not refused");
      }
      Trained const by_engines = train_stage(stage, t);
      demand(by_engines.elements == by_kernels.elements, "bits of copy engines");
      demand(by_engines.peak_bytes == by_engines.planned_bytes, "plan and peak");
      demand(by_engines.left_bytes == 0, "memory is left");
      std::printf("stage %d%s: %zu elements alike\n", stage, replay ? ", replayed" : "",
                  by_engines.elements.size());
    }
  }
}

/// One rank alone chooses copy engines: all say so, before step 1.
void lone_choice(int rank, int world) {
  Training t;
  t.model = everything();
  t.world = world;
  t.on = RunsOn::nccl;
  t.copy_engines = rank == 0;
  t.before_step = [](int, int) { throw zero::Error("wrong: a lone choice came to a step"); };
  try {
    train_stage(3, t);
  } catch (zero::CommunicationError const& e) {
    std::string const text = e.what();
    demand(text.find("gather_by_copy_engines() is called by every rank or by none") != text.npos,
           text);
    std::printf("refused: %s\n", e.what());
    return;
  }
  throw zero::Error("wrong: a lone choice was taken");
}

/// A communicator that has gathered cannot change who gathers.
void late_choice(zero::LaunchOptions const& options) {
  zero::launch<Nccl>(
      1,
      [](auto communicator) {
        check_collectives<float>(communicator = communicator.channel(1), 64);
        try {
          communicator.gather_by_copy_engines();
        } catch (zero::InvalidArgument const& e) {
          std::printf("refused: %s\n", e.what());
          return;
        }
        throw zero::Error("wrong: a late choice was taken");
      },
      options);
}

/// Ranks that know no address meet through the file that ZERO_NCCL_ID_FILE names, one world after
/// the other at one path; training ends with the bits of ranks that meet by NCCL's own bootstrap.
/// id_file.sh leaves there what an earlier run would.
void id_file(int world) {
  std::string const variables[] = {"MASTER_ADDR", "MASTER_PORT", "ZERO_NCCL_ID_FILE"};
  std::vector<std::string> texts;
  for (std::string const& name : variables) {
    char const* const text = std::getenv(name.c_str());
    demand(text != nullptr, "no " + name + ": id_file.sh starts this scenario");
    texts.emplace_back(text);
  }
  Training t;
  t.model = everything();
  t.world = world;
  t.precision = Precision::bf16;
  t.on = RunsOn::nccl;
  ::unsetenv("MASTER_ADDR");
  ::unsetenv("MASTER_PORT");
  Trained const first = train_stage(3, t);
  Trained const second = train_stage(3, t);
  ::setenv("MASTER_ADDR", texts[0].c_str(), 1);
  ::setenv("MASTER_PORT", texts[1].c_str(), 1);
  ::unsetenv("ZERO_NCCL_ID_FILE");
  Trained const by_address = train_stage(3, t);
  demand(!first.elements.empty(), "no elements");
  for (Trained const* by_file : {&first, &second}) {
    demand(by_file->elements == by_address.elements, "bits of ranks that met through a file");
    demand(by_file->losses == by_address.losses, "losses of ranks that met through a file");
  }
  std::printf("twice through '%s' and once at %s: %zu elements alike\n", texts[2].c_str(),
              texts[0].c_str(), first.elements.size());
}

/// The last rank does not come.
void late(zero::LaunchOptions const& options) {
  zero::launch<Nccl>(
      1,
      [&](auto communicator) {
        auto stream = communicator.device().stream();
        DeviceMemory<float, Device> memory(communicator.device(), 1024 * communicator.size());
        auto claim = memory.claim(stream);
        auto const reduce = [&](Index step) {
          communicator.all_reduce(claim.target(0, 1024 * communicator.size()),
                                  zero::Where{"reduce", "h.3", step});
        };
        reduce(11);
        stream.synchronize();
        if (communicator.rank() + 1 == communicator.size())
          std::this_thread::sleep_for(4 * options.timeout);
        reduce(12);
        stream.synchronize();
      },
      options);
}

/// The last rank dies in the middle.
void dies(zero::LaunchOptions const& options) {
  zero::launch<Nccl>(
      1,
      [&](auto communicator) {
        auto stream = communicator.device().stream();
        DeviceMemory<float, Device> memory(communicator.device(), 1024 * communicator.size());
        auto claim = memory.claim(stream);
        for (Index step = 0;; ++step) {
          if (step == 5 && communicator.rank() + 1 == communicator.size()) std::_Exit(9);
          communicator.all_reduce(claim.target(0, 1024 * communicator.size()),
                                  zero::Where{"reduce", "h.3", step});
          stream.synchronize();
        }
      },
      options);
}

/// A trainer's last rank does not come to a step, or dies before it. Ahead: the others enqueue
/// until CUDA's queue is full, where nobody looks but the watchdog.
void failing_trainer(std::string const& scenario, int rank, int world) {
  auto const has = [&](char const* word) { return scenario.find(word) != scenario.npos; };
  bool const last = rank + 1 == world;
  bool const dies = has("dies");
  bool const ahead = has("ahead");
  int const bad_step = 6;  // replays are recorded by then
  Training t;
  t.model = everything();
  t.world = world;
  t.on = RunsOn::nccl;
  t.timeout = std::chrono::seconds(5);
  t.steps = ahead ? 20'000 : 12;
  t.quiet = ahead;
  t.options.prefetch = 1;
  t.options.replay = has("replay");
  auto const timeout = t.timeout;
  t.before_step = [=](int, int step) {
    if (step != bad_step || !last) return;
    if (dies) std::_Exit(9);
    std::this_thread::sleep_for(4 * timeout);
  };
  train_stage(has("-1") ? 1 : 3, t);
}

int run(std::string const& scenario) {
  auto const place = zero::find_place(zero::Environment::of_process());
  if (!place) throw zero::Error("several_ranks.sh starts this program");
  zero::LaunchOptions options{.timeout = std::chrono::seconds(60)};
  if (scenario == "collectives") collectives(options);
  if (scenario.rfind("training-", 0) == 0) training(scenario.back() - '0', place->size);
  if (scenario == "copy-engines") copy_engines(place->size);
  if (scenario == "counted-waits") counted_waits(options);
  if (scenario == "late-choice") late_choice(options);
  if (scenario == "id-file") id_file(place->size);
  if (scenario == "lone-choice") lone_choice(place->rank, place->size);
  if (scenario.rfind("late-stage", 0) == 0 || scenario.rfind("dies-stage", 0) == 0)
    failing_trainer(scenario, place->rank, place->size);
  options.timeout = std::chrono::seconds(4);
  if (scenario == "late") late(options);
  if (scenario == "dies") dies(options);
  std::printf("rank %d of %d: %s is well\n", place->rank, place->size, scenario.c_str());
  return 0;
}

}  // namespace
}  // namespace zero_test

int main(int argc, char** argv) {
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
    std::puts("skipped: this process sees no GPU");
    return 77;
  }
  try {
    return zero_test::run(argc > 1 ? argv[1] : "");
  } catch (std::exception const& e) {
    std::printf("failed: %s\n", e.what());
    return 1;
  }
}
