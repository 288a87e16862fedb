// SPDX-License-Identifier: Apache-2.0
// Manifests: what is written reads back, a changed byte is found, and what cannot be is refused.
#include <checkpoint/trainers.hpp>
#include <doctest/doctest.h>

namespace {

using namespace checkpoints;

zero::Manifest example() {
  zero::Manifest m;
  m.library = "0.1.0";
  m.step = 12;
  m.updates = 11;
  m.skipped = 1;
  m.learning_rate = 0.1;
  m.stage = 3;
  m.world = 2;
  m.precision = "fp16";
  m.optimizer = {"AdamW", {"exp_avg", "exp_avg_sq"}, {{"lr", 1e-3}, {"eps", 1e-8}}, 0xabcdef};
  m.loss_scale = {true, 1024, {12, 3, 2}, 1};
  m.seed = ~std::uint64_t{0};
  m.data = {3, 1 << 20};
  m.metric = -0.1;
  m.user = {{"text", "\"\n"}, {"list", {1, 2.5, nullptr, true}}, {"large", 1e300}};
  m.model_config = "{}";
  m.units = {{"u", {{"w", {2, 3}, true}, {"f", {}, false}}}, {"v", {{"e", {0, 4}, true}}}};
  m.block_bytes = 16;
  m.files = {{"rank-0", 33, {1, 2, 3}}, {"rank-1", 16, {~std::uint64_t{0}}}};
  return m;
}

zero::Manifest read(std::string const& text) { return zero::read_manifest(text, "'planted'"); }

void refused(zero::Manifest const& m, std::string const& because) {
  std::string const error = error_of([&] { read(zero::manifest_text(m)); });
  CAPTURE(error);
  CHECK(error.find("'planted'") != std::string::npos);
  CHECK(error.find(because) != std::string::npos);
}

}  // namespace

TEST_CASE("a manifest reads back, every member of it") {
  zero::Manifest const m = example();
  std::string const text = zero::manifest_text(m);
  zero::Manifest const found = read(text);
  CHECK(zero::manifest_text(found) == text);
  CHECK(found.step == 12);
  CHECK(found.learning_rate == 0.1);
  CHECK(found.optimizer.settings == m.optimizer.settings);
  CHECK(found.loss_scale.state.last_overflow == 3);
  CHECK(found.seed == m.seed);
  CHECK(found.data.samples == 1 << 20);
  CHECK(found.metric == -0.1);
  CHECK(found.user == m.user);
  CHECK(found.units[0].tensors[0].shape == std::vector<Index>{2, 3});
  CHECK(!found.units[0].tensors[1].trainable);
  CHECK(found.units[1].tensors[0].shape == std::vector<Index>{0, 4});  // P01: it comes back
  CHECK(found.files[1].blocks == m.files[1].blocks);
}

TEST_CASE("every byte of a manifest that is changed, and every end that is cut off, is found") {
  std::string const text = zero::manifest_text(example());
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    CAPTURE(i);
    CHECK(!error_of([&] { read(changed); }).empty());
    CHECK(!error_of([&] { read(text.substr(0, i)); }).empty());
  }
}

TEST_CASE("what a manifest cannot say is refused, in words") {
  auto const with = [](auto change) {
    zero::Manifest m = example();
    change(m);
    return m;
  };
  refused(with([](auto& m) { m.version = 2; }), "version 2; this library reads 1");
  refused(with([](auto& m) { m.step = -1; }), "'step'");
  refused(with([](auto& m) { m.stage = 4; }), "'stage'");
  refused(with([](auto& m) { m.world = 3; }), "2 files; expected one a rank, 3");
  refused(with([](auto& m) { m.files[1].name = "rank-0"; }), "stands twice");
  for (std::string const name : {"../rank-0", "/etc/passwd", "..", "", "a/b"})
    refused(with([&](auto& m) { m.files[0].name = name; }), "leaves the folder");
  refused(with([](auto& m) { m.files[0].blocks.pop_back(); }), "2 checksums; expected 3");
  refused(with([](auto& m) { m.files[0].bytes = 0; }), "'bytes'");
  refused(with([](auto& m) { m.block_bytes = 0; }), "'block_bytes'");
  refused(with([](auto& m) { m.units[1].tensors[0].name = "w"; }), "the tensor 'w' stands twice");
  refused(with([](auto& m) {
            m.units[0].tensors[0].shape = {Index{1} << 40, Index{1} << 40};
          }),
          "2^60");
  refused(with([](auto& m) {
            for (auto& t : m.units[0].tensors) t.shape = {Index{1} << 58};  // with two states each
          }),
          "more than 2^60 elements, states with them");
  for (std::string const name : {"", "__metadata__"})
    refused(with([&](auto& m) { m.units[1].tensors[0].name = name; }), "no name of a tensor");
  refused(with([](auto& m) { m.optimizer.states[0] = "a/b"; }), "'states'");
  refused(with([](auto& m) { m.optimizer.states[0] = "exp_avg_sq"; }), "stands twice");
  refused(with([](auto& m) { m.loss_scale.scale = 0; }), "'scale'");
  CHECK(error_of([&] {
          zero::manifest_text(
              with([](auto& m) { m.user["x"] = std::numeric_limits<double>::infinity(); }));
        }).find("not finite") != std::string::npos);
}
