// SPDX-License-Identifier: Apache-2.0
// Folders as users name and leave them: slashes at the end, folders that a killed process has made,
// models on top of older models, and what is there and cannot be asked for.
#include <checkpoint/memory_files.hpp>
#include <checkpoint/trainers.hpp>
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <cmath>
#include <filesystem>
#include <fstream>

namespace {

using namespace checkpoints;

bool has(std::string const& text, std::string const& part) {
  return text.find(part) != std::string::npos;
}

Setup const setup{.stage = 3, .world = 2, .units = zero_test::ragged_sizes().units};

Canonical state_at(int steps) {
  return state_after(setup, [&](AnyTrainer& trainer) {
    for (int s = 0; s < steps; ++s) trainer.step(s);
  });
}

/// Writes a model after so many steps. @return the error of rank 0, if any
std::string write_model(MemoryFiles& files, int steps, zero::ModelOptions options) {
  std::string error;
  options.stage3_gather_16bit_weights_on_model_save = true;
  options.files = &files;
  on_ranks(setup, [&](AnyTrainer& trainer) {
    for (int s = 0; s < steps; ++s) trainer.step(s);
    std::string const mine = error_of([&] { trainer.save_model("model", options); });
    if (trainer.rank() == 0) error = mine;
  });
  return error;
}
/// Weights of the model in the folder.
Canonical weights_in(MemoryFiles& files) {
  Canonical all = state_after(
      setup, [&](AnyTrainer& trainer) { trainer.load_model("model", {.files = &files}); });
  std::erase_if(all, [](auto const& entry) { return entry.first.starts_with("state."); });
  return all;
}
Canonical weights_at(int steps) {
  Canonical all = state_at(steps);
  std::erase_if(all, [](auto const& entry) { return entry.first.starts_with("state."); });
  return all;
}
std::vector<std::string> names_in(MemoryFiles& files, std::string const& folder) {
  std::vector<std::string> names;
  files.list(folder, names);
  return names;
}

}  // namespace

TEST_CASE("a folder may have slashes at its end, and folders above it that are missing") {
  Folder const dir;
  MemoryFiles memory;
  for (zero::Files* files :
       {static_cast<zero::Files*>(nullptr), static_cast<zero::Files*>(&memory)}) {
    std::string const base = files == nullptr ? dir.path() + "/" : "";
    for (std::string const name : {"a/", "b/c/", "d//e//", "f"}) {
      CAPTURE(name);
      on_ranks(setup, [&](AnyTrainer& trainer) {
        trainer.step(0);
        trainer.save(base + name, {.files = files});
        CHECK(trainer.load(base + name, {.files = files}).manifest.step == 1);
      });
    }
  }
  CHECK(std::filesystem::exists(dir / "b/c/latest"));
}

TEST_CASE("after the first save the folder's own name lasts, whoever has made it") {
  Canonical const expected = state_at(1);
  for (std::string const name : {"runs/a", "runs/a/", "./runs/a", "new/b"}) {
    CAPTURE(name);
    MemoryFiles files;
    if (name != "new/b") {  // by a process that was killed before it could sync
      files.make_folder("runs");
      files.make_folder("runs/a");
    }
    on_ranks(setup, [&](AnyTrainer& trainer) {
      trainer.step(0);
      trainer.save(name, {.files = &files});
    });
    files.lose_power([](int) { return 0; });  // all that was not synced
    CHECK(state_after(setup, [&](AnyTrainer& t) { t.load(name, {.files = &files}); }) == expected);
  }
}

TEST_CASE("a model on top of another one: what is read is the new one, of whatever files") {
  Canonical const old = weights_at(1);
  Canonical const expected = weights_at(2);
  CHECK(old != expected);
  for (Index const before : {Index{40}, Index{1} << 30}) {
    for (Index const after : {Index{40}, Index{1} << 30}) {
      CAPTURE(before);
      CAPTURE(after);
      MemoryFiles files;
      REQUIRE(write_model(files, 1, {.max_shard_bytes = before}).empty());
      CHECK(weights_in(files) == old);
      REQUIRE(write_model(files, 2, {.max_shard_bytes = after}).empty());
      CHECK(weights_in(files) == expected);
      // Whatever a reader looks for first.
      bool const indexed = after == 40;
      CHECK((files.size("model/model.safetensors") == -ENOENT) == indexed);
      CHECK((files.size("model/model.safetensors.index.json") == -ENOENT) == !indexed);
    }
  }
}

