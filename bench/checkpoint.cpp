// SPDX-License-Identifier: Apache-2.0
// Saving and loading against the disk itself: O_DIRECT writes and reads of as many bytes into as
// many files, in the same run, round after round, by one thread a rank and by two, as a save has;
// the better of both is the ceiling. And what a save in the background costs a step.
#include <zero/checkpoint.hpp>
#include <zero/launch/threads.hpp>
#include <zero/report/json.hpp>
#include <zero/step/trainer.hpp>

#include <bench/machine.hpp>
#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <thread>
#include <vector>

namespace {

using zero::at;
using zero::Index;
using Clock = std::chrono::steady_clock;
constexpr Index block = Index{4} << 20;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Touches nothing but what training must, and gradients that are not 0: so nor are the states.
struct Still {
  using Batch = int;
  Index elements;
  zero::Units units() const {
    zero::Units all;
    for (int u = 0; u < 16; ++u) {
      std::string const name = "unit." + std::to_string(u);
      all.push_back({name, {{name + ".w", {elements / 16}, zero::Initial::uniform(-1, 1)}}});
    }
    return all;
  }
  template <class Pass>
  void operator()(Pass& pass, Batch) const {
    for (int u = 0; u < 16; ++u) pass.forward(u).end();
    if constexpr (Pass::trains) {
      for (int u = 16; u-- > 0;) {
        auto const [parameters, gradients] = pass.backward(u);
        std::ranges::fill(gradients[0].span(), typename Pass::Gradient(1e-3f));
      }
    }
  }
};

/// Runs f(thread) on so many threads; seconds until the last has ended.
template <class F>
double on_threads(int threads, F f) {
  auto const start = Clock::now();
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t) all.emplace_back(f, t);
  for (std::thread& thread : all) thread.join();
  return since(start);
}

struct Aligned {
  std::byte* bytes = static_cast<std::byte*>(std::aligned_alloc(4096, at(block)));
  Aligned() { std::fill_n(bytes, block, std::byte{0x5a}); }
  Aligned(Aligned const&) = delete;
  Aligned& operator=(Aligned const&) = delete;
  ~Aligned() { std::free(bytes); }
};

[[noreturn]] void fail(std::string const& what) {
  std::fprintf(stderr, "bench_checkpoint: %s\n", what.c_str());
  std::exit(2);
}

std::string raw_file(std::string const& dir, int t) { return dir + "/raw-" + std::to_string(t); }

