// SPDX-License-Identifier: Apache-2.0
// State below the device with UncheckedGradients: the bits of checked gradients without clipping,
// and updates that begin while the backward pass still runs.
#include <zero/optim/adamw.hpp>
#include <zero/optim/lamb.hpp>

#include <doctest/doctest.h>
#include <support/late_device.hpp>
#include <tier/train.hpp>

#include <atomic>
#include <bit>
#include <cerrno>
#include <mutex>
#include <set>
#include <string>
#include <thread>

namespace tier_test {
namespace {

using namespace zero;
using zero_test::LateDevice;

AdamW const adamw{.lr = 0.03f, .weight_decay = 0.1f};

template <class D, class Sharding, class Checking>
Outcome trained(Setup const& setup) {
  return train<D, Sharding, Bf16Mixed, State<float>, AdamW, Checking>(setup, adamw);
}

bool same_bits(Tensors const& a, Tensors const& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](auto const& x, auto const& y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(), [](float p, float q) {
      return std::bit_cast<std::uint32_t>(p) == std::bit_cast<std::uint32_t>(q);
    });
  });
}

template <class Sharding>
void check_alike() {
  for (int world : {1, 3}) {
    for (Index accumulation : {1, 3}) {
      Setup setup;
      setup.world = world;
      setup.micro_batches = accumulation;
      setup.options = {.accumulation = accumulation};
      setup.options.reduction = Reduction::boundary;
      setup.options.offload.tile_elements = 64;  // several of a unit
      setup.options.offload.buffer_count = 3;
      CAPTURE(world);
      CAPTURE(accumulation);
      Outcome const whole = trained<Host, Sharded<0>, CheckedGradients>(setup);
      for (Outcome const& below : {trained<Host, Sharding, UncheckedGradients>(setup),
                                   trained<LateDevice, Sharding, UncheckedGradients>(setup)}) {
        CHECK(fault(below) == "");
        for (std::size_t s = 0; s < whole.steps.size(); ++s) {
          CHECK(same_bits(below.steps[s].weights, whole.steps[s].weights));
          for (std::size_t k : {0u, 1u})
            CHECK(same_bits(below.steps[s].states[k], whole.steps[s].states[k]));
          CHECK(below.steps[s].decisions[0].updates == static_cast<Index>(s) + 1);
        }
        CHECK(same_bits(below.parameters[0], whole.parameters[0]));
      }
    }
  }
}

TEST_CASE("unchecked gradients with state below the device: the bits of the device's own update") {
  check_alike<Sharded<1, Offload<OnHost>>>();
  check_alike<Sharded<2, Offload<OnNvme>>>();
  check_alike<Sharded<3, Offload<OnHost, OnHost>>>();
  check_alike<Sharded<3, Offload<OnNvme, OnNvme>>>();
}

std::atomic<int> updated = 0;  ///< elements

struct CountedSgd {
  static constexpr int num_states = 0;
  float lr = 0.5f;
  struct Constants {};

  float learning_rate(Index) const { return lr; }
  Constants constants(Index) const { return {}; }
  float direction(Constants, float, float gradient, float*, float) const {
    ++updated;
    return gradient;
  }
};

/// Six units; says how many elements were updated when the backward pass came to the first of them.
struct Watching {
  using Batch = int;
  int* seen;

  Units units() const {
    Units all;
    for (int u = 0; u < 6; ++u) {
      std::string const name = "u" + std::to_string(u);
      all.push_back({name, {{name + ".w", {640}}}});
    }
    return all;
  }
  template <class Pass>
  void operator()(Pass& pass, int) const {
    for (int u = 0; u < 6; ++u) pass.forward(u).end();
    if constexpr (Pass::trains) {
      for (int u = 6; u-- > 0;) {
        auto [w, g] = pass.backward(u);
        pass.stream().enqueue([to = g[0], first = u == 0, seen = seen] {
          using Gradient = typename Pass::Gradient;
          Gradient* const x = Pass::Device::resolve(to.address());
          for (Index i = 0; i < to.size(); ++i) x[i] = Gradient(1.0f);
          if (first) *seen = updated;
        });
      }
    }
  }
};

/// Elements that were updated before the gradients of the first unit were made. Late streams run
/// what is asked for alone, so that the number is what the order of events allows, and no luck.
template <class Checking>
int updated_before_the_end(Index accumulation) {
  int seen = -1;
  launch<ThreadsOn<LateDevice>>(1, [&](auto communicator) {
    Trainer trainer{Watching{&seen}, communicator,
                    CountedSgd{},    Options{.accumulation = accumulation},
                    Bf16Mixed{},     Sharded<3, Offload<OnHost>>{},
                    Checking{}};
    updated = 0;  // what ranks compare of optimizers has called it
    trainer.step(std::vector<int>(at(accumulation)));
    trainer.context().tiers.host.synchronize();
    trainer.synchronize();
  });
  return seen;
}

