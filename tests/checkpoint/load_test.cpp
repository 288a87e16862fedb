// SPDX-License-Identifier: Apache-2.0
// What a load refuses, before anything has changed and on every rank; what it takes by request; and
// what it reads.
#include <checkpoint/memory_files.hpp>
#include <checkpoint/trainers.hpp>
#include <doctest/doctest.h>

#include <mutex>
#include <numeric>

namespace {

using namespace checkpoints;

/// Saves after three steps into "run".
Canonical save_trained(Setup const& setup, MemoryFiles& files, Index block_bytes = 64) {
  return state_after(setup, [&](AnyTrainer& trainer) {
    for (int s = 0; s < 3; ++s) trainer.step(s);
    trainer.save("run", {.block_bytes = block_bytes, .files = &files});
  });
}

constexpr char const* folder = "run/step-00000003";

/// Loads into a trainer that has made two steps of its own: every rank throws, all the same text,
/// and nothing has changed. @return the text
std::string refusal(Setup const& setup, MemoryFiles& files, std::string const& dir = "run",
                    zero::LoadOptions options = {}) {
  options.files = &files;
  std::vector<std::string> errors(at(setup.world));
  Collected before;
  Collected after;
  on_ranks(setup, [&](AnyTrainer& trainer) {
    for (int s = 0; s < 2; ++s) trainer.step(s);
    before.add(trainer);
    errors[at(trainer.rank())] = error_of([&] { trainer.load(dir, options); });
    after.add(trainer);
    CHECK(trainer.steps() == 2);
    CHECK(trainer.decision().updates == 2);
    trainer.step(2);  // it goes on
  });
  CHECK(before.all() == after.all());
  for (std::string const& error : errors) CHECK(error == errors[0]);
  CHECK(!errors[0].empty());
  return errors[0];
}

bool has(std::string const& text, std::string const& part) {
  return text.find(part) != std::string::npos;
}

Setup const small{.stage = 3, .world = 2, .units = zero_test::frozen_parts().units};

}  // namespace

TEST_CASE("a flipped bit anywhere is found, by load and by verify, and named with its file") {
  MemoryFiles files;
  save_trained(small, files);
  std::vector<std::string> names;
  files.list(folder, names);
  REQUIRE(names.size() == 3);
  int flips = 0;
  for (std::string const& name : names) {
    std::string const path = std::string(folder) + "/" + name;
    std::size_t const bytes = files.data(path).size();
    for (std::size_t i = 0; i < bytes; i += 13, ++flips) {
      std::byte const flip = std::byte(1u << (i % 8));
      files.data(path)[i] ^= flip;
      std::string const error =
          error_of([&] { zero::verify_checkpoint(zero::find_checkpoint("run", files), files); });
      CAPTURE(i);
      CHECK(has(error, path));
      if (i % 39 == 0) CHECK(has(refusal(small, files), path));
      files.data(path)[i] ^= flip;
    }
  }
  CHECK(flips > 100);
  CHECK(error_of([&] {
          zero::verify_checkpoint(zero::find_checkpoint("run", files), files);
        }).empty());
}

TEST_CASE("missing, cut, longer, exchanged and half-written files are refused by name") {
  MemoryFiles files;
  save_trained(small, files);
  std::string const first = std::string(folder) + "/rank-0-of-2.safetensors";
  std::string const second = std::string(folder) + "/rank-1-of-2.safetensors";
  std::vector<std::byte> const whole = files.data(second);

  files.data(second).resize(whole.size() - 1);
  CHECK(has(refusal(small, files), "'" + second + "' has " + std::to_string(whole.size() - 1) +
                                       " bytes; expected " + std::to_string(whole.size())));
  files.data(second).resize(whole.size() + 1);
  CHECK(has(refusal(small, files), second));
  files.data(second) = files.data(first);
  CHECK(has(refusal(small, files), second));
  files.data(second) = whole;
  files.rename(second, "run/elsewhere");
  CHECK(has(refusal(small, files), "'" + second + "' failed: No such file"));
  files.rename("run/elsewhere", second);
  files.rename(std::string(folder) + "/manifest.json", "run/elsewhere");
  CHECK(has(refusal(small, files), "has no manifest.json"));
  CHECK(has(refusal(small, files, folder), "has neither manifest.json nor a file 'latest'"));
}

