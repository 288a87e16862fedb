// SPDX-License-Identifier: Apache-2.0
// Checkpoints know no tiers: what was saved with everything on the device goes on with state in
// host memory or in files, to the bits of the run that never stopped, and the other way round.
#include <zero/checkpoint.hpp>
#include <zero/zero.hpp>

#include <checkpoint/memory_files.hpp>
#include <checkpoint/trainers.hpp>
#include <doctest/doctest.h>

#include <array>

namespace {

using zero::Index;

/// Slices of several tiles, padding, and a frozen tensor.
struct Model {
  using Batch = int;

  zero::Units units() const {
    zero::Tensor frozen{"frozen", {11}, zero::Initial::normal(1)};
    frozen.trainable = false;
    return {{"a", {{"a.w", {300}, zero::Initial::normal(0.5)}}},
            {"b",
             {{"b.w", {7001}, zero::Initial::normal(0.5)},
              {"b.bias", {5}, zero::Initial::constant(1)}}},
            {"c", {frozen, {"c.w", {64}, zero::Initial::normal(0.5)}}}};
  }
  template <class Pass>
  double operator()(Pass& pass, Batch const& batch) {
    for (int u = 0; u < 3; ++u) auto const weights = pass.forward(u);
    if constexpr (Pass::trains) {
      for (int u = 3; u-- > 0;) {
        auto const [w, g] = pass.backward(u);
        int const trained = u == 1 ? 2 : 1;
        for (int t = 0; t < trained; ++t) {
          auto const to = g[u == 2 ? 1 : t].span();
          for (std::size_t i = 0; i < to.size(); ++i)
            to[i] = typename Pass::Gradient(
                static_cast<float>((static_cast<int>(i) * 7 + batch + u) % 23 - 11) * 0.01f);
        }
      }
    }
    return 0;
  }
};

/// Two ranks, each of which does `work` with a trainer. @return what it returned on rank 0
template <class Sharding, class Precision, class Work>
std::uint64_t on_ranks(std::string const& folder, Work work, double ratio = 1) {
  std::uint64_t result = 0;
  zero::launch<zero::Threads>(2, [&](auto communicator) {
    zero::Options options;
    options.clip = 1;
    options.offload.nvme_path = folder;
    options.offload.tile_elements = 1024;
    options.offload.ratio = ratio;
    zero::Trainer trainer(Model{}, communicator, zero::AdamW{.lr = 1e-2f, .weight_decay = 0.1f},
                          options, Sharding{}, Precision{});
    std::uint64_t const mine = work(trainer);
    if (communicator.rank() == 0) result = mine;
  });
  return result;
}

template <class Trainer>
void steps(Trainer& trainer, int from, int to) {
  for (int s = from; s < to; ++s) trainer.step(s + 10 * trainer.context().rank());
}

template <class Precision, class... Shardings>
void there_and_back() {
  checkpoints::MemoryFiles files;
  checkpoints::Folder const folder;
  using Device = zero::Sharded<3>;
  std::uint64_t saved = 0;
  std::uint64_t const went_on = on_ranks<Device, Precision>(folder.path(), [&](auto& trainer) {
    steps(trainer, 0, 3);
    zero::save(trainer, "device", {.block_bytes = 4096, .files = &files});  // several a file
    std::uint64_t const hash = zero::parameters_hash(trainer);
    if (trainer.context().rank() == 0) saved = hash;
    steps(trainer, 3, 5);
    return zero::parameters_hash(trainer);
  });
  int number = 0;
  auto const with = [&]<class Sharding>(Sharding) {
    CAPTURE(number);
    std::string const dir = "tiers" + std::to_string(number++);
    std::uint64_t const ended = on_ranks<Sharding, Precision>(folder.path(), [&](auto& trainer) {
      zero::load(trainer, "device", {.files = &files});
      std::uint64_t const loaded = zero::parameters_hash(trainer);
      if (trainer.context().rank() == 0) CHECK(loaded == saved);
      steps(trainer, 3, 4);
      zero::save(trainer, dir, {.files = &files});
      steps(trainer, 4, 5);
      return zero::parameters_hash(trainer);
    });
    CHECK(ended == went_on);
    // As well where a part of the state stays on the device.
    if constexpr (Sharding::shards_parameters && Sharding::optimizer_tier != zero::Tier::device) {
      std::uint64_t const parts = on_ranks<Sharding, Precision>(
          folder.path(),
          [&](auto& trainer) {
            double const share = trainer.plan().tiers.share;
            CHECK((share > 0 && share < 1));
            zero::load(trainer, "device", {.files = &files});
            steps(trainer, 3, 4);
            zero::save(trainer, dir + "-part", {.files = &files});
            zero::load(trainer, dir, {.files = &files});  // of all of it below
            steps(trainer, 4, 5);
            return zero::parameters_hash(trainer);
          },
          0.5);
      CHECK(parts == went_on);
      std::uint64_t const whole = on_ranks<Sharding, Precision>(folder.path(), [&](auto& trainer) {
        zero::load(trainer, dir + "-part", {.files = &files});
        steps(trainer, 4, 5);
        return zero::parameters_hash(trainer);
      });
      CHECK(whole == went_on);
    }
    std::uint64_t const back = on_ranks<Device, Precision>(folder.path(), [&](auto& trainer) {
      zero::load(trainer, dir, {.files = &files});
      steps(trainer, 4, 5);
      return zero::parameters_hash(trainer);
    });
    CHECK(back == went_on);
    // With staging, into a trainer that has trained; and with a damaged last block, after which it
    // goes on as if nothing had been.
    std::uint64_t const staged = on_ranks<Sharding, Precision>(folder.path(), [&](auto& trainer) {
      steps(trainer, 7, 9);
      zero::load(trainer, "device", {.staging_bytes = 1 << 20, .files = &files});
      steps(trainer, 3, 5);
      return zero::parameters_hash(trainer);
    });
    CHECK(staged == went_on);
    std::array<std::uint64_t, 2> undisturbed{};
    std::byte& last = files.data("device/step-00000003/rank-1-of-2.safetensors").back();
    for (bool const disturbed : {false, true}) {
      if (disturbed) last ^= std::byte{1};
      undisturbed[disturbed] = on_ranks<Sharding, Precision>(folder.path(), [&](auto& trainer) {
        steps(trainer, 7, 9);
        if (disturbed) {
          CHECK_THROWS_AS(
              zero::load(trainer, "device", {.staging_bytes = 1 << 20, .files = &files}),
              zero::CheckpointError);
        }
        steps(trainer, 9, 11);
        return zero::parameters_hash(trainer);
      });
    }
    last ^= std::byte{1};
    CHECK(undisturbed[0] == undisturbed[1]);
    // Weights alone: the optimizer begins anew.
    std::uint64_t const anew = on_ranks<Sharding, Precision>(folder.path(), [&](auto& trainer) {
      steps(trainer, 0, 1);
      zero::load(trainer, "device", {.parts = zero::LoadedParts::weights, .files = &files});
      steps(trainer, 3, 4);
      return zero::parameters_hash(trainer);
    });
    std::uint64_t const device = on_ranks<Device, Precision>(folder.path(), [&](auto& trainer) {
      steps(trainer, 0, 1);
      zero::load(trainer, "device", {.parts = zero::LoadedParts::weights, .files = &files});
      steps(trainer, 3, 4);
      return zero::parameters_hash(trainer);
    });
    CHECK(anew == device);
  };
  (with(Shardings{}), ...);
}

}  // namespace

TEST_CASE("a checkpoint of the device goes on at every tier, and one of a tier on the device") {
  using zero::Offload, zero::OnDevice, zero::OnHost, zero::OnNvme, zero::Sharded;
  there_and_back<zero::Bf16Mixed, Sharded<1, Offload<OnHost>>, Sharded<3, Offload<OnHost, OnNvme>>,
                 Sharded<3, Offload<OnNvme, OnNvme>>, Sharded<3, Offload<OnHost, OnHost>>>();
  there_and_back<zero::Bf16Split, Sharded<2, Offload<OnNvme>>>();
  there_and_back<zero::Fp32, Sharded<3, Offload<OnNvme, OnHost>>,
                 Sharded<3, Offload<OnDevice, OnHost>>>();
}
