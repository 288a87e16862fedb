// SPDX-License-Identifier: Apache-2.0
// Checkpoints know no device: what a GPU saves a host loads, and the other way round, with equal
// bits of weights, states and frozen parameters, at other stages, worlds and tiers; and a GPU goes
// on from what passed through a host to the bits of the run that never stopped.
#include <zero/checkpoint.hpp>
#include <zero/cuda/cuda.cuh>
#include <zero/zero.hpp>

#include <cuda/chain_model.hpp>

#include <doctest/doctest.h>
#include <stdlib.h>

#include <bit>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

namespace zero_test {
namespace {

using zero::at;
using zero::Index;
using zero::Offload, zero::OnHost, zero::Sharded;
using zero::cuda::SharedDevice;
namespace fs = std::filesystem;

/// A folder that is gone when the test ends.
class Folder {
 public:
  Folder() {
    std::string text = (fs::temp_directory_path() / "zero_cuda_checkpoint_XXXXXX").string();
    if (::mkdtemp(text.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = text;
  }
  Folder(Folder const&) = delete;
  Folder& operator=(Folder const&) = delete;
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  std::string operator/(std::string const& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// Bits of every element, by kind and number of the tensor: "weight 3".
using Bits = std::map<std::string, std::vector<std::uint32_t>>;

/// What the ranks of a world have together, read by report/slices.hpp.
class Collected {
 public:
  template <class Trainer>
  void add(Trainer& trainer) {
    auto const into = [&](std::string const& kind) {
      return [this, kind](zero::PlacedTensor const& t, Index first, auto values) {
        std::lock_guard const lock(mutex_);
        std::vector<std::uint32_t>& whole = bits_[kind + " " + std::to_string(t.number)];
        whole.resize(at(t.elements), 0xdeadbeef);
        for (std::size_t i = 0; i < values.size(); ++i)
          whole[at(first) + i] = std::bit_cast<std::uint32_t>(static_cast<float>(values[i]));
      };
    };
    zero::read_weights(trainer, into("weight"));
    zero::read_state(trainer, 0, into("exp_avg"));
    zero::read_state(trainer, 1, into("exp_avg_sq"));
    zero::read_frozen(trainer, into("frozen"));
  }
  Bits const& bits() const { return bits_; }

 private:
  std::mutex mutex_;
  Bits bits_;
};

/// Ranks of a backend, each of which does `work` with a trainer. @return what they have at the end
template <class Backend, class Sharding, class Precision, class Work>
Bits on(int world, Work work) {
  Collected collected;
  zero::launch<Backend>(
      world,
      [&](auto communicator) {
        using D = typename decltype(communicator)::Device;
        ChainModel<D> model(everything(), communicator.device(), false);
        zero::AdamW const adamw{
            .lr = 0.02f, .weight_decay = 0.1f, .schedule = zero::LearningRate::linear(2, 50)};
        zero::Options options;
        options.clip = 0.5f;
        options.offload.tile_elements = 128;
        zero::Trainer trainer{std::move(model), communicator, adamw,
                              options,          Sharding{},   Precision{}};
        work(trainer);
        collected.add(trainer);
      },
      {.timeout = std::chrono::seconds(120)}, zero::Environment(zero::Environment::Variables{}));
  return collected.bits();
}

template <class Trainer>
void steps(Trainer& trainer, int from, int to) {
  for (int s = from; s < to; ++s)
    trainer.step(std::vector<Batch>{make_batch(trainer.context().rank(), s, 0)});
}

/// Tensors that have other bits in b, or are not there; nothing where all are equal.
std::string difference(Bits const& a, Bits const& b) {
  std::string names;
  for (auto const& [name, bits] : a) {
    auto const other = b.find(name);
    if (other == b.end() || other->second != bits) names += name + ", ";
  }
  return a.size() == b.size() ? names : names + "another number of tensors";
}

/// Blocks that cut tensors, and tensors that lie in several.
zero::SaveOptions const small_blocks{.block_bytes = 256};

template <class Precision>
void there_and_back() {
  Folder const dir;
  using Threads = zero::Threads;
  Bits saved;
  Collected moment;
  Bits const went_on = on<SharedDevice, Sharded<3>, Precision>(2, [&](auto& trainer) {
    steps(trainer, 0, 3);
    zero::save(trainer, dir / "gpu", small_blocks);
    moment.add(trainer);
    steps(trainer, 3, 5);
  });
  saved = moment.bits();
  CHECK(saved.size() > 20);  // there is something to compare
  CHECK(difference(saved, went_on).find("weight") != std::string::npos);

  // The host takes it at another stage and world, and hands it on.
  Bits const on_host = on<Threads, Sharded<1>, Precision>(3, [&](auto& trainer) {
    zero::LoadedCheckpoint const loaded = zero::load(trainer, dir / "gpu");
    CHECK(loaded.differences.empty());
    CHECK(loaded.warnings.empty());
    CHECK(trainer.context().step == 3);
    CHECK(trainer.decision().updates == 3);
    zero::save(trainer, dir / "host", small_blocks);
  });
  CHECK(difference(saved, on_host) == "");

  // A GPU takes it again, with staging and without, and below the device.
  for (Index const staging : {Index{0}, Index{1} << 26}) {
    Bits const loaded = on<SharedDevice, Sharded<3>, Precision>(4, [&](auto& trainer) {
      steps(trainer, 7, 8);  // of its own, all of which goes
      zero::load(trainer, dir / "host", {.staging_bytes = staging});
    });
    CHECK(difference(saved, loaded) == "");
  }
  // With a damaged last block, found when all others have been taken, every bit is as it was.
  fs::path const last = fs::path(dir / "host") / "step-00000003" / "rank-2-of-3.safetensors";
  auto const flip_last = [&] {
    std::fstream file(last, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(-1, std::ios::end);
    char const byte = static_cast<char>(file.get() ^ 1);
    file.seekp(-1, std::ios::end);
    file.put(byte);
    CHECK(file.good());
  };
  flip_last();
  Collected before;
  Bits const undisturbed = on<SharedDevice, Sharded<3>, Precision>(4, [&](auto& trainer) {
    steps(trainer, 7, 8);
    before.add(trainer);
    CHECK_THROWS_AS(zero::load(trainer, dir / "host", {.staging_bytes = Index{1} << 26}),
                    zero::CheckpointError);
  });
  CHECK(difference(before.bits(), undisturbed) == "");
  flip_last();
  Bits const below =
      on<SharedDevice, Sharded<1, Offload<OnHost>>, Precision>(2, [&](auto& trainer) {
        zero::load(trainer, dir / "host");
        zero::save(trainer, dir / "below", small_blocks);
      });
  CHECK(difference(saved, below) == "");

  // And goes on, to the bits of the run that never stopped.
  for (char const* const from : {"gpu", "host", "below"}) {
    CAPTURE(from);
    Bits const resumed = on<SharedDevice, Sharded<3>, Precision>(2, [&](auto& trainer) {
      zero::load(trainer, dir / from);
      steps(trainer, 3, 5);
    });
    CHECK(difference(went_on, resumed) == "");
  }
}

TEST_CASE("what a GPU saves in fp32 the host loads, and the other way round, with equal bits") {
  there_and_back<zero::Fp32>();
}
TEST_CASE("what a GPU saves in bf16 the host loads, and the other way round, with equal bits") {
  there_and_back<zero::Bf16Mixed>();
}

TEST_CASE("a background save on a GPU has the bits of its moment, which the host loads") {
  Folder const dir;
  Collected moment;
  on<SharedDevice, Sharded<3>, zero::Bf16Mixed>(2, [&](auto& trainer) {
    zero::BackgroundSave saving;
    for (int s = 0; s < 3; ++s) {
      steps(trainer, s, s + 1);
      saving.start(trainer, dir / "run", small_blocks);
    }
    moment.add(trainer);
    steps(trainer, 3, 6);
    CHECK(saving.wait()->name == "step-00000003");
  });
  Bits const loaded = on<zero::Threads, Sharded<1>, zero::Bf16Mixed>(
      3, [&](auto& trainer) { zero::load(trainer, dir / "run"); });
  CHECK(difference(moment.bits(), loaded) == "");
}

TEST_CASE("a model that a GPU writes is what the host reads, and gathers by name agree") {
  Folder const dir;
  std::vector<float> gathered;
  Bits const written = on<SharedDevice, Sharded<3>, zero::Fp32>(2, [&](auto& trainer) {
    steps(trainer, 0, 2);
    zero::save_model(trainer, dir / "model", {.stage3_gather_16bit_weights_on_model_save = true});
    std::vector<float> const whole = zero::gather(trainer, "large.w");
    if (trainer.context().rank() == 0) gathered = whole;
  });
  Bits read = on<zero::Threads, Sharded<1>, zero::Fp32>(3, [&](auto& trainer) {
    zero::load_model(trainer, dir / "model");
    CHECK(zero::gather(trainer, "large.w") == gathered);
  });
  Bits expected = written;
  for (Bits* bits : {&read, &expected})  // a model has no optimizer's numbers
    std::erase_if(*bits, [](auto const& entry) { return entry.first.starts_with("exp_"); });
  CHECK(difference(expected, read) == "");
}

}  // namespace
}  // namespace zero_test
