// SPDX-License-Identifier: Apache-2.0
// The program gpt2 trains with each of its schedulers, and the rates that it writes down are those
// of the formulas in DeepSpeed's and transformers' sources, here by hand.
#include <doctest/doctest.h>
#include <gpt2/program.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numbers>
#include <string>
#include <vector>

#ifdef ZERO_GPT2_PROGRAM

namespace {

using gpt2_program::Folder;

/// The rates of the first five of ten steps, in multiples of --lr, as a run of a tiny model has
/// written them.
std::vector<double> rates(Folder const& folder, std::string const& scheduler) {
  double const lr = 0x1p-10;
  std::string const rows = (folder.path / "rows.jsonl").string();
  std::string const command =
      std::string("'") + ZERO_GPT2_PROGRAM + "' --text '" + (folder.path / "text").string() +
      "' --layers 1 --width 8 --heads 1 --context 8 --batch 1 --ranks 2 --stage 1 --precision fp32 "
      "--steps 10 --stop-after 5 --lr 0.0009765625 --metrics '" +
      rows + "' --scheduler " + scheduler + " >'" + (folder.path / "out").string() + "' 2>&1";
  int const status = std::system(command.c_str());
  REQUIRE(WIFEXITED(status));
  REQUIRE(WEXITSTATUS(status) == 0);
  std::vector<double> found;
  std::ifstream in(rows);
  for (std::string row; std::getline(in, row);) {
    std::size_t const at = row.find("\"lr\":");
    REQUIRE(at != std::string::npos);
    found.push_back(std::stod(row.substr(at + 5)) / lr);
  }
  return found;
}

TEST_CASE("the program trains with each of its schedulers, at the rates of their formulas") {
  // c scheduler calls have been made before a step, 0 to 4; a warm-up is of two, a whole run of
  // ten.
  auto const cosine = [](double way) { return (1 + std::cos(std::numbers::pi * way)) / 2; };
  struct Row {
    std::string flags;
    std::vector<double> rates;
  };
  Row const rows[] = {
      {"constant", {1, 1, 1, 1, 1}},
      {"constant-with-warmup --warmup 2", {0, 0.5, 1, 1, 1}},
      {"linear --warmup 2", {0, 0.5, 1, 7.0 / 8, 6.0 / 8}},
      {"cosine --warmup 2 --cycles 1.5", {0, 0.5, 1, cosine(3.0 / 8), cosine(6.0 / 8)}},
      {"polynomial --warmup 2 --power 2 --end 0.25",
       {0, 0.5, 1, 0.25 + 0.75 * 49 / 64, 0.25 + 0.75 * 36 / 64}},
      // DeepSpeed's count from c - 1, and stand at the start twice.
      {"warmup --warmup 2 --warmup-type linear --start 0.25", {0.25, 0.25, 0.625, 1, 1}},
      {"warmup-decay --warmup 2", {0, 0, 1, 1, 7.0 / 8}},
      {"warmup-cosine --warmup 2 --warmup-type linear --start 0.5 --end 0.25",
       {0, 0.5, 0.75, 0.25 + 0.75 * cosine(1.0 / 8), 0.25 + 0.75 * cosine(2.0 / 8)}},
      {"one-cycle --warmup 2 --start 0.25",
       {0.25, 0.625, 1, 0.25 + 0.75 * 7 / 8, 0.25 + 0.75 * 6 / 8}},
      {"range-test --warmup 2 --growth 3", {1, 2.5, 4, 5.5, 7}}};
  Folder const folder;
  for (Row const& row : rows) {
    CAPTURE(row.flags);
    std::vector<double> const found = rates(folder, row.flags);
    REQUIRE(found.size() == row.rates.size());
    // Rounded to float, once.
    for (std::size_t c = 0; c < found.size(); ++c)
      CHECK(found[c] == doctest::Approx(row.rates[c]).epsilon(0x1p-24));
  }
}

}  // namespace

#endif  // ZERO_GPT2_PROGRAM
