// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <gpt2/flags.hpp>
#include <gpt2/optimizer.hpp>
#include <gpt2/preflight.hpp>
#include <gpt2/rate.hpp>

#include <concepts>
#include <sstream>
#include <string>
#include <vector>

namespace {

gpt2::Settings read(std::vector<char const*> const& arguments) {
  return gpt2::read_flags(arguments);
}

void refused(std::vector<char const*> const& arguments, std::string const& sentence) {
  INFO(sentence);
  CHECK_THROWS_WITH_AS(read(arguments), ("gpt2: " + sentence).c_str(), gpt2::WrongFlag);
}

TEST_CASE("no flag is the default run: stage 3, four ranks, bf16, one micro-batch a step") {
  auto const s = read({});
  CHECK(s.stage == 3);
  CHECK(s.ranks == 4);
  CHECK(s.precision == gpt2::Precision::bf16);
  CHECK(s.accumulation == 1);
  CHECK_FALSE(s.reduction.has_value());
  CHECK(s.prefetch == 1);
  CHECK(s.bucket == 0);
  CHECK(s.last_step() == s.steps);
  CHECK(s.warm_up() == s.steps / 10);
  CHECK_FALSE(s.json);
  CHECK_FALSE(s.help);
}

TEST_CASE("no flag is AdamW, a norm clipped to 1, and a rate that warms up and decays") {
  auto const s = read({});
  CHECK(gpt2::options_of(s).clip == 1.0f);
  CHECK(gpt2::options_of(s).accumulation == 1);
  bool is_adamw = false;
  zero::LearningRate schedule;
  double rate = 0;
  gpt2::with_optimizer(s, [&]<class O>(O const& optimizer) {
    is_adamw = std::same_as<O, zero::AdamW>;
    schedule = optimizer.schedule;
    rate = static_cast<double>(optimizer.lr);
  });
  CHECK(is_adamw);
  CHECK(rate == doctest::Approx(6e-3));
  // 800 steps: the first 80 rise from 0, the other 720 fall to 0.
  REQUIRE(s.steps == 800);
  CHECK(schedule.factor(1) == 0);
  CHECK(schedule.factor(41) == 0.5);   // after 40 of 80
  CHECK(schedule.factor(81) == 1);     // the peak
  CHECK(schedule.factor(441) == 0.5);  // after 360 of 720
  CHECK(schedule.factor(801) == 0);
}

TEST_CASE("every flag sets what it names") {
  auto const s = read({"--stage",        "2",
                       "--ranks",        "3",
                       "--steps",        "50",
                       "--stop-after",   "7",
                       "--batch",        "5",
                       "--accumulation", "6",
                       "--reduce",       "boundary",
                       "--precision",    "fp32",
                       "--layers",       "9",
                       "--width",        "60",
                       "--heads",        "12",
                       "--context",      "33",
                       "--seed",         "18446744073709551615",
                       "--lr",           "2.5e-4",
                       "--prefetch",     "0",
                       "--bucket",       "1000000",
                       "--optimizer",    "lamb",
                       "--text",         "a b.txt",
                       "--metrics",      "out.csv",
                       "--json"});
  CHECK(s.stage == 2);
  CHECK(s.ranks == 3);
  CHECK(s.steps == 50);
  CHECK(s.last_step() == 7);
  CHECK(s.warm_up() == 5);
  CHECK(s.batch == 5);
  CHECK(s.accumulation == 6);
  CHECK(s.reduction == zero::Reduction::boundary);
  CHECK(s.precision == gpt2::Precision::fp32);
  CHECK(s.size.layers == 9);
  CHECK(s.size.width == 60);
  CHECK(s.size.heads == 12);
  CHECK(s.size.context == 33);
  CHECK(s.seed == 18446744073709551615u);
  CHECK(s.learning_rate == 2.5e-4);
  CHECK(s.optimizer == gpt2::OptimizerName::lamb);
  CHECK(!read({}).learning_rate);
  CHECK(s.prefetch == 0);
  CHECK(s.bucket == 1000000);
  CHECK(s.text == "a b.txt");
  CHECK(s.metrics == "out.csv");
  CHECK(s.json);
  CHECK(s.tokens_a_step() == 5 * 33 * 6 * 3);
  CHECK(read({"--reduce=micro-batch"}).reduction == zero::Reduction::micro_batch);
  CHECK(read({"--text=a=b"}).text == "a=b");
}

TEST_CASE("--size is GPT-2's own sizes, and neither they nor the text are said twice") {
  auto const s =
      read({"--device", "cuda", "--size", "1.5b", "--tokens", "a.bin", "--recompute", "block"});
  CHECK(s.on == gpt2::On::cuda);
  CHECK(s.recompute == gpt2::Recompute::block);
  CHECK(s.tokens == "a.bin");
  CHECK(s.size.layers == 48);
  CHECK(s.size.width == 1600);
  CHECK(s.size.heads == 25);
  CHECK(s.size.context == 1024);
  CHECK(s.size.vocabulary == 50304);
  refused({"--size", "7b"}, "--size wants 124m|350m|774m|1.5b, not '7b'");
  refused({"--size", "124m", "--layers", "3"},
          "--size says what --layers says: leave one of them out");
  refused({"--text", "a", "--tokens", "b"},
          "--tokens and --text both say what to train on: leave one of them out");
}

TEST_CASE("a flag that does not exist, or twice, or that is none, is refused") {
  refused({"--stages", "3"}, "there is no flag '--stages', see --help");
  refused({"train"}, "there is no flag 'train', see --help");
  refused({"-h"}, "there is no flag '-h', see --help");
  refused({""}, "there is no flag '', see --help");
  refused({"--ranks", "2", "--ranks=2"}, "--ranks is given twice");
}

TEST_CASE("a value that is missing or too much is refused") {
  refused({"--steps"}, "--steps wants a value: N");
  refused({"--steps", "--json"}, "--steps wants a value: N");
  refused({"--metrics"}, "--metrics wants a value: FILE.jsonl|.csv");
  refused({"--json=1"}, "--json takes no value");
  refused({"--json", "1"}, "there is no flag '1', see --help");
  refused({"--text="}, "--text wants a file");
}

TEST_CASE("a value that is no number of its range is refused") {
  std::string const steps = "--steps wants a whole number from 1 to 1000000000, not ";
  for (std::string const bad : {"", "x", "-3", "0", "1.5", "1e3", "+5", " 5", "5 ", "5x", "0x10",
                                "1000000001", "99999999999999999999999"}) {
    refused({"--steps", bad.c_str()}, steps + "'" + bad + "'");
  }
  refused({"--stage", "4"}, "--stage wants a whole number from 0 to 3, not '4'");
  refused({"--stage", "-1"}, "--stage wants a whole number from 0 to 3, not '-1'");
  refused({"--ranks", "0"}, "--ranks wants a whole number from 1 to 1024, not '0'");
  refused({"--ranks", "4294967297"},
          "--ranks wants a whole number from 1 to 1024, not '4294967297'");
  refused({"--seed", "-1"}, "--seed wants a whole number from 0 to 18446744073709551615, not '-1'");
  refused({"--seed", "18446744073709551616"},
          "--seed wants a whole number from 0 to 18446744073709551615, not '18446744073709551616'");
  refused({"--prefetch", "65"}, "--prefetch wants a whole number from 0 to 64, not '65'");
  refused({"--bucket", "-1"}, "--bucket wants a whole number from 0 to 1099511627776, not '-1'");
  for (std::string const bad : {"nan", "inf", "-1e-3", "1e400", "0.1f", "", "one", "1001"}) {
    refused({"--lr", bad.c_str()}, "--lr wants a number from 0 to 1000, not '" + bad + "'");
  }
}

TEST_CASE("a word that is none of a flag's is refused") {
  refused({"--reduce", "always"}, "--reduce wants boundary|micro-batch, not 'always'");
  refused({"--precision", "half"}, "--precision wants fp32|bf16|fp16, not 'half'");
  refused({"--precision", ""}, "--precision wants fp32|bf16|fp16, not ''");
}

TEST_CASE("settings that are impossible together are refused") {
  refused({"--width", "100", "--heads", "3"}, "--heads 3 does not divide --width 100");
  refused({"--steps", "10", "--stop-after", "11"}, "--stop-after 11 is more than --steps 10");
  refused({"--stop-after", "11", "--steps", "10"}, "--stop-after 11 is more than --steps 10");
  refused({"--batch", "65536", "--context", "65536"},
          "--batch 65536 times --context 65536 is more tokens than a matrix of BLAS has rows, "
          "2147483647");
  refused({"--metrics", "run.json"},
          "--metrics wants a file that ends in .jsonl or .csv, not 'run.json'");
}

TEST_CASE("the scheduler's and the loss scale's flags set what they name") {
  auto const s = read({"--scheduler",
                       "warmup-cosine",
                       "--warmup",
                       "7",
                       "--warmup-type",
                       "linear",
                       "--start",
                       "0.25",
                       "--end",
                       "0.125",
                       "--shifted",
                       "--precision",
                       "fp16",
                       "--loss-scale",
                       "dynamic",
                       "--loss-scale-power",
                       "8",
                       "--loss-scale-window",
                       "4",
                       "--hysteresis",
                       "1"});
  CHECK(s.warm_up() == 7);
  zero::LearningRate const rate =
      zero::LearningRate::warmup_cosine({7, 0.25, zero::Ramp::linear}, s.steps, 0.125).shifted();
  for (gpt2::Index t = 1; t <= s.steps; ++t) CHECK(gpt2::rate_of(s).factor(t) == rate.factor(t));
  auto const scale = gpt2::loss_scale_of(s);
  REQUIRE(scale.has_value());
  CHECK(scale->moves());
  CHECK(scale->initial() == 256);
  CHECK(scale->settings().window == 4);
  CHECK(scale->settings().hysteresis == 1);
  CHECK(gpt2::loss_scale_of(read({"--loss-scale", "1024"}))->initial() == 1024);
  CHECK_FALSE(gpt2::loss_scale_of(read({"--precision", "fp16"})).has_value());
}

TEST_CASE("each knob of a dynamic scale is heard in fp16 without --loss-scale dynamic") {
  auto const scale = [](char const* flag, char const* value) {
    auto const given = gpt2::loss_scale_of(read({"--precision", "fp16", flag, value}));
    REQUIRE(given.has_value());
    CHECK(given->moves());
    return *given;
  };
  CHECK(scale("--loss-scale-power", "8").initial() == 256);
  CHECK(scale("--loss-scale-window", "4").initial() == 65536);
  CHECK(scale("--loss-scale-window", "4").settings().window == 4);
  CHECK(scale("--hysteresis", "1").settings().hysteresis == 1);
}

TEST_CASE("every scheduler has its course") {
  auto const factor = [](std::vector<char const*> flags, gpt2::Index update) {
    flags.insert(flags.end(), {"--steps", "100"});
    return gpt2::rate_of(read(flags)).factor(update);
  };
  CHECK(factor({}, 6) == 0.5);
  CHECK(factor({"--scheduler", "constant"}, 1) == 1);
  CHECK(factor({"--scheduler", "constant-with-warmup"}, 6) == 0.5);
  CHECK(factor({"--scheduler", "linear"}, 56) == 0.5);
  CHECK(factor({"--scheduler", "cosine"}, 56) == doctest::Approx(0.5).epsilon(1e-12));
  CHECK(factor({"--scheduler", "polynomial", "--power", "2"}, 56) == 0.25);
  CHECK(factor({"--scheduler", "warmup", "--warmup-type", "linear"}, 7) == 0.5);
  CHECK(factor({"--scheduler", "warmup-decay"}, 57) == 0.5);
  CHECK(factor({"--scheduler", "warmup-cosine"}, 102) == 1e-4);
  CHECK(factor({"--scheduler", "one-cycle"}, 11) == 1);
  CHECK(factor({"--scheduler", "one-cycle"}, 101) == 0.1);
  CHECK(factor({"--scheduler", "range-test"}, 11) == 2);
}

TEST_CASE("a knob of another scheduler or loss scale is refused") {
  refused({"--end", "0.1"}, "--end is not for this --scheduler, see --help");
  refused({"--scheduler", "constant", "--warmup", "3"},
          "--warmup is not for this --scheduler, see --help");
  refused({"--scheduler", "one-cycle", "--shifted"},
          "--shifted is not for this --scheduler, see --help");
  refused({"--scheduler", "cosine", "--power", "2"},
          "--power is not for this --scheduler, see --help");
  refused({"--scheduler", "step"},
          "--scheduler wants constant|constant-with-warmup|linear|cosine|polynomial|warmup|"
          "warmup-decay|warmup-cosine|one-cycle|range-test, not 'step'");
  refused({"--start", "2"}, "--start wants a number from 0 to 1, not '2'");
  refused({"--loss-scale", "0"},
          "--loss-scale wants dynamic or a number from 2^-24 to 2^100, not '0'");
  refused({"--loss-scale", "always"},
          "--loss-scale wants dynamic or a number from 2^-24 to 2^100, not 'always'");
  refused({"--loss-scale", "8", "--hysteresis", "1"},
          "--loss-scale-power, --loss-scale-window and --hysteresis are for a dynamic scale: "
          "--loss-scale dynamic, or --precision fp16 without a fixed one");
}

/// A text without its blanks and line ends: where --help folds is not what it says.
std::string without_blanks(std::string text) {
  std::erase_if(text, [](char c) { return c == ' ' || c == '\n'; });
  return text;
}

TEST_CASE("--help lists every flag, whatever else is said, in lines that a terminal can show") {
  std::string const text = gpt2::help_text();
  for (auto const& flag : gpt2::all_flags()) {
    CHECK(text.find("\n  " + flag.name + " ") != std::string::npos);
    std::string const said = without_blanks(flag.name + flag.value + flag.help);
    CHECK(without_blanks(text).find(said) != std::string::npos);
  }
  CHECK(text.find(" \n") == std::string::npos);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    INFO(line);
    CHECK(line.size() <= 96);  // of the 100 columns of the sources
  }
  CHECK(read({"--help", "--width", "3", "--heads", "2"}).help);
}

}  // namespace
