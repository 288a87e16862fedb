// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs of the program gpt2, whose path is ZERO_GPT2_PROGRAM.

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#ifdef ZERO_GPT2_PROGRAM

namespace gpt2_program {

namespace fs = std::filesystem;

inline std::string read(fs::path const& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline std::vector<std::string> lines(std::string const& text) {
  std::vector<std::string> result;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) result.push_back(line);
  return result;
}

/// A folder with a text to train on, gone when the test ends.
struct Folder {
  fs::path path = fs::temp_directory_path() / ("gpt2_program_test_" + std::to_string(::getpid()));
  Folder() {
    fs::create_directories(path);
    std::ofstream text(path / "text");
    for (int i = 0; i < 400; ++i) text << "the " << i % 7 << " cats sat on mat " << i % 13 << ".\n";
  }
  Folder(Folder const&) = delete;
  Folder& operator=(Folder const&) = delete;
  ~Folder() { fs::remove_all(path); }
  void write(std::string const& name, std::string const& text) const {
    std::ofstream(path / name) << text;
  }
};

/// The text after "key": in a line of JSON.
inline std::string value_of(std::string const& line, std::string const& key) {
  std::size_t const begin = line.find("\"" + key + "\":");
  REQUIRE(begin != std::string::npos);
  std::size_t const value = begin + key.size() + 3;
  return line.substr(value, line.find_first_of(",}", value) - value);
}

struct Result {
  int status;
  std::string out;
  std::string err;
  std::string last_line() const { return lines(out).empty() ? "" : lines(out).back(); }
  std::string json(std::string const& key) const { return value_of(last_line(), key); }
  /// Elements a step and rank, as the plan says before the run.
  std::string planned_wire() const {
    std::string wire = out.substr(out.find("planned to send: ") + 17);
    wire.resize(wire.find(' '));
    std::erase(wire, ',');
    return wire;
  }
};

/// @param environment variables of the run, as NAME=VALUE
inline Result run(Folder const& folder, std::string const& flags,
                  std::string const& environment = "") {
  std::string const out = (folder.path / "out").string();
  std::string const err = (folder.path / "err").string();
  std::string const command =
      environment + " '" + ZERO_GPT2_PROGRAM + "' " + flags + " >'" + out + "' 2>'" + err + "'";
  int const status = std::system(command.c_str());
  REQUIRE(WIFEXITED(status));
  return {WEXITSTATUS(status), read(out), read(err)};
}

/// A small model on the folder's text.
inline std::string small(Folder const& folder) {
  return "--text '" + (folder.path / "text").string() +
         "' --layers 6 --width 16 --heads 2 --context 16 --batch 2 --seed 3 --lr 0.01 --json ";
}

}  // namespace gpt2_program

#endif