/// Threads that have asked for a rate. A late stream has one of its own.
struct Askers {
  std::mutex mutex;
  std::set<std::thread::id> threads;
} askers;

struct AskedSgd : CountedSgd {
  float learning_rate(Index t) const {
    std::lock_guard const lock(askers.mutex);
    askers.threads.insert(std::this_thread::get_id());
    return lr / static_cast<float>(t);
  }
};

TEST_CASE("the rate of an unchecked step is made on the device alone, for both memories") {
  launch<ThreadsOn<LateDevice>>(1, [&](auto communicator) {
    int seen = 0;
    Options options;
    options.accumulation = 2;
    options.offload.ratio = 0.5;
    Trainer trainer{Watching{&seen},     communicator,
                    AskedSgd{},          options,
                    Bf16Mixed{},         Sharded<3, Offload<OnHost>>{},
                    UncheckedGradients{}};
    askers.threads.clear();  // what ranks compare of optimizers has asked
    for (int step = 0; step < 3; ++step) trainer.step(std::vector<int>{0, 0});
    trainer.synchronize();
    CHECK(askers.threads.size() == 1);
    // From 0 by 0.5 / t three times, of a mean gradient of 1, in float: each is exact or rounds
    // alike whichever memory it lies in.
    float expected = 0;
    for (int t = 1; t <= 3; ++t) expected -= 0.5f / static_cast<float>(t);
    Index n = 0;
    read_weights(trainer, [&](PlacedTensor const&, Index, std::span<float const> values) {
      for (float v : values) {
        CHECK(v == expected);
        ++n;
      }
    });
    CHECK(n == 6 * 640);
    CHECK(trainer.decision().updates == 3);
  });
}

TEST_CASE("unchecked updates below the device begin while backward runs, checked ones after it") {
  for (Index accumulation : {1, 3}) {
    CAPTURE(accumulation);
    // A third of six units, also where earlier micro-batches' sums are still made for others.
    CHECK(updated_before_the_end<UncheckedGradients>(accumulation) == 2 * 640);
    CHECK(updated_before_the_end<CheckedGradients>(accumulation) == 0);
    CHECK(updated == 6 * 640);
  }
}

/// Several micro-batches, a part of the units on the device, tensors' norms, and files.
Setup lamb_in_files() {
  Setup setup;
  setup.world = 2;
  setup.micro_batches = 3;
  setup.options = {.accumulation = 3};
  setup.options.offload.ratio = 0.5;
  setup.options.offload.buffer_count = 3;
  return setup;
}
template <class D, class Sharding, class Checking>
Outcome trained_lamb(Setup const& setup) {
  return train<D, Sharding, Bf16Mixed, State<float>, Lamb, Checking>(setup, Lamb{.lr = 0.03f});
}

TEST_CASE(
    "unchecked, LAMB partly in files, micro-batches: the device's bits, or the disk's error") {
  using Below = Sharded<3, Offload<OnNvme, OnNvme>>;
  io_faults.clear();
  Setup const setup = lamb_in_files();
  Outcome const whole = trained_lamb<Host, Sharded<3>, CheckedGradients>(setup);
  auto const alike = [&](Outcome const& below) {
    bool same = same_bits(below.parameters[0], whole.parameters[0]);
    for (std::size_t s = 0; s < whole.steps.size(); ++s) {
      same = same && same_bits(below.steps[s].weights, whole.steps[s].weights);
      for (std::size_t k : {0u, 1u})
        same = same && same_bits(below.steps[s].states[k], whole.steps[s].states[k]);
    }
    return same;
  };
  CHECK(alike(trained_lamb<LateDevice, Below, UncheckedGradients>(setup)));
  io_faults.clear();
  CHECK(alike(trained_lamb<Host, Below, UncheckedGradients>(setup)));
  long const transfers[] = {io_faults.reads, io_faults.writes};
  int told = 0;
  for (bool writes : {false, true}) {
    for (long number = 0; number < transfers[writes]; number += 5) {
      io_faults.clear();
      (writes ? io_faults.bad_write : io_faults.bad_read) = number;
      io_faults.error = EIO;
      CAPTURE(writes);
      CAPTURE(number);
      try {
        // How far ahead reads run is a matter of time, so the last ones may not be made.
        CHECK(alike(trained_lamb<Host, Below, UncheckedGradients>(setup)));
      } catch (StorageError const& e) {
        CHECK(std::string(e.what()).find("Input/output error") != std::string::npos);
        ++told;
      }
    }
  }
  io_faults.clear();
  CHECK(told > 10);
}

}  // namespace
}  // namespace tier_test
