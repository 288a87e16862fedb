// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <gpt2/corpus.hpp>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace {

/// A file that is gone when the test ends.
struct File {
  std::string path;

  File(std::string const& name, std::vector<std::uint32_t> header,
       std::vector<std::uint16_t> const& tokens)
      : path((std::filesystem::temp_directory_path() / ("zero_tokens_" + name)).string()) {
    header.resize(256);
    std::ofstream out(path, std::ios::binary);
    out.write(reinterpret_cast<char const*>(header.data()), 1024);
    out.write(reinterpret_cast<char const*>(tokens.data()),
              static_cast<std::streamsize>(2 * tokens.size()));
  }
  ~File() { std::filesystem::remove(path); }
};

TEST_CASE("tokens of a file are trained on, but the last tenth, which validates") {
  std::vector<std::uint16_t> tokens;
  for (std::uint16_t i = 0; i < 100; ++i) tokens.push_back(static_cast<std::uint16_t>(500 * i));
  File const file("whole", {20240520, 1, 100}, tokens);
  gpt2::Settings settings;
  settings.tokens = file.path;
  settings.size.vocabulary = 50304;
  gpt2::Corpus const corpus = gpt2::load_corpus(settings);
  CHECK(corpus.training().size() == 90);
  CHECK(corpus.validation().size() == 10);
  CHECK(corpus.training()[3] == 1500);
  CHECK(corpus.validation()[9] == 49500);
  gpt2::Batches const batches(corpus.training(), corpus.validation(), {.context = 8, .batch = 2},
                              1);
  auto const batch = batches.step(0).front();
  for (std::size_t i = 0; i < batch.inputs.size(); ++i) {
    CHECK(batch.inputs[i] % 500 == 0);
    CHECK(batch.targets[i] == batch.inputs[i] + 500);
  }
}

TEST_CASE("a file that is none of tokens is refused in a sentence") {
  auto const refused = [](File const& file, std::string const& what) {
    CHECK_THROWS_WITH_AS(gpt2::load_tokens(file.path, 256),
                         ("gpt2: the file '" + file.path + "' " + what).c_str(),
                         zero::InvalidArgument);
  };
  refused({"magic", {7, 1, 1}, {5}}, "is no token file of llm.c: it starts with 7, not 20240520");
  refused({"version", {20240520, 2, 1}, {5}}, "is a token file of version 2; expected 1");
  refused({"short", {20240520, 1, 3}, {5, 6}}, "holds 2 tokens, and its header says 3");
  refused({"large", {20240520, 1, 2}, {255, 256}},
          "holds token 256, and the vocabulary has 256 (see --size)");
  CHECK_THROWS_WITH_AS(gpt2::load_tokens("/no/such.bin", 256),
                       "gpt2: the file '/no/such.bin' cannot be read", zero::InvalidArgument);
}

}  // namespace