TEST_CASE("killed anywhere, a model on top of another is the old one, the new one, or refused") {
  Canonical const old = weights_at(1);
  Canonical const expected = weights_at(2);
  int old_ones = 0;
  int new_ones = 0;
  for (Index const before : {Index{400}, Index{1} << 30}) {
    for (Index const after : {Index{400}, Index{1} << 30}) {
      for (Index k = 0; k < 400; ++k) {
        MemoryFiles files;
        write_model(files, 1, {.max_shard_bytes = before});
        Index const done = files.calls();
        bool dead = false;
        files.plan = [&](Index number, std::string_view) -> int {
          dead = dead || number - done >= k;
          return dead ? EIO : 0;
        };
        write_model(files, 2, {.max_shard_bytes = after});
        files.restart();
        if (!dead) break;
        Canonical found;
        std::string const error = error_of([&] { found = weights_in(files); });
        CAPTURE(k);
        if (error.empty()) CHECK((found == old || found == expected));
        if (!error.empty()) CHECK(has(error, "'model"));
        old_ones += found == old ? 1 : 0;
        new_ones += found == expected ? 1 : 0;
      }
    }
  }
  CHECK(old_ones > 50);
  CHECK(new_ones > 4);
}

TEST_CASE("a model that cannot be written leaves no files of its own, on a full disk above all") {
  MemoryFiles files;
  REQUIRE(write_model(files, 1, {}).empty());
  auto const before = names_in(files, "model");
  for (Index const shards : {Index{400}, Index{1} << 30}) {
    Index writes = 0;
    files.plan = [&](Index, std::string_view call) {
      return call == "write" && ++writes > 1 ? ENOSPC : 0;
    };
    files.longest_write = 50;
    CHECK(has(write_model(files, 2, {.max_shard_bytes = shards}), "No space left on device"));
    files.plan = {};
    CHECK(names_in(files, "model") == before);
    CHECK(weights_in(files) == weights_at(1));
  }
}

TEST_CASE("a weight that F16 cannot hold is refused by name, and not written as infinite") {
  MemoryFiles files;
  auto const write = [&](float value, std::string const& type) {
    std::string error;
    on_ranks(setup, [&](AnyTrainer& trainer) {
      zero::Unit const& unit = setup.units.back();
      std::vector<float> values(at(unit.tensors.back().elements()), 1.0f);
      values.back() = value;
      trainer.assign(unit.tensors.back().name, values, "weight");
      std::string const mine = error_of([&] {
        trainer.save_model(
            "half",
            {.type = type, .stage3_gather_16bit_weights_on_model_save = true, .files = &files});
      });
      if (trainer.rank() == 0) error = mine;
    });
    return error;
  };
  zero::Tensor const& last = setup.units.back().tensors.back();
  std::string const place = "element " + std::to_string(last.elements() - 1) + " of tensor '" +
                            last.name + "' is 70000.0";
  CHECK(has(write(70000, "F16"), place));
  CHECK(has(write(70000, "F16"), "65504"));
  CHECK(write(65519, "F16").empty());  // rounds to 65504
  CHECK(write(-65520, "F16").find("is -65520") != std::string::npos);
  CHECK(write(70000, "BF16").empty());
  CHECK(write(70000, "F32").empty());
  CHECK(write(std::numeric_limits<float>::infinity(), "F16").empty());  // it is what it is
}

