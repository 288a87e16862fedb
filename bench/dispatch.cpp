// SPDX-License-Identifier: Apache-2.0
// What a menu costs the compiler: seconds to compile a file that dispatches a configuration over
// more and more of it. What a program does in a combination costs what it costs without a menu.
#include <zero/report/json.hpp>

#include <bench/machine.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace {

struct Case {
  char const* name;
  char const* menu;  ///< nullptr: the headers alone
  int combinations;
};

constexpr Case cases[] = {
    {"headers alone", nullptr, 0},
    {"one combination", "Sharded<3>, Bf16Mixed, AdamW", 1},
    {"four stages, two precisions",
     "Sharded<0>, Sharded<1>, Sharded<2>, Sharded<3>, Fp32, Bf16Mixed, AdamW", 8},
    {"the whole menu",
     "Sharded<0>, Sharded<1>, Sharded<2>, Sharded<3>, Fp32, Bf16Mixed, Fp16Mixed, AdamW, "
     "CycledMomentum<AdamW>, Adam, "
     "Lamb, Lion, Adagrad, Sgd",
     84}};

double compile(std::filesystem::path const& file, Case const& c) {
  std::ofstream out(file);
  out << "#include <zero/config.hpp>\n";
  if (c.menu != nullptr) {
    out << "using namespace zero;\nint seen = 0;\nvoid run(ResolvedConfig const& config) {\n  "
           "dispatch<Menu<"
        << c.menu
        << ">>(config, []<class S, class R, class O>(S, R, O const& optimizer) {\n"
           "    seen += static_cast<int>(sizeof(Policies<S, R>)) + "
           "static_cast<int>(sizeof(optimizer));\n  });\n}\n";
  }
  out.close();
  std::string const command = "'" COMPILE_TIME_COMPILER "' " COMPILE_TIME_FLAGS
                              " -std=c++20 -I'" COMPILE_TIME_INCLUDE "' -c -o /dev/null '" +
                              file.string() + "'";
  auto const begin = std::chrono::steady_clock::now();
  if (std::system(command.c_str()) != 0) throw std::runtime_error("this fails: " + command);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void measure(int rounds, bool json) {
  bench::Machine const machine = bench::Machine::here();
  std::filesystem::path const file =
      std::filesystem::temp_directory_path() / "zero_bench_dispatch.cpp";
  std::vector<std::vector<double>> seconds(std::size(cases));
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < std::size(cases); ++i)
      seconds[i].push_back(compile(file, cases[i]));
  }
  std::filesystem::remove(file);
  if (!json) {
    std::printf(
        "# dispatch\n\nA file that dispatches a configuration, -c without optimisation; %s, "
        "%s.\n\n",
        machine.compiler.c_str(), machine.load_text().c_str());
    std::printf("| menu | combinations | seconds, median of %d |\n|---|---|---|\n", rounds);
  }
  for (std::size_t i = 0; i < std::size(cases); ++i) {
    std::sort(seconds[i].begin(), seconds[i].end());
    double const median = seconds[i][seconds[i].size() / 2];
    if (json) {
      std::printf("%s\n", zero::JsonLine()
                              .add("bench", "dispatch")
                              .add("date", machine.date)
                              .add("compiler", machine.compiler)
                              .add("menu", cases[i].name)
                              .add("combinations", cases[i].combinations)
                              .add("median_s", median)
                              .add("best_s", seconds[i].front())
                              .text()
                              .c_str());
    } else {
      std::printf("| %s | %d | %.2f |\n", cases[i].name, cases[i].combinations, median);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  int rounds = 9;
  bool json = false;
  for (int i = 1; i < argc; ++i) {
    std::string_view const flag = argv[i];
    if (flag == "--help") {
      std::printf(
          "Seconds to compile a dispatch over a menu.\n\nbench_dispatch [--json] [--rounds N]\n");
      return 0;
    }
    if (flag == "--json") {
      json = true;
    } else if (flag == "--rounds" && i + 1 < argc && std::atoi(argv[i + 1]) > 0) {
      rounds = std::atoi(argv[++i]);
    } else {
      std::fprintf(stderr, "bench_dispatch: there is no flag '%s', see --help\n", argv[i]);
      return 2;
    }
  }
  try {
    measure(rounds, json);
  } catch (std::exception const& e) {
    std::fprintf(stderr, "bench_dispatch: %s\n", e.what());
    return 1;
  }
  return 0;
}
