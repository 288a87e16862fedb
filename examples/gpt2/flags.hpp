// SPDX-License-Identifier: Apache-2.0
#pragma once
// The command line of gpt2: one table of flags, from which arguments are read and --help is
// written. What is wrong is refused in one sentence before anything else happens.

#include <zero/core/error.hpp>
#include <zero/report/number_text.hpp>

#include <gpt2/settings.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace gpt2 {

/// A command line that cannot be run; the text is one sentence for the user.
struct WrongFlag : zero::InvalidArgument {
  using zero::InvalidArgument::InvalidArgument;
};

/// One flag: `--name VALUE`, or `--name` alone where `value` is empty.
struct Flag {
  std::string name;
  std::string value;  ///< how --help calls the value
  std::string help;
  std::function<void(Settings&, std::string const&)> read;  ///< throws WrongFlag
};

namespace detail {

[[noreturn]] inline void refuse(std::string const& sentence) {
  throw WrongFlag("gpt2: " + sentence);
}

inline std::string quoted(std::string const& text) { return "'" + text + "'"; }

/// All of `text` as a number of type T in [low, high].
template <class T>
T number(std::string const& flag, std::string const& text, T low, T high,
         std::string const& wanted) {
  T value{};
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  bool const whole_text = error == std::errc{} && end == text.data() + text.size();
  if (!whole_text || !(value >= low && value <= high)) {
    refuse(flag + " wants " + wanted + ", not " + quoted(text));
  }
  return value;
}

template <class T>
Flag whole(std::string name, std::string help, T low, T high,
           std::function<void(Settings&, T)> set) {
  auto read = [=](Settings& settings, std::string const& text) {
    std::string const wanted =
        "a whole number from " + std::to_string(low) + " to " + std::to_string(high);
    set(settings, number<T>(name, text, low, high, wanted));
  };
  return {name, "N", std::move(help), read};
}

inline Flag real(std::string name, std::string help, double low, double high,
                 std::function<void(Settings&, double)> set) {
  auto read = [=](Settings& settings, std::string const& text) {
    auto const text_of = [](double x) {
      return x == std::floor(x) ? zero::fixed_text(x, 0) : zero::shortest_text(x);
    };
    set(settings, number<double>(name, text, low, high,
                                 "a number from " + text_of(low) + " to " + text_of(high)));
  };
  return {name, "X", std::move(help), read};
}

template <class T>
Flag choice(std::string name, std::string help, std::vector<std::pair<std::string, T>> values,
            std::function<void(Settings&, T)> set) {
  std::string all;
  for (auto const& [word, value] : values) all += (all.empty() ? "" : "|") + word;
  auto read = [=](Settings& settings, std::string const& text) {
    for (auto const& [word, value] : values) {
      if (text == word) return set(settings, value);
    }
    refuse(name + " wants " + all + ", not " + quoted(text));
  };
  return {name, all, std::move(help), read};
}

/// The sizes that GPT-2 was published in, with the vocabulary padded to a multiple of 64.
inline std::vector<std::pair<std::string, Configuration>> published_sizes() {
  auto const of = [](Index layers, Index width, Index heads) {
    return Configuration{
        .vocabulary = 50304, .context = 1024, .width = width, .heads = heads, .layers = layers};
  };
  return {{"124m", of(12, 768, 12)},
          {"350m", of(24, 1024, 16)},
          {"774m", of(36, 1280, 20)},
          {"1.5b", of(48, 1600, 25)}};
}

inline Flag file(std::string name, std::string value, std::string help,
                 std::string Settings::*where) {
  auto read = [=](Settings& settings, std::string const& text) {
    if (text.empty()) refuse(name + " wants a file");
    settings.*where = text;
  };
  return {name, std::move(value), std::move(help), read};
}

}  // namespace detail