TEST_CASE("what is there and cannot be asked for is an error, and never taken for missing") {
  MemoryFiles files;
  REQUIRE(write_model(files, 1, {}).empty());
  on_ranks(setup, [&](AnyTrainer& trainer) { trainer.save("run", {.files = &files}); });
  files.make_folder("model/config.json");  // there, and no file
  CHECK(has(error_of([&] { zero::import_checkpoint("model", "out", files); }),
            "asking for the size of 'model/config.json' failed: Is a directory"));
  files.remove_folder("model/config.json");
  // Each look at a file that fails, and none is passed over.
  for (Index k = 0; k < 20; ++k) {
    Index sizes = 0;
    files.plan = [&](Index, std::string_view call) {
      return call == "size" && sizes++ == k ? EACCES : 0;
    };
    std::string const error =
        error_of([&] { zero::import_checkpoint("model", "out" + std::to_string(k), files); });
    files.plan = {};
    if (sizes <= k) break;
    CAPTURE(k);
    CHECK(has(error, "Permission denied"));
  }
}

TEST_CASE("a damaged checkpoint is verified, with a model in its folder too") {
  MemoryFiles files;
  on_ranks(setup, [&](AnyTrainer& trainer) {
    trainer.step(0);
    trainer.save("run", {.files = &files});
    trainer.step(1);
    trainer.save("run", {.files = &files});
  });
  files.close(files.create("run/step-00000001/model.safetensors"));
  std::vector<zero::FoundCheckpoint> const all = zero::find_checkpoints("run", files);
  REQUIRE(all.size() == 2);
  CHECK(has(error_of([&] { zero::verify_checkpoint(all[1], files); }),
            "has a file 'model.safetensors' that is not in its manifest"));
}

TEST_CASE("nothing is written into a checkpoint's own folder, where it would not be found") {
  MemoryFiles files;
  std::string const own = "run/step-00000001";
  on_ranks(setup, [&](AnyTrainer& trainer) {
    trainer.step(0);
    trainer.save("run", {.files = &files});
    zero::BackgroundSave background;
    std::string const because = "'run/step-00000001' is a checkpoint itself";
    CHECK(has(error_of([&] { trainer.save(own, {.files = &files}); }), because));
    CHECK(has(error_of([&] { trainer.start(background, own, {.files = &files}); }), because));
    CHECK(!background.pending());
    CHECK(has(error_of([&] { trainer.save(own + "/a/b", {.files = &files}); }),
              "'run/step-00000001/a/b' lies in the checkpoint 'run/step-00000001'"));
    CHECK(has(error_of([&] {
                trainer.save_model(
                    own, {.stage3_gather_16bit_weights_on_model_save = true, .files = &files});
              }),
              because));
  });
  zero::FoundCheckpoint const found = zero::find_checkpoint("run", files);
  CHECK(has(error_of([&] { zero::reshard_checkpoint(found, own, 2, files); }), own));
  CHECK(has(error_of([&] { zero::export_checkpoint(found, own, {}, files); }), own));
  CHECK(error_of([&] { zero::verify_checkpoint(found, files); }).empty());
}

TEST_CASE("a conversion that fails leaves nothing in its folder") {
  MemoryFiles files;
  on_ranks(setup, [&](AnyTrainer& trainer) { trainer.save("run", {.files = &files}); });
  Index writes = 0;
  files.plan = [&](Index, std::string_view call) {
    return call == "write" && ++writes > 1 ? ENOSPC : 0;
  };
  CHECK(has(error_of([&] {
              zero::reshard_checkpoint(zero::find_checkpoint("run", files), "out", 3, files);
            }),
            "No space left on device"));
  CHECK(names_in(files, "out").empty());
}

TEST_CASE("a pipe in a file's place is refused, and not waited for") {
  Folder const dir;
  on_ranks(setup, [&](AnyTrainer& trainer) { trainer.save(dir / "run", {}); });
  std::string const file = dir / "run/step-00000000/rank-1-of-2.safetensors";
  std::filesystem::remove(file);
  REQUIRE(::mkfifo(file.c_str(), 0644) == 0);
  on_ranks(setup, [&](AnyTrainer& trainer) {
    CHECK(has(error_of([&] { trainer.load(dir / "run", {}); }), file));
  });
}

