// SPDX-License-Identifier: Apache-2.0
#pragma once
// Times variants of one thing against each other: all are built first, then they run in turn, a
// short while each, round after round, so that whatever else the machine does meets all of them. A
// variant is compared with its peer round by round, and the median is what is told. Yours:
//
//     bench::Harness harness(argc, argv, "mine", "My model at stage 3 against stage 0");
//     harness.add({.name = "stage 0", .ranks = 2}, [](auto communicator, auto measure) {
//       zero::Trainer trainer{Mine{}, communicator, zero::AdamW{}, zero::Sharded<0>{}};
//       Mine::Batch const batch = ...;
//       measure([&] { trainer.step(batch), trainer.synchronize(); });
//     });
//     harness.add({.name = "stage 3", .ranks = 2, .against = "stage 0", .at_most = 1.1}, ...);
//     return harness.run();

#include <zero/launch/threads.hpp>
#include <zero/report/json.hpp>

#include <bench/machine.hpp>
#include <bench/team.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bench {

/// What is timed, and what it is compared with.
struct Variant {
  std::string name;            ///< unique in the bench
  int ranks = 1;               ///< ranks that run it, each on a thread
  std::string against{};       ///< name of its peer or ceiling, added before; empty: it has none
  double at_most = 0;          ///< largest ratio of its time to the peer's that is wanted; 0: any
  double at_most_seconds = 0;  ///< longest time of one iteration that is wanted; 0: any
};

/// The middle of some values, or what lies `part` of the way through them in order.
inline double quantile(std::vector<double> values, double part = 0.5) {
  std::sort(values.begin(), values.end());
  double const place = part * static_cast<double>(values.size() - 1);
  auto const below = static_cast<std::size_t>(place);
  auto const above = std::min(below + 1, values.size() - 1);
  return values[below] + (values[above] - values[below]) * (place - std::floor(place));
}

class Harness {
 public:
  /// @param name of the bench; its program is bench_<name>
  /// @param about one sentence: what is compared with what
  Harness(int argc, char** argv, std::string name, std::string about)
      : name_(std::move(name)), about_(std::move(about)) {
    command_ = "bench_" + name_;
    for (int i = 1; i < argc; ++i) {
      command_ += std::string(" ") + argv[i];
      arguments_.push_back({argv[i]});
    }
    help_ = flag("help", "print this and end");
    json_ = flag("json", "print lines of JSON: first the machine, then each variant");
    check_ = flag("check", "end with 1 where a target is missed");
    rounds_ = number("rounds", 11, "rounds, at least 9", 9);
    milliseconds_ = number("milliseconds", 200, "time of a variant in a round");
  }

