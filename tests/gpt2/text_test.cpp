// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <gpt2/batches.hpp>
#include <gpt2/text.hpp>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

namespace {

namespace fs = std::filesystem;
using gpt2::at;
using gpt2::Index;

/// A folder that is gone when the test ends.
struct Folder {
  fs::path path = fs::temp_directory_path() / ("gpt2_text_test_" + std::to_string(::getpid()));
  Folder() { fs::create_directories(path); }
  Folder(Folder const&) = delete;
  Folder& operator=(Folder const&) = delete;
  ~Folder() { fs::remove_all(path); }
  std::string write(std::string const& name, std::string const& bytes) const {
    std::ofstream(path / name, std::ios::binary) << bytes;
    return (path / name).string();
  }
};

std::string numbers(std::size_t bytes) {
  std::string text;
  for (int i = 0; text.size() < bytes; ++i) text += std::to_string(i) + ' ';
  text.resize(bytes);
  return text;
}

TEST_CASE("fortunes are read in order of their names, without indexes, links and binaries") {
  Folder const folder;
  folder.write("b", "second\n%\nthird\n%\n");
  folder.write("a", "first\n  %  \n100 %\n");
  folder.write("a.dat", "index");
  folder.write("c", std::string("zero\0byte\n", 10));
  folder.write("d", "last, no end of line");
  fs::create_symlink(folder.path / "a", folder.path / "a.u8");
  fs::create_symlink(folder.path / "a", folder.path / "link");
  fs::create_directory(folder.path / "off");
  CHECK(gpt2::read_fortunes(folder.path) ==
        "first\n  %  \n100 %\n\nsecond\n\nthird\n\n\nlast, no end of line\n\n");
}

TEST_CASE("where there are no fortunes the sentence says what to install") {
  Folder const folder;
  std::string const sentence = "gpt2: there is no text in " + folder.path.string() +
                               ": install the package 'fortunes', or name a file with --text";
  CHECK_THROWS_WITH_AS(gpt2::load_text("", folder.path), sentence.c_str(), zero::InvalidArgument);
  auto const nowhere = folder.path / "nowhere";
  CHECK_THROWS_AS(gpt2::load_text("", nowhere), zero::InvalidArgument);
}

TEST_CASE("a file of the user's that is missing, a folder or empty is refused in a sentence") {
  Folder const folder;
  auto const refused = [](std::string const& file, std::string const& sentence) {
    CHECK_THROWS_WITH_AS(gpt2::load_text(file), sentence.c_str(), zero::InvalidArgument);
  };
  std::string const missing = (folder.path / "missing.txt").string();
  refused(missing, "gpt2: there is no file '" + missing + "'");
  refused(folder.path.string(),
          "gpt2: '" + folder.path.string() + "' is a folder, not a text file");
  std::string const empty = folder.write("empty.txt", "");
  refused(empty, "gpt2: the file '" + empty + "' is empty");
}

TEST_CASE("a tenth of the text is held back, from everywhere, and every byte is in one part") {
  for (std::size_t bytes : {1u, 7u, 99u, 1000u, 12345u}) {
    std::string const text = numbers(bytes);
    auto const parts = gpt2::split(text);
    CHECK(parts.training.size() + parts.validation.size() == bytes);
    // each of ten cuts is a whole byte
    CHECK(std::abs(static_cast<double>(parts.validation.size()) -
                   static_cast<double>(bytes) / 10) <= 10);
    std::string joined = parts.training + parts.validation;
    std::string sorted = text;
    std::ranges::sort(joined);
    std::ranges::sort(sorted);
    CHECK(joined == sorted);
  }
  auto const parts =
      gpt2::split(std::string(900, 'a') + std::string(100, 'b') + std::string(1000, 'c'));
  CHECK(parts.validation.find('a') != std::string::npos);
  CHECK(parts.validation.find('c') != std::string::npos);
}

TEST_CASE("any byte is a token") {
  Folder const folder;
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  auto const text = gpt2::load_text(folder.write("bytes", bytes + bytes + bytes + bytes));
  gpt2::Batches const batches(text.training, text.validation, {.context = 100, .batch = 9}, 1);
  std::set<gpt2::Token> tokens;
  for (auto const& batch : batches.step(0)) tokens.insert(batch.inputs.begin(), batch.inputs.end());
  CHECK(*tokens.begin() == 0);
  CHECK(*tokens.rbegin() == 255);
}

TEST_CASE("targets are the bytes that follow the inputs") {
  std::string const training = numbers(1000);
  gpt2::Batches const batches(training, training, {.context = 10, .batch = 3, .accumulation = 2},
                              1);
  for (Index step : {0, 1, 40}) {
    auto const of_step = batches.step(step);
    REQUIRE(of_step.size() == 2);
    for (auto const& batch : of_step) {
      CHECK(batch.length == 10);
      CHECK(batch.sequences() == 3);
      for (Index sample = 0; sample < 3; ++sample) {
        std::string window;
        for (Index i = 0; i < 10; ++i)
          window += static_cast<char>(batch.inputs[at(sample * 10 + i)]);
        window += static_cast<char>(batch.targets[at(sample * 10 + 9)]);
        CHECK(training.find(window) != std::string::npos);
        for (Index i = 0; i < 9; ++i) {
          CHECK(batch.targets[at(sample * 10 + i)] == batch.inputs[at(sample * 10 + i + 1)]);
        }
      }
    }
  }
}

TEST_CASE(
    "a step's samples are the same however ranks and micro-batches share them, in every epoch") {
  std::string const training = numbers(2000);
  auto const of_step = [&](Index batch, Index accumulation, int world, Index step) {
    std::multiset<std::vector<gpt2::Token>> samples;
    for (int rank = 0; rank < world; ++rank) {
      gpt2::BatchShape const shape{.context = 16,
                                   .batch = batch,
                                   .accumulation = accumulation,
                                   .rank = rank,
                                   .world = world};
      for (auto const& micro : gpt2::Batches(training, training, shape, 3).step(step)) {
        for (Index s = 0; s < micro.sequences(); ++s) {
          samples.emplace(micro.inputs.begin() + s * 16, micro.inputs.begin() + (s + 1) * 16);
        }
      }
    }
    return samples;
  };
  std::set<std::vector<gpt2::Token>> epoch;
  for (Index step = 0; step < 23; ++step) {  // 124 samples: 10 steps an epoch
    auto const one = of_step(12, 1, 1, step);
    CHECK(one.size() == 12);
    CHECK(of_step(3, 1, 4, step) == one);
    CHECK(of_step(2, 3, 2, step) == one);
    CHECK(of_step(4, 1, 3, step) == one);
    if (step % 10 == 0) epoch.clear();
    epoch.insert(one.begin(), one.end());
    CHECK(std::ssize(epoch) == (step % 10 + 1) * 12);  // no sample comes twice in an epoch
  }
  CHECK(of_step(12, 1, 1, 0) != of_step(12, 1, 1, 10));  // another order
}

TEST_CASE(
    "validation batches are alike at every call, differ between ranks, and all ranks have as "
    "many") {
  std::string const validation = numbers(1700);  // 106 samples
  std::set<std::vector<gpt2::Token>> seen;
  for (int rank = 0; rank < 4; ++rank) {
    gpt2::BatchShape const shape{.context = 16, .batch = 5, .rank = rank, .world = 4};
    gpt2::Batches const batches(validation, validation, shape, 3);
    auto const some = batches.validation(2);
    CHECK(some.size() == 2);
    CHECK(batches.validation(100).size() == 5);
    CHECK(batches.validation(2)[1].inputs == some[1].inputs);
    for (auto const& batch : some) {
      CHECK(batch.sequences() == 5);
      for (Index s = 0; s < 5; ++s) {
        CHECK(seen.emplace(batch.inputs.begin() + s * 16, batch.inputs.begin() + (s + 1) * 16)
                  .second);
      }
    }
  }
  std::string const training = numbers(20000);
  gpt2::Batches const few(training, validation, {.context = 160, .batch = 7, .rank = 3, .world = 4},
                          3);
  CHECK(few.validation(3).size() == 1);
  CHECK(few.validation(3)[0].sequences() == 2);  // 10 samples for 4 ranks
}

TEST_CASE("a text that is too short is refused in a sentence") {
  std::string const text = numbers(1000);
  CHECK_THROWS_WITH_AS(
      gpt2::Batches(text, text, {.context = 64, .batch = 4, .accumulation = 2, .world = 2}, 1),
      "gpt2: the text is too short: one step takes 16 samples of 64 bytes, and it has 15 to train "
      "on",
      zero::InvalidArgument);
  CHECK_THROWS_WITH_AS(gpt2::Batches(text, "12345678", {.context = 8, .batch = 1, .world = 2}, 1),
                       "gpt2: the text is too short: its validation part of 8 bytes has not one "
                       "sample of 8 bytes for "
                       "each of 2 ranks",
                       zero::InvalidArgument);
  CHECK_THROWS_AS(gpt2::Batches("", "", {.context = 8, .batch = 1}, 1), zero::InvalidArgument);
}

}  // namespace