TEST_CASE("names of tensors that a header cannot have are refused") {
  for (std::string const name : {"__metadata__", "twice"}) {
    zero::SafetensorsHeader header;
    header.entries = {{"twice", "F32", {1}, 0, 0}, {name, "F32", {1}, 0, 0}};
    CHECK(has(error_of([&] { zero::write_safetensors_header(header); }),
              "tensor '" + name + "' cannot be stored"));
  }
}

TEST_CASE("a folder that somebody has put into a checkpoint ends no later save") {
  MemoryFiles files;
  on_ranks(setup, [&](AnyTrainer& trainer) {
    zero::SaveOptions const options{.save_total_limit = 1, .files = &files};
    trainer.step(0);
    trainer.save("run", options);
    if (trainer.rank() == 0) files.make_folder("run/step-00000001/notes");
    trainer.step(1);
    // The new one is safe, and the old one's name is gone, before its files are.
    CHECK(has(error_of([&] { trainer.save("run", options); }),
              "removing 'run/.removing-step-00000001/notes' failed"));
    trainer.step(2);
    CHECK(trainer.save("run", options).removed == std::vector<std::string>{"step-00000002"});
    CHECK(trainer.load("run", {.files = &files}).manifest.step == 3);
  });
  CHECK(names_in(files, "run") ==
        std::vector<std::string>{".removing-step-00000001", "latest", "step-00000003"});
}

TEST_CASE(
    "where the folder cannot be synced after a checkpoint has its name, it is given up whole") {
  MemoryFiles files;
  bool named = false;
  bool failed = false;
  on_ranks(setup, [&](AnyTrainer& trainer) {
    trainer.step(0);
    trainer.save("run", {.files = &files});
    trainer.step(1);
    if (trainer.rank() == 0) {
      files.plan = [&](Index, std::string_view call) {
        named = named || call == "rename";  // the first one of a save
        if (!named || failed || call != "sync") return 0;
        failed = true;
        return EIO;
      };
    }
    CHECK(has(error_of([&] { trainer.save("run", {.files = &files}); }), "syncing 'run' failed"));
    CHECK(trainer.load("run", {.files = &files}).manifest.step == 1);
  });
  CHECK(failed);
  CHECK(names_in(files, "run") == std::vector<std::string>{"latest", "step-00000001"});
}

TEST_CASE("one folder under two names has one save at a time") {
  MemoryFiles files;
  on_ranks(setup, [&](AnyTrainer& trainer) {
    zero::BackgroundSave background;
    trainer.start(background, "run", {.files = &files});
    for (std::string const same : {"./run", "run/", "run/.", "other/../run", ".//run"}) {
      CHECK(has(error_of([&] { trainer.save(same, {.files = &files}); }),
                "a save in the background is not over there"));
    }
    background.wait();
    trainer.save("./run", {.files = &files});
  });
}

TEST_CASE("a name in latest that would write to a terminal is refused, and shown without it") {
  MemoryFiles files;
  on_ranks(setup, [&](AnyTrainer& trainer) { trainer.save("run", {.files = &files}); });
  for (char const bad : {'\x1b', '\n', '\x7f'}) {
    std::string const name = std::string("step") + bad + "00000000\n";
    auto const bytes = std::as_bytes(std::span(name));
    files.data("run/latest").assign(bytes.begin(), bytes.end());
    CHECK(has(error_of([&] { zero::find_checkpoint("run", files); }), "names 'step?00000000'"));
  }
}

TEST_CASE("of many files one is open at a time") {
  MemoryFiles files;
  Setup many = setup;
  many.world = 8;
  on_ranks(many,
           [&](AnyTrainer& trainer) { trainer.save("run", {.block_bytes = 64, .files = &files}); });
  files.forget_most_open();
  Setup one = setup;
  one.world = 1;
  on_ranks(one, [&](AnyTrainer& trainer) {
    trainer.load("run", {.staging_bytes = Index{1} << 28, .files = &files});
  });
  CHECK(files.most_open() == 2);  // one for each of the two threads that read a file
}
