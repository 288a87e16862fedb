// SPDX-License-Identifier: Apache-2.0
// README's lines about saving and loading, at README's own stage.
#include <zero/checkpoint.hpp>
#include <zero/zero.hpp>

#include <checkpoint/trainers.hpp>
#include <doctest/doctest.h>

#include <filesystem>

namespace {

struct Model {
  using Batch = int;

  zero::Units units() const { return {{"a", {{"a.w", {30, 10}, zero::Initial::normal(0.5)}}}}; }
  template <class Pass>
  double operator()(Pass& pass, Batch const& batch) {
    { auto const weights = pass.forward(0); }
    if constexpr (Pass::trains) {
      auto const [w, g] = pass.backward(0);
      for (auto& x : g[0].span())
        x = typename Pass::Gradient(0.01f * static_cast<float>(batch + 1));
    }
    return 0;
  }
};

}  // namespace

TEST_CASE("README's lines save, load and hand over a model") {
  checkpoints::Folder const folder;
  std::filesystem::path const before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  zero::launch<zero::Threads>(4, [](auto communicator) {
    zero::Trainer trainer(Model{}, communicator, zero::AdamW{}, zero::Options{}, zero::Sharded<3>{},
                          zero::Bf16Mixed{});
    for (int s = 0; s < 100; ++s) trainer.step(s);
    std::uint64_t const hash = zero::parameters_hash(trainer);
    zero::save(trainer, "run");  // run/step-00000100, then run/latest names it
    zero::load(trainer, "run");  // the same bits at any stage, world and precision
    // A model that transformers reads; at stage 3 all ranks gather for it.
    zero::save_model(trainer, "model",
                     {.type = "BF16", .stage3_gather_16bit_weights_on_model_save = true});
    CHECK(zero::parameters_hash(trainer) == hash);
  });
  std::filesystem::current_path(before);
  CHECK(std::filesystem::exists(folder / "run/step-00000100"));
  CHECK(std::filesystem::exists(folder / "run/latest"));
  CHECK(std::filesystem::exists(folder / "model/model.safetensors"));
}