TEST_CASE("a manifest whose files hold other slices than it says is refused with the tensor") {
  // Files with right checksums and wrong contents: as somebody would make them.
  MemoryFiles files;
  save_trained(small, files);
  zero::FoundCheckpoint const found = zero::find_checkpoint("run", files);
  auto const replaced = [&](std::size_t rank, std::vector<std::byte> const& data) {
    zero::Manifest m = found.manifest;
    std::string const path = found.folder + "/" + m.files[rank].name;
    std::vector<std::byte> const before = files.data(path);
    files.data(path) = data;
    m.files[rank].bytes = std::ssize(data);
    m.files[rank].blocks.clear();
    m.block_bytes = Index{1} << 20;
    for (zero::CheckpointFile& file : m.files) {
      std::vector<std::byte> const& all = files.data(found.folder + "/" + file.name);
      file.blocks = {XXH3_64bits(all.data(), all.size())};
    }
    std::string const manifest = found.folder + "/manifest.json";
    std::vector<std::byte> const old = files.data(manifest);
    std::string const text = zero::manifest_text(m);
    files.data(manifest).assign(reinterpret_cast<std::byte const*>(text.data()),
                                reinterpret_cast<std::byte const*>(text.data()) + text.size());
    std::string const error = refusal(small, files);
    files.data(manifest) = old;
    files.data(path) = before;
    return error;
  };
  auto const file_of = [&](std::vector<zero::SafetensorsEntry> entries,
                           std::map<std::string, std::string> places) {
    zero::SafetensorsHeader header{std::move(places), std::move(entries), 0, 0};
    std::string text = zero::write_safetensors_header(header);
    text.resize(at(header.file_bytes), '\0');
    auto const* const bytes = reinterpret_cast<std::byte const*>(text.data());
    return std::vector<std::byte>(bytes, bytes + text.size());
  };
  std::vector<std::byte> const first = files.data(found.folder + "/rank-0-of-2.safetensors");
  CHECK(has(replaced(1, first), "stands in two files"));
  CHECK(has(replaced(1, file_of({}, {})), "stands in no file"));
  auto const one = [&](std::string const& name, std::string const& type, std::vector<Index> shape,
                       std::string const& place) {
    return replaced(1, file_of({{name, type, std::move(shape), 0, 0}}, {{name, place}}));
  };
  CHECK(has(one("b.w", "F32", {4}, "0 of 19"), "no kind"));
  CHECK(has(one("master/x", "F32", {4}, "0 of 19"), "no tensor of the manifest"));
  CHECK(has(one("other/b.w", "F32", {4}, "0 of 19"), "has a kind"));
  CHECK(has(one("parameter/b.w", "F32", {4}, "0 of 19"), "a trained tensor does not have"));
  CHECK(has(one("master/b.f", "F32", {4}, "0 of 71"), "a frozen tensor does not have"));
  CHECK(has(one("master/b.w", "BF16", {4}, "0 of 19"), "expected F32"));
  CHECK(has(one("state.exp_avg/b.w", "I32", {4}, "0 of 19"), "expected F32, BF16 or F16"));
  CHECK(has(one("master/b.w", "F32", {2, 2}, "0 of 19"), "not one dimension"));
  CHECK(has(one("master/b.w", "F32", {4}, "0 of 20"), "expected a place in 19"));
  CHECK(has(one("master/b.w", "F32", {4}, "17 of 19"), "the tensor has 19"));
  CHECK(has(one("master/b.w", "F32", {4}, "-1 of 19"), "the tensor has 19"));
  CHECK(has(one("master/b.w", "F32", {4}, "99999999999999999999 of 19"), "expected a place"));
}

TEST_CASE("another model and another optimizer are refused with every difference") {
  MemoryFiles files;
  save_trained(small, files);
  Setup other = small;
  other.units[1].tensors[0].shape = {20};
  other.units[1].tensors[2].name = "b.c";
  other.units[3].tensors[0].trainable = true;
  other.optimizer = zero::Lion{};
  std::string const error = refusal(other, files);
  CHECK(has(error, "tensor 'b.w': the checkpoint has 19, the model 20"));
  CHECK(has(error, "tensor 'b.c' is not in the checkpoint"));
  CHECK(has(error, "tensor 'b.b' of the checkpoint is not in the model"));
  CHECK(has(error, "tensor 'd.f' is trained in the model and frozen in the checkpoint"));
  CHECK(has(error, "optimizer: the checkpoint has AdamW, the trainer Lion"));
  // Adam keeps the same numbers, and is another optimizer all the same.
  other = small;
  other.optimizer = zero::Adam{};
  CHECK(has(refusal(other, files), "the checkpoint has AdamW, the trainer Adam"));
}