/// Every flag of gpt2. A flag that is added here is read, checked and listed.
inline std::vector<Flag> const& all_flags() {
  using detail::choice;
  using detail::file;
  using detail::real;
  using detail::whole;
  using S = Settings;
  static std::vector<Flag> const flags{
      choice<On>("--device", "what computes: the host, or a GPU a rank (or shared by several)",
                 {{"host", On::host}, {"cuda", On::cuda}}, [](S& s, On v) { s.on = v; }),
      whole<int>("--stage", "ZeRO stage", 0, 3, [](S& s, int v) { s.stage = v; }),
      whole<int>("--ranks", "ranks, as threads; under mpirun or srun their number counts", 1, 1024,
                 [](S& s, int v) {
                   s.ranks = v;
                   s.ranks_given = true;
                 }),
      whole<Index>("--steps", "steps of the whole schedule; its first tenth warms up", 1,
                   1'000'000'000, [](S& s, Index v) { s.steps = v; }),
      whole<Index>("--stop-after", "stop after so many of the steps", 1, 1'000'000'000,
                   [](S& s, Index v) { s.stop_after = v; }),
      whole<Index>("--batch", "samples of one rank's micro-batch", 1, 65536,
                   [](S& s, Index v) { s.batch = v; }),
      whole<Index>("--accumulation", "micro-batches of a step", 1, 65536,
                   [](S& s, Index v) { s.accumulation = v; }),
      choice<zero::Reduction>(
          "--reduce",
          "when gradients are summed over ranks; else stages 0-1 at the boundary, 2-3 a "
          "micro-batch",
          {{"boundary", zero::Reduction::boundary}, {"micro-batch", zero::Reduction::micro_batch}},
          [](S& s, zero::Reduction v) { s.reduction = v; }),
      choice<Precision>(
          "--precision", "type of parameters and gradients",
          {{"fp32", Precision::fp32}, {"bf16", Precision::bf16}, {"fp16", Precision::fp16}},
          [](S& s, Precision v) { s.precision = v; }),
      choice<Configuration>("--size", "GPT-2's own: layers, width, heads, context, vocabulary",
                            detail::published_sizes(), [](S& s, Configuration v) { s.size = v; }),
      whole<Index>("--layers", "transformer blocks", 1, 1000,
                   [](S& s, Index v) { s.size.layers = v; }),
      whole<Index>("--width", "of the residual stream", 1, 65536,
                   [](S& s, Index v) { s.size.width = v; }),
      whole<Index>("--heads", "of attention; they divide the width", 1, 65536,
                   [](S& s, Index v) { s.size.heads = v; }),
      whole<Index>("--context", "tokens (bytes) of a sample", 1, 65536,
                   [](S& s, Index v) { s.size.context = v; }),
      whole<std::uint64_t>("--seed", "of initial values, order of samples and generated text", 0,
                           std::numeric_limits<std::uint64_t>::max(),
                           [](S& s, std::uint64_t v) { s.seed = v; }),
      {"--lr", "X", "learning rate after the warm-up; else one that suits the optimizer",
       [](S& s, std::string const& text) {
         s.learning_rate = detail::number<double>("--lr", text, 0, 1000, "a number from 0 to 1000");
       }},
      choice<Scheduler>("--scheduler",
                        "course of the learning rate; linear if not given. one-cycle leaves the "
                        "momentum alone, which DeepSpeed's OneCycle cycles unless told not to",
                        {{"constant", Scheduler::constant},
                         {"constant-with-warmup", Scheduler::constant_with_warmup},
                         {"linear", Scheduler::linear},
                         {"cosine", Scheduler::cosine},
                         {"polynomial", Scheduler::polynomial},
                         {"warmup", Scheduler::warmup},
                         {"warmup-decay", Scheduler::warmup_decay},
                         {"warmup-cosine", Scheduler::warmup_cosine},
                         {"one-cycle", Scheduler::one_cycle},
                         {"range-test", Scheduler::range_test}},
                        [](S& s, Scheduler v) { s.rate.scheduler = v; }),
      whole<Index>("--warmup", "steps of warm-up, rise or stretch; else a tenth of all", 0,
                   1'000'000'000, [](S& s, Index v) { s.rate.warmup = v; }),
      choice<zero::Ramp>("--warmup-type", "how warmup, warmup-decay and warmup-cosine rise",
                         {{"log", zero::Ramp::logarithmic}, {"linear", zero::Ramp::linear}},
                         [](S& s, zero::Ramp v) { s.rate.ramp = v; }),
      real("--start", "rate at their start, or at the foot of one-cycle, of --lr", 0, 1,
           [](S& s, double v) { s.rate.start = v; }),
      real("--end", "rate at the end of polynomial and warmup-cosine, of --lr", 0, 0.999,
           [](S& s, double v) { s.rate.end = v; }),
      real("--power", "of polynomial", 0, 100, [](S& s, double v) { s.rate.power = v; }),
      real("--cycles", "of cosine", 0, 1000, [](S& s, double v) { s.rate.cycles = v; }),
      real("--growth", "of range-test, a stretch", 0, 1000,
           [](S& s, double v) { s.rate.growth = v; }),
      {"--shifted", "", "leave the idle start of a warm-up out",
       [](S& s, std::string const&) { s.rate.shifted = true; }},
      {"--loss-scale", "dynamic|X", "what the loss is multiplied by; fp16: dynamic if not given",
       [](S& s, std::string const& text) {
         s.loss_scale.dynamic = text == "dynamic";
         if (s.loss_scale.dynamic) return;
         s.loss_scale.fixed = static_cast<float>(detail::number<double>(
             "--loss-scale", text, 0x1p-24, 0x1p100, "dynamic or a number from 2^-24 to 2^100"));
       }},
      whole<int>("--loss-scale-power", "a dynamic one starts at 2 to this", 0, 100,
                 [](S& s, int v) { s.loss_scale.power = v; }),
      whole<Index>("--loss-scale-window", "good steps after which it doubles", 1, 1'000'000'000,
                   [](S& s, Index v) { s.loss_scale.window = v; }),
      whole<Index>("--hysteresis", "overflows until it halves", 1, 1'000'000'000,
                   [](S& s, Index v) { s.loss_scale.hysteresis = v; }),
      choice<OptimizerName>("--optimizer", "what makes an update of a gradient",
                            {{"adamw", OptimizerName::adamw},
                             {"adam", OptimizerName::adam},
                             {"lamb", OptimizerName::lamb},
                             {"lion", OptimizerName::lion},
                             {"adagrad", OptimizerName::adagrad},
                             {"sgd", OptimizerName::sgd}},
                            [](S& s, OptimizerName v) { s.optimizer = v; }),
      whole<int>("--prefetch", "visits by which stage 3 gathers ahead", 0, 64,
                 [](S& s, int v) { s.prefetch = v; }),
      whole<Index>(
          "--bucket",
          "elements up to which neighbouring units are reduced as one group; 0: each alone", 0,
          Index{1} << 40, [](S& s, Index v) { s.bucket = v; }),
      choice<zero::Tier>(
          "--offload-optimizer", "where optimizer state lies, stages 1 to 3",
          {{"none", zero::Tier::device}, {"host", zero::Tier::host}, {"nvme", zero::Tier::nvme}},
          [](S& s, zero::Tier v) { s.optimizer_tier = v; }),
      choice<zero::Tier>(
          "--offload-parameters", "where slices of parameters lie, stage 3",
          {{"none", zero::Tier::device}, {"host", zero::Tier::host}, {"nvme", zero::Tier::nvme}},
          [](S& s, zero::Tier v) { s.parameter_tier = v; }),
      {"--nvme-path", "DIR", "folder for state on NVMe",
       [](S& s, std::string const& text) { s.offload.nvme_path = text; }},
      choice<zero::MemoryLock>("--pin-memory", "whether host memory of offloaded state is locked",
                               {{"no", zero::MemoryLock::none},
                                {"try", zero::MemoryLock::attempt},
                                {"yes", zero::MemoryLock::required}},
                               [](S& s, zero::MemoryLock v) { s.offload.pin_memory = v; }),
      whole<Index>("--tile",
                   "elements of offloaded state that are updated at once (2^24, or more where "
                   "host memory keeps much)",
                   1, Index{1} << 40, [](S& s, Index v) { s.offload.tile_elements = v; }),
      choice<FilesBy>("--files-by",
                      "what reads and writes state on NVMe; either: io_uring where it can",
                      {{"either", FilesBy::either},
                       {"io_uring", FilesBy::io_uring},
                       {"threads", FilesBy::threads}},
                      [](S& s, FilesBy v) { s.files_by = v; }),
      file("--text", "FILE", "text to train on, its bytes are tokens; else the fortunes",
           &Settings::text),
      file("--tokens", "FILE.bin", "tokens to train on, in llm.c's format, in place of a text",
           &Settings::tokens),
      choice<Recompute>(
          "--recompute", "on GPUs: what the backward pass makes again, to need less memory",
          {{"none", Recompute::none}, {"cheap", Recompute::cheap}, {"block", Recompute::block}},
          [](S& s, Recompute v) { s.recompute = v; }),
      file("--metrics", "FILE.jsonl|.csv", "write a row a step", &Settings::metrics),
      file("--config", "FILE.json", "DeepSpeed's configuration in place of flags",
           &Settings::config),
      file("--arguments", "FILE.json", "training arguments, which fill its \"auto\"",
           &Settings::arguments),
      file("--save", "DIR",
           "write checkpoints, the last one at the end, and `latest`, which names it",
           &Settings::save),
      whole<Index>("--save-every", "steps between checkpoints", 1, 1'000'000'000,
                   [](S& s, Index v) { s.save_every = v; }),
      whole<Index>("--save-total-limit", "checkpoints that stay, beside the best", 1, 1'000'000'000,
                   [](S& s, Index v) { s.save_total_limit = v; }),
      file("--resume", "DIR", "go on from the checkpoint there, or from what `latest` there names",
           &Settings::resume),
      whole<Index>("--eval-steps", "steps between evaluations, each with a checkpoint in --save", 1,
                   1'000'000'000, [](S& s, Index v) { s.eval_steps = v; }),
      {"--load-best-model-at-end", "", "end with the checkpoint of the least validation loss",
       [](S& s, std::string const&) { s.load_best_model_at_end = true; }},
      {"--save-only-model", "", "at evaluations, write models without the optimizer's state",
       [](S& s, std::string const&) { s.save_only_model = true; }},
      file("--import", "DIR", "begin with the weights of a GPT-2 of transformers",
           &Settings::from_model),
      file("--export", "DIR", "end with writing the model as transformers reads it",
           &Settings::write_model),
      {"--json", "", "end with one line of JSON", [](S& s, std::string const&) { s.json = true; }},
      {"--help", "", "list the flags", [](S& s, std::string const&) { s.help = true; }},
  };
  return flags;
}

namespace detail {

/// `text` behind what stands on the last line of `page`, in lines of at most 96 columns that begin
/// at `column`; a line may end at a space and after a '|'.
inline void append_folded(std::string& page, std::string_view text, std::size_t column) {
  constexpr std::size_t widest = 96;
  std::size_t used = page.size() - (page.rfind('\n') + 1);
  while (!text.empty()) {
    std::size_t const length = std::min(text.find_first_of(" |"), text.size() - 1) + 1;
    std::size_t const visible = length - (text[length - 1] == ' ' ? 1 : 0);
    if (used + visible > widest && used > column) {
      if (page.back() == ' ') page.pop_back();
      page.append("\n").append(column, ' ');
      used = column;
    }
    page += text.substr(0, length);
    used += length;
    text.remove_prefix(length);
  }
}

}  // namespace detail

/// What --help prints.
inline std::string help_text() {
  std::string text =
      "gpt2: trains a GPT-2 on text, its training state sharded over ranks (ZeRO stages 0 to "
      "3).\n\n";
  constexpr std::size_t column = 30;
  for (Flag const& flag : all_flags()) {
    std::string left = "  " + flag.name + " ";
    detail::append_folded(left, flag.value, left.size());
    if (left.size() + 2 > column) left += "\n";
    left.resize(left.back() == '\n' ? left.size() + column : column, ' ');
    text += left;
    detail::append_folded(text, flag.help, column);
    text += "\n";
  }
  return text;
}

/// @throws WrongFlag for settings that are possible each and impossible together
inline void check(Settings const& s) {
  using detail::refuse;
  auto const n = [](Index value) { return std::to_string(value); };
  if (s.size.width % s.size.heads != 0) {
    refuse("--heads " + n(s.size.heads) + " does not divide --width " + n(s.size.width));
  }
  if (s.stop_after && *s.stop_after > s.steps) {
    refuse("--stop-after " + n(*s.stop_after) + " is more than --steps " + n(s.steps));
  }
  if (s.batch * s.size.context > std::numeric_limits<std::int32_t>::max()) {
    refuse("--batch " + n(s.batch) + " times --context " + n(s.size.context) +
           " is more tokens than a matrix of BLAS has rows, 2147483647");
  }
  RateSettings const& r = s.rate;
  auto const only = [&](char const* flag, bool given, std::initializer_list<Scheduler> users) {
    if (given && std::ranges::find(users, r.scheduler) == users.end())
      refuse(std::string(flag) + " is not for this --scheduler, see --help");
  };
  using enum Scheduler;
  only("--warmup", r.warmup.has_value(),
       {constant_with_warmup, linear, cosine, polynomial, warmup, warmup_decay, warmup_cosine,
        one_cycle, range_test});
  only("--warmup-type", r.ramp.has_value(), {warmup, warmup_decay, warmup_cosine});
  only("--start", r.start.has_value(), {warmup, warmup_decay, warmup_cosine, one_cycle});
  only("--end", r.end.has_value(), {polynomial, warmup_cosine});
  only("--power", r.power.has_value(), {polynomial});
  only("--cycles", r.cycles.has_value(), {cosine});
  only("--growth", r.growth.has_value(), {range_test});
  only("--shifted", r.shifted,
       {constant_with_warmup, linear, cosine, polynomial, warmup, warmup_decay, warmup_cosine});
  LossScaleSettings const& l = s.loss_scale;
  bool const moves = l.dynamic || (s.precision == Precision::fp16 && !l.fixed);
  if ((l.power || l.window || l.hysteresis) && !moves) {
    refuse(
        "--loss-scale-power, --loss-scale-window and --hysteresis are for a dynamic scale: "
        "--loss-scale dynamic, or --precision fp16 without a fixed one");
  }
  if (s.offloads() && s.stage == 0)
    refuse("--offload-optimizer and --offload-parameters need --stage 1, 2 or 3");
  if (s.parameter_tier != zero::Tier::device && s.stage < 3)
    refuse("--offload-parameters needs --stage 3");
  bool const folder = !s.offload.nvme_path.empty() ||
                      (s.configured && !s.configured->options.offload.nvme_path.empty());
  if (s.has_files() && !folder) refuse("offload to nvme wants --nvme-path");
  if (!s.has_files() && s.files_by != FilesBy::either) refuse("--files-by is for state on NVMe");
  bool const adam = s.configured
                        ? std::holds_alternative<zero::AdamW>(s.configured->optimizer) ||
                              std::holds_alternative<zero::Adam>(s.configured->optimizer)
                        : s.optimizer == OptimizerName::adamw || s.optimizer == OptimizerName::adam;
  if (s.offloads() && !adam)
    refuse("this program compiles offloaded state for the optimizers AdamW and Adam alone");
  bool const gathers = !s.configured || s.configured->gather_16bit_weights_on_model_save;
  if (s.stage == 3 && !gathers && (!s.write_model.empty() || s.save_only_model)) {
    refuse(std::string(s.write_model.empty() ? "--save-only-model" : "--export") +
           " at stage 3: zero_optimization.stage3_gather_16bit_weights_on_model_save is false in "
           "the configuration, and whole tensors are gathered only where it is true");
  }
  if (!s.metrics.empty() && !s.metrics.ends_with(".jsonl") && !s.metrics.ends_with(".csv")) {
    refuse("--metrics wants a file that ends in .jsonl or .csv, not " + detail::quoted(s.metrics));
  }
}

/// @throws WrongFlag for flags of checkpoints that are impossible together
inline void check_checkpoints(Settings const& s) {
  using detail::refuse;
  if (s.save.empty()) {
    for (auto const& [flag, given] : {std::pair{"--save-every", s.save_every.has_value()},
                                      {"--save-total-limit", s.save_total_limit.has_value()},
                                      {"--eval-steps", s.eval_steps.has_value()},
                                      {"--save-only-model", s.save_only_model},
                                      {"--load-best-model-at-end", s.load_best_model_at_end}}) {
      if (given) refuse(std::string(flag) + " is for checkpoints: --save says where they stand");
    }
  }
  if ((s.load_best_model_at_end || s.save_only_model) && !s.eval_steps)
    refuse("--load-best-model-at-end and --save-only-model want --eval-steps");
  if (s.eval_steps && s.save_every)
    refuse("--save-every beside --eval-steps, which saves at every evaluation");
  if (s.save_only_model && s.load_best_model_at_end) {
    refuse(
        "--save-only-model with --load-best-model-at-end: a model without the optimizer's state "
        "cannot be loaded at the end");
  }
  if (!s.resume.empty() && !s.from_model.empty())
    refuse("--import begins a run, and --resume goes on with one: take one of them");
}

/// Reads `--flag VALUE` and `--flag=VALUE`.
/// @param arguments without the program's name
/// @throws WrongFlag in one sentence: unknown, given twice, without its value or with one it has
/// not, a value that is
///   none, settings that are impossible together
inline Settings read_flags(std::span<char const* const> arguments) {
  using detail::refuse;
  Settings settings;
  std::vector<std::string> seen;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string const argument = arguments[i];
    std::size_t const equals = argument.find('=');
    std::string const name = argument.substr(0, equals);
    auto const flag = std::ranges::find(all_flags(), name, &Flag::name);
    if (flag == all_flags().end())
      refuse("there is no flag " + detail::quoted(name) + ", see --help");
    if (std::ranges::find(seen, name) != seen.end()) refuse(name + " is given twice");
    seen.push_back(name);
    std::string value;
    if (flag->value.empty()) {
      if (equals != std::string::npos) refuse(name + " takes no value");
    } else if (equals != std::string::npos) {
      value = argument.substr(equals + 1);
    } else if (i + 1 < arguments.size() && !std::string_view(arguments[i + 1]).starts_with("--")) {
      value = arguments[++i];
    } else {
      refuse(name + " wants a value: " + flag->value);
    }
    flag->read(settings, value);
  }
  auto const given = [&](char const* name) {
    return std::ranges::find(seen, std::string(name)) != seen.end();
  };
  for (char const* part : {"--layers", "--width", "--heads", "--context"}) {
    if (!settings.help && given("--size") && given(part))
      refuse(std::string("--size says what ") + part + " says: leave one of them out");
  }
  if (!settings.help && given("--tokens") && given("--text"))
    refuse("--tokens and --text both say what to train on: leave one of them out");
  settings.given = std::move(seen);
  if (!settings.help) {
    check(settings);
    check_checkpoints(settings);
  }
  return settings;
}

}  // namespace gpt2