  /// A flag of the bench's own, --name N.
  Index number(std::string_view name, Index otherwise, std::string about, Index least = 1) {
    std::string const shown = "--" + std::string(name);
    flags_.push_back({shown + " N", about + " (" + std::to_string(otherwise) + ")"});
    for (std::size_t i = 0; i < arguments_.size(); ++i) {
      if (arguments_[i].text != shown) continue;
      arguments_[i].known = true;
      std::string const text = i + 1 < arguments_.size() ? arguments_[i + 1].text : "";
      if (i + 1 < arguments_.size()) arguments_[i + 1].known = true;
      auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), otherwise);
      bool const whole = error == std::errc{} && end == text.data() + text.size();
      if (whole && otherwise >= least) continue;
      problem_ =
          shown + " takes a number of at least " + std::to_string(least) + ", not '" + text + "'";
    }
    return otherwise;
  }
  /// A flag of the bench's own, --name.
  bool flag(std::string_view name, std::string about) {
    std::string const shown = "--" + std::string(name);
    flags_.push_back({shown, std::move(about)});
    bool found = false;
    for (Argument& argument : arguments_) {
      if (argument.text != shown) continue;
      argument.known = found = true;
    }
    return found;
  }

  /// Adds a variant. Its body runs on every rank, once, in run(): it builds what it needs, then
  /// calls measure(iteration), which runs the iterations that are asked for and returns when all
  /// rounds are over. An iteration ends when its work is done (synchronize).
  /// @param body (communicator, measure), or (measure) for what uses no communicator
  template <class Body>
  void add(Variant variant, Body body) {
    for (Entry const& e : entries_) {
      if (e.variant.name == variant.name)
        problem_ = "two variants are named '" + variant.name + "'";
    }
    constexpr bool alone = std::invocable<Body const&, Measure>;
    if (alone && variant.ranks != 1)
      problem_ = "'" + variant.name + "' takes no communicator, so it has one rank";
    auto const start = [body](Team& team) {
      if constexpr (alone) {
        body(Measure(team, 0));
      } else {
        zero::launch<zero::Threads>(team.ranks(), [&](auto communicator) {
          try {
            body(communicator, Measure(team, communicator.rank()));
          } catch (...) {
            team.fail(std::current_exception());
            throw;
          }
        });
      }
    };
    entries_.push_back({std::move(variant), start});
  }

  /// Runs everything and prints. Returns what main should: 0, 1 when a variant fails or, with
  /// --check, misses its target, 2 for a wrong command line.
  int run() {
    if (help_) return print_help();
    for (Argument const& argument : arguments_) {
      if (!argument.known && problem_.empty())
        problem_ = "there is no flag '" + argument.text + "'; --help lists them";
    }
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (!entries_[i].variant.against.empty() && peer(i) == i)
        problem_ = "no variant '" + entries_[i].variant.against + "' was added before '" +
                   entries_[i].variant.name + "'";
    }
    if (!problem_.empty()) {
      std::fprintf(stderr, "%s: %s\n", name_.c_str(), problem_.c_str());
      return 2;
    }
    try {
      Machine const machine = Machine::here();
      if (!json_) print_head(machine);
      measure();
      if (json_) {
        print_json(machine);
      } else {
        print_table();
      }
    } catch (std::exception const& e) {
      std::fprintf(stderr, "%s: %s\n", name_.c_str(), e.what());
      return 1;
    }
    bool const met = std::all_of(entries_.begin(), entries_.end(),
                                 [&](Entry const& e) { return missed(e).empty(); });
    return check_ && !met ? 1 : 0;
  }

 private:
  struct Argument {
    std::string text;
    bool known = false;
  };
  struct Flag {
    std::string name;
    std::string about;
  };
  struct Entry {
    Variant variant;
    std::function<void(Team&)> start;
    Index iterations = 1;
    std::vector<double> seconds{};  // of one iteration, in each round
    std::vector<double> ratios{};   // to the peer's, in each round
    Facts facts{};
  };

  std::size_t peer(std::size_t i) const {
    for (std::size_t j = 0; j < i; ++j) {
      if (entries_[j].variant.name == entries_[i].variant.against) return j;
    }
    return i;
  }

  /// The peer of the peer, and so on, of variant i.
  std::size_t root(std::size_t i) const {
    while (peer(i) != i) i = peer(i);
    return i;
  }

  void measure() {
    std::vector<std::unique_ptr<RunningTeam>> teams;
    std::vector<Index> wanted;
    for (Entry const& e : entries_) {
      teams.push_back(std::make_unique<RunningTeam>(e.variant.name, e.variant.ranks, e.start));
      teams.back()->run(2);  // the first iterations allocate and fill caches
      double const once = std::max(teams.back()->run(2) / 2, 1e-9);
      wanted.push_back(static_cast<Index>(static_cast<double>(milliseconds_) / 1e3 / once));
    }
    // Who is compared with one peer runs as often as the slowest of them, so that a training ends
    // at the same step in each.
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      Index& shared = wanted[root(i)];
      shared = std::max<Index>(std::min(shared, wanted[i]), 1);
    }
    for (std::size_t i = 0; i < entries_.size(); ++i) entries_[i].iterations = wanted[root(i)];
    for (Index round = 0; round < rounds_; ++round) {
      for (std::size_t k = 0; k < entries_.size(); ++k) {
        // Each round starts elsewhere, every other one runs backwards: who follows whom changes.
        std::size_t const from_here = (k + static_cast<std::size_t>(round)) % entries_.size();
        std::size_t const i = round % 2 == 0 ? from_here : entries_.size() - 1 - from_here;
        Entry& e = entries_[i];
        e.seconds.push_back(teams[i]->run(e.iterations) / static_cast<double>(e.iterations));
      }
      for (std::size_t i = 0; i < entries_.size(); ++i)
        entries_[i].ratios.push_back(entries_[i].seconds.back() / entries_[peer(i)].seconds.back());
    }
    for (std::size_t i = 0; i < entries_.size(); ++i) entries_[i].facts = teams[i]->finish();
  }

  /// What of an entry's targets was not met, in words; empty when nothing was missed.
  static std::string missed(Entry const& e) {
    std::string text;
    if (e.variant.at_most > 0 && quantile(e.ratios) > e.variant.at_most)
      text += "ratio " + zero::fixed_text(quantile(e.ratios), 3) + " is above " +
              zero::fixed_text(e.variant.at_most, 2);
    if (e.variant.at_most_seconds > 0 && quantile(e.seconds) > e.variant.at_most_seconds)
      text += std::string(text.empty() ? "" : ", ") + time_text(quantile(e.seconds)) +
              " is above " + time_text(e.variant.at_most_seconds);
    return text;
  }
  static bool has_target(Entry const& e) {
    return e.variant.at_most > 0 || e.variant.at_most_seconds > 0;
  }

  int print_help() const {
    std::printf("%s. Median over rounds in which all variants run in turn.\n\nbench_%s [flags]\n",
                about_.c_str(), name_.c_str());
    for (Flag const& f : flags_) std::printf("  %-20s %s\n", f.name.c_str(), f.about.c_str());
    std::printf("\nvariants\n");
    for (Entry const& e : entries_) {
      std::printf("  %s", e.variant.name.c_str());
      if (!e.variant.against.empty()) std::printf(", against %s", e.variant.against.c_str());
      std::printf("\n");
    }
    return 0;
  }

  // The text is Markdown: it can be kept as a report as it is.
  void print_head(Machine const& m) const {
    std::printf("# %s\n\n%s.\n\n", name_.c_str(), about_.c_str());
    std::printf("- %s, `%s`\n", m.date.c_str(), command_.c_str());
    std::printf("- %s, %d cores, %s\n", m.processor.c_str(), m.cores, m.load_text().c_str());
    std::printf("- %s; %s, %s\n", m.system.c_str(), m.compiler.c_str(), m.build.c_str());
    std::printf("- %d rounds of about %d ms a variant, all variants in turn\n\n",
                static_cast<int>(rounds_), static_cast<int>(milliseconds_));
    std::fflush(stdout);
  }

  void print_table() const {
    std::printf(
        "| variant | ranks | median | best | peer | ratio (quartiles) | share | target |\n");
    std::printf("|---|---|---|---|---|---|---|---|\n");
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      Entry const& e = entries_[i];
      std::printf("| %s | %d | %s | %s | ", e.variant.name.c_str(), e.variant.ranks,
                  time_text(quantile(e.seconds)).c_str(),
                  time_text(quantile(e.seconds, 0)).c_str());
      if (peer(i) == i) {
        std::printf("- | - | - | ");
      } else {
        double const ratio = quantile(e.ratios);
        std::printf("%s | %.3f (%.3f to %.3f) | %.1f %% | ", e.variant.against.c_str(), ratio,
                    quantile(e.ratios, 0.25), quantile(e.ratios, 0.75), 100 / ratio);
      }
      std::string wanted;
      if (e.variant.at_most > 0)
        wanted += "at most " + zero::fixed_text(e.variant.at_most, 2) + ", ";
      if (e.variant.at_most_seconds > 0)
        wanted += "at most " + time_text(e.variant.at_most_seconds) + ", ";
      std::printf("%s |\n", !has_target(e)      ? "-"
                            : missed(e).empty() ? (wanted + "met").c_str()
                                                : (wanted + "MISSED").c_str());
    }
    std::printf(
        "\nmedian and best: time of one iteration; ratio: to the peer's time in the same "
        "round; share: of the peer's speed.\n");
    bool first = true;
    for (Entry const& e : entries_) {
      if (e.facts.empty()) continue;
      std::printf("%s- %s:", first ? "\n" : "", e.variant.name.c_str());
      first = false;
      for (auto const& [name, value] : e.facts)
        std::printf(" %s %s%s", name.c_str(), std::visit(NumberText{}, value).c_str(),
                    &name == &e.facts.back().first ? "\n" : ",");
    }
  }

  void print_json(Machine const& m) const {
    std::printf("%s\n", zero::JsonLine()
                            .add("bench", name_)
                            .add("date", m.date)
                            .add("command", command_)
                            .add("processor", m.processor)
                            .add("cores", m.cores)
                            .add("load", m.load)
                            .add("system", m.system)
                            .add("compiler", m.compiler)
                            .add("build", m.build)
                            .add("rounds", rounds_)
                            .text()
                            .c_str());
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      Entry const& e = entries_[i];
      zero::JsonLine line;
      line.add("bench", name_).add("variant", e.variant.name).add("ranks", e.variant.ranks);
      line.add("median_s", quantile(e.seconds)).add("best_s", quantile(e.seconds, 0));
      line.add("iterations", e.iterations);
      if (peer(i) != i) {
        line.add("peer", e.variant.against).add("ratio", quantile(e.ratios));
        line.add("ratio_low", quantile(e.ratios, 0.25));
        line.add("ratio_high", quantile(e.ratios, 0.75)).add("share", 1 / quantile(e.ratios));
      }
      if (e.variant.at_most > 0) line.add("at_most", e.variant.at_most);
      if (e.variant.at_most_seconds > 0) line.add("at_most_s", e.variant.at_most_seconds);
      if (has_target(e)) line.add("met", missed(e).empty());
      for (auto const& [name, value] : e.facts)
        std::visit([&, &key = name](auto number) { line.add(key, number); }, value);
      std::printf("%s\n", line.text().c_str());
    }
  }

  struct NumberText {
    std::string operator()(Index count) const { return zero::grouped_text(count); }
    std::string operator()(double value) const {
      char text[32];
      std::snprintf(text, sizeof(text), "%.7g", value);
      return text;
    }
  };
  static std::string time_text(double seconds) {
    if (seconds >= 1) return zero::fixed_text(seconds, 3) + " s";
    if (seconds >= 1e-3) return zero::fixed_text(seconds * 1e3, 3) + " ms";
    return zero::fixed_text(seconds * 1e6, 2) + " us";
  }

  std::string name_;
  std::string about_;
  std::string command_;
  std::string problem_;
  std::vector<Argument> arguments_;
  std::vector<Flag> flags_;
  std::vector<Entry> entries_;
  bool help_ = false;
  bool json_ = false;
  bool check_ = false;
  Index rounds_ = 0;
  Index milliseconds_ = 0;
};

}  // namespace bench