TEST_CASE("strict = false takes what fits and lists the rest") {
  MemoryFiles files;
  Canonical const saved = save_trained(small, files);
  Setup other = small;
  other.units[1].tensors[0].shape = {20};
  other.optimizer = zero::Lion{.lr = 0.03f};
  Canonical const fresh = state_after(other, [](AnyTrainer&) {});
  Canonical const found = state_after(other, [&](AnyTrainer& trainer) {
    trainer.step(0);
    zero::LoadedCheckpoint const loaded = trainer.load("run", {.strict = false, .files = &files});
    CHECK(loaded.differences.size() == 2);
    CHECK(trainer.steps() == 3);
  });
  CHECK(found.at("master/b.b") == saved.at("master/b.b"));
  CHECK(found.at("state.exp_avg/b.b") == saved.at("state.exp_avg/b.b"));  // of the same name
  CHECK(found.at("parameter/b.f") == saved.at("parameter/b.f"));
  CHECK(found.at("state.exp_avg/b.w") == fresh.at("state.exp_avg/b.w"));  // 0
}

TEST_CASE("weights alone, and without the optimizer's state: the first step uses what was loaded") {
  for (int stage : {0, 1, 2, 3}) {
    Setup setup = small;
    setup.stage = stage;
    setup.storage = Storage::mixed;
    MemoryFiles files;
    Canonical const saved = save_trained(setup, files);
    Canonical const fresh = state_after(setup, [](AnyTrainer&) {});
    for (zero::LoadedParts const parts :
         {zero::LoadedParts::weights, zero::LoadedParts::without_optimizer_state}) {
      bool const weights = parts == zero::LoadedParts::weights;
      Canonical stepped;
      Canonical const found = state_after(setup, [&](AnyTrainer& trainer) {
        trainer.step(7);
        trainer.load("run", {.parts = parts, .files = &files});
        CHECK(trainer.steps() == (weights ? 0 : 3));
        CHECK(trainer.decision().updates == (weights ? 0 : 3));
        auto const seen = trainer.seen();
        for (auto const& [key, bits] : saved) {
          if (!key.starts_with("master/")) continue;
          for (std::size_t i = 0; i < bits.size(); ++i)
            CHECK(seen.at(key.substr(7))[i] == float(zero::bf16(std::bit_cast<float>(bits[i]))));
        }
      });
      for (auto const& [key, bits] : saved) {
        bool const state = key.starts_with("state.");
        CHECK(found.at(key) == (state ? fresh.at(key) : bits));
      }
    }
  }
}

TEST_CASE("settings that differ are the trainer's, and a warning names each") {
  MemoryFiles files;
  save_trained(small, files);
  Setup other = small;
  other.optimizer = zero::AdamW{.lr = 0.5f, .weight_decay = 0.1f};
  other.options.seed = 9;
  on_ranks(other, [&](AnyTrainer& trainer) {
    auto const warnings = trainer.load("run", {.files = &files}).warnings;
    REQUIRE(warnings.size() == 2);
    CHECK(warnings[0] ==
          "optimizer setting lr: the checkpoint has 0.03, this run 0.5, which is used");
    CHECK(warnings[1] == "Options::seed: the checkpoint has 1, this run 9, which is used");
  });
  other = small;
  other.optimizer =
      zero::AdamW{.lr = 0.03f, .weight_decay = 0.1f, .schedule = zero::LearningRate::linear(2, 10)};
  on_ranks(other, [&](AnyTrainer& trainer) {
    auto const warnings = trainer.load("run", {.files = &files}).warnings;
    REQUIRE(warnings.size() == 1);
    CHECK(has(warnings[0], "schedule"));
  });
  // And a schedule beside a setting: each is named, where each differs.
  other.optimizer =
      zero::AdamW{.lr = 0.5f, .weight_decay = 0.1f, .schedule = zero::LearningRate::linear(2, 10)};
  on_ranks(other, [&](AnyTrainer& trainer) {
    auto const warnings = trainer.load("run", {.files = &files}).warnings;
    REQUIRE(warnings.size() == 2);
    CHECK(has(warnings[0], "optimizer setting lr"));
    CHECK(has(warnings[1], "schedule of the optimizer"));
  });
}