void raw_remove(std::string const& dir, int ranks) {
  for (int r = 0; r < ranks; ++r) std::filesystem::remove(raw_file(dir, r));
}
/// New files, one a rank, each by `threads` with a descriptor of its own, which take turns.
double raw_write(std::string const& dir, int ranks, int threads, Index bytes) {
  return on_threads(ranks * threads, [&](int t) {
    Aligned buffer;
    int const file =
        ::open(raw_file(dir, t / threads).c_str(), O_WRONLY | O_CREAT | O_DIRECT | O_CLOEXEC, 0644);
    if (file < 0) fail("the folder's file system has no O_DIRECT: take --dir on a disk");
    for (Index done = t % threads * block; done < bytes / ranks; done += threads * block) {
      if (::pwrite(file, buffer.bytes, at(block), done) != block) fail("cannot write");
    }
    ::fsync(file);
    ::close(file);
  });
}
double raw_read(std::string const& dir, int ranks, int threads, Index bytes) {
  return on_threads(ranks * threads, [&](int t) {
    Aligned buffer;
    int const file = ::open(raw_file(dir, t / threads).c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
    for (Index done = t % threads * block; done < bytes / ranks; done += threads * block) {
      if (::pread(file, buffer.bytes, at(block), done) != block) fail("cannot read");
    }
    ::close(file);
  });
}
/// What as many threads take to copy so many bytes from memory to memory that has been touched.
double copy(int threads, Index bytes) {
  Index const each = bytes / threads;
  Index const part = std::min(each, Index{256} << 20);
  std::vector<std::vector<std::byte>> from(at(threads)), to(at(threads));
  double seconds = 0;
  for (int time = 0; time < 2; ++time) {
    seconds = on_threads(threads, [&](int t) {
      from[at(t)].resize(at(part), std::byte{1});
      to[at(t)] = from[at(t)];
    });
  }
  return seconds * static_cast<double>(each) / static_cast<double>(part);
}
/// Takes the files of a folder out of the system's memory.
void forget(std::string const& dir) {
  for (auto const& entry : std::filesystem::recursive_directory_iterator(dir)) {
    if (!entry.is_regular_file()) continue;
    int const file = ::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
    ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    ::close(file);
  }
}

struct Settings {
  double gib = 3;
  int ranks = 2;
  int rounds = 5;
  std::string dir = ".";
  bool json = false;
};

/// Seconds on the clock, and of processors, all threads together.
struct Spent {
  double seconds = 0;
  double processor = 0;
};
double processor_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  auto const seconds = [](timeval const& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}
template <class F>
Spent spent_by(F f) {
  double const before = processor_seconds();
  auto const start = Clock::now();
  f();
  return {since(start), processor_seconds() - before};
}

Spent median(std::vector<Spent> values) {
  std::ranges::sort(values, {}, &Spent::seconds);
  return values[values.size() / 2];
}

struct Figures {
  Index bytes = 0;
  std::array<std::vector<Spent>, 2> raw_write{}, raw_read{};  // by threads a rank, less 1
  std::vector<Spent> save{}, load{}, load_kept{}, load_new{}, load_twice{}, step{}, step_beside{},
      prepare{}, start{}, complete{}, copy{}, removal{};
};

void run(Settings const& s) {
  bench::Machine const m = bench::Machine::here();
  Figures f;
  std::string const dir = s.dir + "/bench_checkpoint_" + std::to_string(::getpid());
  std::filesystem::create_directories(dir);
  // Weights and two states of 4 bytes each are stored.
  Index const elements = static_cast<Index>(s.gib * 0x1p30) / 12 / 4096 * 4096;
  f.bytes = elements * 12;
  zero::launch<zero::Threads>(s.ranks, [&](auto ranks) {
    bool const first = ranks.rank() == 0;
    using Trainer =
        zero::Trainer<Still, decltype(ranks), zero::AdamW, zero::Policies<zero::Sharded<2>>>;
    std::unique_ptr<Trainer> trainer;
    auto const begin_anew = [&] {
      trainer.reset();  // first: two have no room
      trainer =
          std::make_unique<Trainer>(Still{elements}, ranks, zero::AdamW{}, zero::Sharded<2>{});
    };
    begin_anew();
    auto const timed = [&](std::vector<Spent>& to, auto work) {
      trainer->context().exchange({}, "bench");
      Spent const spent = spent_by([&] {
        work();
        trainer->context().exchange({}, "bench");
      });
      if (first) to.push_back(spent);
    };
    zero::BackgroundSave background;
    timed(f.prepare, [&] { background.prepare(*trainer); });
    trainer->step(0);
    for (int round = 0; round < s.rounds; ++round) {
      for (int n : {1, 2}) {
        if (!first) continue;
        Spent const removal = spent_by([&] { raw_remove(dir, s.ranks); });
        if (round > 0) f.removal.push_back(removal);
        f.raw_write[at(n - 1)].push_back(spent_by([&] { raw_write(dir, s.ranks, n, f.bytes); }));
      }
      // Which takes time as well, and is neither's.
      if (first) std::filesystem::remove_all(dir + "/run");
      timed(f.save, [&] { zero::save(*trainer, dir + "/run"); });
      if (first) {
        forget(dir);
        for (int n : {1, 2})
          f.raw_read[at(n - 1)].push_back(spent_by([&] { raw_read(dir, s.ranks, n, f.bytes); }));
      }
      timed(f.load, [&] { zero::load(*trainer, dir + "/run", {.staging_bytes = f.bytes}); });
      if (first) forget(dir);
      timed(f.load_kept,
            [&] { zero::load(*trainer, dir + "/run", {.staging_memory = &background.memory()}); });
      begin_anew();
      if (first) forget(dir);
      timed(f.load_new, [&] { zero::load(*trainer, dir + "/run", {.staging_bytes = f.bytes}); });
      if (first) forget(dir);
      timed(f.load_twice, [&] { zero::load(*trainer, dir + "/run"); });
      timed(f.step, [&] { trainer->step(0); });
      if (first) f.copy.push_back({copy(s.ranks, f.bytes), 0});
      timed(f.start, [&] { background.start(*trainer, dir + "/run", {.save_total_limit = 1}); });
      timed(f.step_beside, [&] { trainer->step(0); });
      // As a loop polls; the call that gives the checkpoint its name is what a step has to wait
      // for.
      for (bool done = false; !done;) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        Spent const spent = spent_by([&] { done = background.poll().has_value(); });
        if (done && first) f.complete.push_back(spent);
      }
    }
  });
  std::filesystem::remove_all(dir);
  if (!s.json) {
    std::printf("# %s, %d cores, %s, %s, %s, %s, %s\n\n%.2f GiB, %d ranks, %d rounds, medians\n\n",
                m.processor.c_str(), m.cores, m.load_text().c_str(), m.system.c_str(),
                m.compiler.c_str(), m.build.c_str(), m.date.c_str(),
                static_cast<double>(f.bytes) / 0x1p30, s.ranks, s.rounds);
  }
  auto const tell = [&](char const* what, Spent spent, double ceiling, double wanted,
                        char const* of = "of O_DIRECT") {
    auto const [seconds, processor] = spent;
    double const rate = static_cast<double>(f.bytes) / seconds / 1e9;
    if (s.json) {
      zero::JsonLine line;
      line.add("variant", what).add("seconds", seconds).add("processor_seconds", processor);
      if (ceiling > 0) line.add("gigabytes_per_s", rate).add("of_ceiling", ceiling / seconds);
      std::printf("%s\n", line.text().c_str());
    } else {
      std::printf("%-25s %7.3f s, of processors %6.3f s", what, seconds, processor);
      if (ceiling > 0) std::printf(" %6.2f GB/s", rate);
      if (ceiling > 0 && ceiling != seconds) std::printf("  %.2f %s", ceiling / seconds, of);
      if (wanted > 0) std::printf(" (wanted %.2f)", wanted);
      std::printf("\n");
    }
  };
  auto const raw = [&](std::string const& what, std::array<std::vector<Spent>, 2> const& rounds) {
    double best = median(rounds[0]).seconds;
    best = std::min(best, median(rounds[1]).seconds);
    tell((what + ", 1 a rank").c_str(), median(rounds[0]), best, 0, "of the better one");
    tell((what + ", 2 a rank").c_str(), median(rounds[1]), best, 0, "of the better one");
    return best;
  };
  double const write = raw("O_DIRECT write", f.raw_write);
  tell("save", median(f.save), write, 0.9);
  if (!f.removal.empty()) tell("removal of as much", median(f.removal), 0, 0);
  double const read = raw("O_DIRECT read", f.raw_read);
  tell("load, staged", median(f.load), read, 0.9);
  tell("load, in kept memory", median(f.load_kept), read, 0.9);
  tell("load, staged, when new", median(f.load_new), read, 0.9);
  tell("load in one tile", median(f.load_twice), read, 0);
  if (!s.json) std::printf("\nin the background, of as many bytes\n");
  double const copied = median(f.copy).seconds;
  tell("a copy", median(f.copy), copied, 0);
  tell("start of a save", median(f.start), copied, 1, "of the copy");
  tell("prepare, once", median(f.prepare), copied, 0, "of the copy");
  tell("a step", median(f.step), 0, 0);
  tell("a step beside it", median(f.step_beside), 0, 0);
  tell("the last poll", median(f.complete), 0, 0);
}

}  // namespace

