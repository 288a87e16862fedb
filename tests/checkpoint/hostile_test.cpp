// SPDX-License-Identifier: Apache-2.0
// Checkpoints with right checksums whose contents no save has written, as somebody would make them:
// what becomes of them does not depend on how many ranks read them.
#include <checkpoint/memory_files.hpp>
#include <checkpoint/trainers.hpp>
#include <doctest/doctest.h>

namespace {

using namespace checkpoints;

constexpr char const* folder = "run/step-00000002";

Canonical save_trained(Setup const& setup, MemoryFiles& files) {
  return state_after(setup, [&](AnyTrainer& trainer) {
    for (int s = 0; s < 2; ++s) trainer.step(s);
    trainer.save("run", {.block_bytes = 64, .files = &files});
  });
}

/// Writes a manifest, with the checksums that the files have now.
void write_manifest(MemoryFiles& files, zero::Manifest m) {
  for (zero::CheckpointFile& file : m.files) {
    std::vector<std::byte> const& all = files.data(std::string(folder) + "/" + file.name);
    file.bytes = std::ssize(all);
    file.blocks.clear();
    for (std::size_t begin = 0; begin < all.size(); begin += at(m.block_bytes)) {
      file.blocks.push_back(
          XXH3_64bits(all.data() + begin, std::min(at(m.block_bytes), all.size() - begin)));
    }
  }
  std::string const text = zero::manifest_text(m);
  auto const bytes = std::as_bytes(std::span(text));
  files.data(std::string(folder) + "/manifest.json").assign(bytes.begin(), bytes.end());
}

/// What every rank throws, without "rank 1: " before it; training goes on from the same bits.
std::string refusal(Setup const& setup, MemoryFiles& files, zero::LoadOptions options) {
  options.files = &files;
  std::vector<std::string> errors(at(setup.world));
  auto const train = [&](bool loads) {
    return state_after(setup, [&](AnyTrainer& trainer) {
      trainer.step(0);
      if (loads) {
        std::string const error = error_of([&] { trainer.load("run", options); });
        bool const named = error.starts_with("rank ");
        errors[at(trainer.rank())] = named ? error.substr(error.find(": ") + 2) : error;
      }
      trainer.step(1);
    });
  };
  CHECK(train(true) == train(false));
  for (std::string const& error : errors) CHECK(error == errors[0]);
  return errors[0];
}

}  // namespace

TEST_CASE("elements that stand in two files are refused at every world, whatever is taken") {
  // Two ranks have a half each. The second one's file then says that its states are the first half.
  Setup const two{.stage = 1, .world = 2, .units = {{"u", {zero_test::weight("u.w", {256})}}}};
  zero::LoadOptions const weights{.parts = zero::LoadedParts::weights};
  MemoryFiles files;
  Canonical const saved = save_trained(two, files);
  for (int world : {1, 2, 3}) {
    Setup to = two;
    to.world = world;
    zero::LoadOptions options = weights;
    options.files = &files;
    CHECK(state_after(to, [&](AnyTrainer& t) { t.load("run", options); }).at("master/u.w") ==
          saved.at("master/u.w"));
  }
  std::vector<std::byte>& data = files.data(std::string(folder) + "/rank-1-of-2.safetensors");
  std::string text(reinterpret_cast<char const*>(data.data()), data.size());
  for (std::string const state : {"exp_avg", "exp_avg_sq"}) {
    std::string const name = "\"state." + state + "/u.w\":";
    std::size_t const place = text.find(name + "\"128 of 256\"");
    REQUIRE(place != std::string::npos);
    text.replace(place + name.size(), 12, "\"0 of 256\"  ");
  }
  std::ranges::copy(std::as_bytes(std::span(text)), data.begin());
  write_manifest(files, zero::find_checkpoint("run", files).manifest);

  std::string const found = "checkpoint: '" + std::string(folder) +
                            "': element 0 of state.exp_avg of tensor 'u.w' stands in two files";
  for (int world : {1, 2, 3}) {
    for (Index const staging : {Index{0}, Index{1} << 20}) {
      CAPTURE(world);
      Setup to = two;
      to.world = world;
      zero::LoadOptions options = weights;
      CHECK(refusal(to, files, options) == found);
      options.staging_bytes = staging;
      options.parts = zero::LoadedParts::everything;
      CHECK(refusal(to, files, options) == found);
    }
  }
  // What reads alone and takes weights as well.
  zero::FoundCheckpoint const checkpoint = zero::find_checkpoint("run", files);
  CHECK(error_of([&] { zero::export_checkpoint(checkpoint, "model", {}, files); }) == found);
  CHECK(error_of([&] { zero::reshard_checkpoint(checkpoint, "other", 1, files); }) == found);
  CHECK(error_of([&] { zero::verify_checkpoint(checkpoint, files); }) == found);
}

TEST_CASE("units that no trainer has: tensors are found by their names at every world") {
  Setup const three{.stage = 3, .world = 3, .units = zero_test::frozen_parts().units};
  MemoryFiles files;
  Canonical const saved = save_trained(three, files);
  zero::Manifest const written = zero::find_checkpoint("run", files).manifest;
  for (std::string const& name : {std::string(), written.units[3].name}) {
    CAPTURE(name);
    zero::Manifest changed = written;
    changed.units[1].name = name;
    write_manifest(files, changed);
    for (int world : {1, 2, 3}) {
      for (Index const staging : {Index{0}, Index{1} << 20}) {
        CAPTURE(world);
        Setup to = three;
        to.world = world;
        Canonical const found = state_after(to, [&](AnyTrainer& trainer) {
          trainer.step(5);
          auto const loaded =
              trainer.load("run", {.strict = false, .staging_bytes = staging, .files = &files});
          CHECK(loaded.differences.empty());
        });
        CHECK(found == saved);
      }
    }
  }
}

TEST_CASE("a manifest with nothing trained, and files with trained tensors: refused by name") {
  Setup const three{.stage = 3, .world = 3, .units = zero_test::frozen_parts().units};
  MemoryFiles files;
  save_trained(three, files);
  zero::Manifest changed = zero::find_checkpoint("run", files).manifest;
  for (zero::CheckpointUnit& unit : changed.units) {
    for (zero::CheckpointTensor& t : unit.tensors) t.trainable = false;
  }
  write_manifest(files, changed);
  for (int world : {1, 2, 3}) {
    CAPTURE(world);
    Setup to = three;
    to.world = world;
    CHECK(refusal(to, files, {.strict = false})
              .find("has a kind that a frozen tensor does not have") != std::string::npos);
  }
}