TEST_CASE("a rank reads the ranges that it keeps, and the headers") {
  Setup const from{.stage = 1,
                   .world = 4,
                   .units = {{"a", {zero_test::weight("a.w", {40000})}},
                             {"b", {zero_test::weight("b.w", {250, 200})}}}};
  MemoryFiles files;
  Index const block = 1024;
  save_trained(from, files, block);
  Index const all = 3 * 4 * 90000;  // weights and two states
  for (int world : {1, 2, 3, 8}) {
    Setup to = from;
    to.stage = 2;
    to.world = world;
    std::vector<Index> read(at(world));
    on_ranks(to, [&](AnyTrainer& trainer) {
      read[at(trainer.rank())] = trainer.load("run", {.files = &files}).bytes_read;
    });
    for (Index bytes : read) {
      // What a rank keeps, once to verify it and once to take it; six ranges, whose ends may share
      // a block with others, in each of at most four files; at most four headers of two blocks.
      CHECK(bytes >= 2 * (all / world) - 2 * 4 * 3 * 64 * 2);
      CHECK(bytes <= 2 * (all / world + 3 * 2 * 64 * 4 + 6 * 4 * 2 * block) + 4 * 2 * block);
    }
  }
}

TEST_CASE("of headers a rank reads those of the files that it needs, and its share of all") {
  // One tensor that eight ranks, four, two and one share evenly. Blocks of 64 bytes: the first one
  // of a file is read for its header alone, which is longer.
  Setup const from{.stage = 2, .world = 8, .units = {{"u", {zero_test::weight("w", {8 * 64})}}}};
  MemoryFiles files;
  Canonical const saved = save_trained(from, files);
  for (int stage : {0, 2}) {
    for (int world : {1, 2, 4, 8}) {
      CAPTURE(stage);
      CAPTURE(world);
      Setup to = from;
      to.stage = stage;
      to.world = world;
      files.forget_beginnings();
      CHECK(state_after(to, [&](AnyTrainer& t) { t.load("run", {.files = &files}); }) == saved);
      for (int file = 0; file < 8; ++file) {
        // Read by rank file mod world, whose share it is, and by those that keep its elements: at
        // stage 0 all, else the rank of whose slice the file is a part.
        int const readers = stage == 0 ? world : file % world == file / (8 / world) ? 1 : 2;
        CHECK(files.beginnings(std::string(folder) + "/rank-" + std::to_string(file) +
                               "-of-8.safetensors") == readers);
      }
    }
  }
}

TEST_CASE("files of another cut than a save makes are found by their headers") {
  // The same slices with right checksums, and the contents of two ranks' files exchanged: nothing
  // in the format asks for rank r's slices in file r.
  MemoryFiles files;
  Setup three = small;
  three.world = 3;
  Canonical const saved = save_trained(three, files);
  zero::Manifest m = zero::find_checkpoint("run", files).manifest;
  auto const path = [&](std::size_t r) { return std::string(folder) + "/" + m.files[r].name; };
  std::swap(files.data(path(0)), files.data(path(2)));
  std::swap(m.files[0].bytes, m.files[2].bytes);
  std::swap(m.files[0].blocks, m.files[2].blocks);
  std::string const text = zero::manifest_text(m);
  auto const bytes = std::as_bytes(std::span(text));
  files.data(std::string(folder) + "/manifest.json").assign(bytes.begin(), bytes.end());
  for (int world : {1, 2, 3, 5}) {
    CAPTURE(world);
    Setup to = three;
    to.world = world;
    CHECK(state_after(to, [&](AnyTrainer& t) { t.load("run", {.files = &files}); }) == saved);
  }
}

TEST_CASE("with staging every block is read once, and twice where its memory does not do") {
  Setup const from{.stage = 1, .world = 3, .storage = Storage::short_states};
  // Blocks that cut elements in two, of floats and of 16 bits, and one that holds a whole file.
  for (Index const block : {7, 64, 4096, 1 << 20}) {
    CAPTURE(block);
    MemoryFiles files;
    Canonical const saved = save_trained(from, files, block);
    Setup to = from;
    to.stage = 3;
    to.world = 2;
    std::vector<Index> once(2);
    std::vector<Index> twice(2);
    for (Index const staging : {Index{1} << 26, Index{0}}) {
      Canonical const found = state_after(to, [&](AnyTrainer& trainer) {
        zero::LoadedCheckpoint const loaded =
            trainer.load("run", {.staging_bytes = staging, .files = &files});
        (staging > 0 ? once : twice)[at(trainer.rank())] = loaded.bytes_read;
      });
      CHECK(found == saved);
    }
    for (std::size_t r = 0; r < 2; ++r) {
      CHECK(once[r] < twice[r]);
      CHECK(2 * once[r] > twice[r]);  // headers are read once in both
    }
  }
}
