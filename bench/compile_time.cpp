// SPDX-License-Identifier: Apache-2.0
// What each header costs whoever includes it: seconds to compile a file that includes it and
// nothing else, and the lines that the compiler reads for it, its own and the standard library's.
// The compiler is that of this build.
#include <zero/report/json.hpp>
#include <zero/report/number_text.hpp>

#include <bench/machine.hpp>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace {

using zero::Index;

struct Settings {
  bool help = false;
  bool json = false;
  int rounds = 3;
  std::string only{};  ///< headers whose name holds this
};

struct Header {
  std::string name;  ///< as it is included
  std::vector<double> seconds{};
  Index lines = 0;      ///< preprocessed, not blank
  Index own_lines = 0;  ///< of them, those of the library
};

/// One word of a shell's command.
std::string shell_word(std::string_view text) {
  std::string result = "'";
  for (char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

/// The compiler on a file that includes one header, with further flags.
std::string command(std::string const& header, std::string_view flags) {
  return shell_word(COMPILE_TIME_COMPILER) + " " COMPILE_TIME_FLAGS " -std=c++20 -I" +
         shell_word(COMPILE_TIME_INCLUDE) + " " COMPILE_TIME_FOLDERS " " + std::string(flags) +
         " -include " + shell_word(header) + " -x c++ /dev/null";
}

/// Runs a command and gives each line that it prints to f.
template <class F>
void run(std::string const& line, F f) {
  std::FILE* const pipe = ::popen(line.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("no process can be started");
  std::string text;
  for (int c = std::getc(pipe); c != EOF; c = std::getc(pipe)) {
    if (c != '\n') {
      text += static_cast<char>(c);
      continue;
    }
    f(text);
    text.clear();
  }
  if (::pclose(pipe) != 0) throw std::runtime_error("this fails: " + line);
}

void compile(Header& header) {
  auto const begin = std::chrono::steady_clock::now();
  run(command(header.name, "-c -o /dev/null"), [](std::string const&) {});
  std::chrono::duration<double> const time = std::chrono::steady_clock::now() - begin;
  header.seconds.push_back(time.count());
}

void count_lines(Header& header) {
  bool own = false;
  run(command(header.name, "-E"), [&](std::string const& line) {
    if (line.starts_with("# ")) {  // # 12 "file" flags
      own = line.find(COMPILE_TIME_INCLUDE "/zero/") != std::string::npos;
    } else if (line.find_first_not_of(" \t") != std::string::npos) {
      ++header.lines;
      header.own_lines += own;
    }
  });
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  std::size_t const half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

/// Whether a header can be compiled here: what needs a package where that is found, and what needs
/// nvcc not at all.
bool compiles(std::string const& header) {
  constexpr std::array<std::string_view, 4> rooms{"cuda", "mpi", "checkpoint", "config"};
  constexpr std::array<std::string_view, 2> single{"tier/uring.hpp", "config/accelerate_file.hpp"};
  std::string const name = header.substr(5);  // behind zero/
  std::string const room = name.substr(0, name.find_first_of("/."));
  auto const found = [](std::string_view what) {
    return std::string(" " COMPILE_TIME_FOUND " ").find(" " + std::string(what) + " ") !=
           std::string::npos;
  };
  if (std::find(single.begin(), single.end(), name) != single.end() && !found(name)) return false;
  return std::find(rooms.begin(), rooms.end(), room) == rooms.end() || found(room);
}

std::vector<Header> headers(std::string const& only) {
  std::vector<Header> all;
  std::filesystem::path const root = COMPILE_TIME_INCLUDE;
  for (auto const& entry : std::filesystem::recursive_directory_iterator(root / "zero")) {
    std::string const name = entry.path().lexically_relative(root).generic_string();
    if (entry.path().extension() != ".hpp" || name.find(only) == std::string::npos) continue;
    if (compiles(name)) all.push_back({name});
  }
  std::sort(all.begin(), all.end(),
            [](Header const& a, Header const& b) { return a.name < b.name; });
  if (all.empty()) throw std::runtime_error("there is no header named like '" + only + "'");
  return all;
}

Settings read(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    std::string_view const flag = argv[i];
    std::string_view const value = i + 1 < argc ? argv[i + 1] : "";
    if (flag == "--help") {
      settings.help = true;
    } else if (flag == "--json") {
      settings.json = true;
    } else if (flag == "--only" && !value.empty()) {
      settings.only = argv[++i];
    } else if (flag == "--rounds") {
      auto const [end, error] =
          std::from_chars(value.data(), value.data() + value.size(), settings.rounds);
      if (error != std::errc{} || end != value.data() + value.size() || settings.rounds < 1) {
        throw std::invalid_argument("--rounds takes a number of at least 1, not '" +
                                    std::string(value) + "'");
      }
      ++i;
    } else {
      throw std::invalid_argument("there is no flag '" + std::string(flag) +
                                  "'; --help lists them");
    }
  }
  return settings;
}

void measure(Settings const& settings) {
  bench::Machine const machine = bench::Machine::here();
  std::vector<Header> all = headers(settings.only);
  for (Header& header : all) count_lines(header);
  for (int round = 0; round < settings.rounds; ++round) {
    for (Header& header : all) compile(header);
  }
  if (settings.json) {
    std::printf("%s\n", zero::JsonLine()
                            .add("bench", "compile_time")
                            .add("date", machine.date)
                            .add("processor", machine.processor)
                            .add("cores", machine.cores)
                            .add("load", machine.load)
                            .add("system", machine.system)
                            .add("compiler", machine.compiler)
                            .add("rounds", settings.rounds)
                            .text()
                            .c_str());
    for (Header const& header : all) {
      std::printf("%s\n", zero::JsonLine()
                              .add("bench", "compile_time")
                              .add("header", header.name)
                              .add("median_s", median(header.seconds))
                              .add("best_s",
                                   *std::min_element(header.seconds.begin(), header.seconds.end()))
                              .add("lines", header.lines)
                              .add("own_lines", header.own_lines)
                              .text()
                              .c_str());
    }
    return;
  }
  std::printf("# compile_time\n\nEach header alone in a file: -c without optimisation.\n\n");
  std::printf("- %s\n- %s, %d cores, %s\n- %s; %s\n", machine.date.c_str(),
              machine.processor.c_str(), machine.cores, machine.load_text().c_str(),
              machine.system.c_str(), machine.compiler.c_str());
  std::printf("- median of %d rounds over all headers\n\n", settings.rounds);
  std::printf("| header | seconds | lines | of them own |\n|---|---|---|---|\n");
  for (Header const& header : all) {
    std::printf("| %s | %.2f | %td | %td |\n", header.name.c_str(), median(header.seconds),
                header.lines, header.own_lines);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    Settings const settings = read(argc, argv);
    if (settings.help) {
      std::printf(
          "Seconds to compile, and lines to read, for each header alone.\n\n"
          "bench_compile_time [flags]\n"
          "  --help               print this and end\n"
          "  --json               print lines of JSON: first the machine, then each header\n"
          "  --rounds N           compilations of each header (3)\n"
          "  --only TEXT          headers whose name holds the text, such as zero/step\n");
      return 0;
    }
    measure(settings);
  } catch (std::invalid_argument const& e) {
    std::fprintf(stderr, "compile_time: %s\n", e.what());
    return 2;
  } catch (std::exception const& e) {
    std::fprintf(stderr, "compile_time: %s\n", e.what());
    return 1;
  }
}