int main(int argc, char** argv) {
  Settings s;
  for (int i = 1; i < argc; ++i) {
    std::string const flag = argv[i];
    if (flag == "--help") {
      std::printf(
          "bench_checkpoint: save and load against O_DIRECT of the same bytes in the same run\n\n"
          "  --gib X     bytes of a checkpoint (3); memory takes 5/3 of them\n"
          "  --ranks N   threads (2)\n"
          "  --rounds N  (5)\n"
          "  --dir DIR   on the disk that is measured (.)\n"
          "  --json      a line a variant\n");
      return 0;
    }
    if (flag == "--json") {
      s.json = true;
      continue;
    }
    if (i + 1 == argc) fail("there is no flag " + flag + " without a value, see --help");
    std::string const value = argv[++i];
    double number = 0;
    bool const is_number =
        std::from_chars(value.data(), value.data() + value.size(), number).ec == std::errc();
    if (flag == "--dir") {
      s.dir = value;
    } else if (flag == "--gib" && is_number && number > 0) {
      s.gib = number;
    } else if (flag == "--ranks" && is_number && number >= 1) {
      s.ranks = static_cast<int>(number);
    } else if (flag == "--rounds" && is_number && number >= 1) {
      s.rounds = static_cast<int>(number);
    } else {
      fail("there is no " + flag + " " + value + ", see --help");
    }
  }
  try {
    run(s);
  } catch (std::exception const& e) {
    fail(e.what());
  }
  return 0;
}
