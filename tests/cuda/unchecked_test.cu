// SPDX-License-Identifier: Apache-2.0
// UncheckedGradients on a GPU: the update of a unit and the reduction of the next one are ordered
// in neither direction. One of the two is held up by the host, and the other one ends.

#include <zero/cuda/cuda.cuh>

#include <cuda/chain_model.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string_view>
#include <vector>

namespace zero_test {
namespace {

using std::chrono::milliseconds;

/// Tells the test which phase of which unit is enqueued next.
struct ToldRange {
  ToldRange() = default;
  ToldRange(std::string_view phase, std::string_view unit) {
    if (opened) opened(phase, unit);
  }
  static inline std::function<void(std::string_view phase, std::string_view unit)> opened{};
};

struct ToldDevice : zero::cuda::Device {
  using Range = ToldRange;
  using zero::cuda::Device::Device;
};
static_assert(zero::cuda::RunsKernels<ToldDevice> && zero::NamesRanges<ToldDevice>);

/// Work that holds a stream up until it is released, or the limit has passed: whoever waits for
/// what is behind it then comes too late, and not never.
class Hold {
 public:
  explicit Hold(milliseconds limit) : limit_(limit) {}

  void enqueue(zero::cuda::Stream& stream) {
    stream.enqueue([this] {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, limit_, [&] { return released_; });
      ended_ = true;
    });
  }
  bool ended() {
    std::lock_guard const lock(mutex_);
    return ended_;
  }
  void release() {
    std::lock_guard const lock(mutex_);
    released_ = true;
    changed_.notify_all();
  }

 private:
  milliseconds limit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool released_ = false;
  bool ended_ = false;
};

/// Whether ask(trainer, stream) comes back while a phase of a unit has not begun, in a step's last
/// micro-batch. Backward comes to the units d, c, b, a. One rank adds its micro-batches in
/// reductions, on the stream on which more ranks would send.
template <class Checking, class Ask>
bool comes_before(std::string_view phase, std::string_view unit, milliseconds limit, bool overlap,
                  Ask ask) {
  Hold hold(limit);
  bool first = false;
  zero::launch<zero::cuda::SharedDeviceOn<ToldDevice>>(
      1,
      [&](auto communicator) {
        auto& device = communicator.device();
        auto stream = device.stream();
        zero::Options options{.accumulation = 2, .reduction = zero::Reduction::micro_batch};
        options.overlap = overlap;
        zero::Trainer trainer{ChainModel<ToldDevice>(ragged_sizes(), device, false),
                              communicator,
                              zero::AdamW{},
                              options,
                              zero::Sharded<2>{},
                              Checking{}};
        std::vector<Batch> const batches{make_batch(0, 0, 0), make_batch(0, 0, 1)};
        trainer.step(batches);  // loads kernels, which could wait for a stream that is held up
        trainer.synchronize();
        bool const reduces = phase == "reduce";
        int left = reduces ? 2 : 1;
        ToldRange::opened = [&](std::string_view p, std::string_view u) {
          if (p != phase || u != unit || --left != 0) return;
          hold.enqueue(reduces ? trainer.context().reducing : trainer.context().compute);
        };
        trainer.step(batches);
        ToldRange::opened = {};
        CHECK(left == 0);
        ask(trainer, stream);
        first = !hold.ended();
        hold.release();
        trainer.synchronize();
        CHECK(hold.ended());
      },
      {.timeout = std::chrono::seconds(60)});
  return first;
}

constexpr milliseconds patient{20'000};
constexpr milliseconds soon{300};

auto const update_of_b = [](auto& trainer, auto& stream) {
  trainer.optimizer_state().state_slot(1).template on<float>(stream).end();
  stream.synchronize();
};
auto const reductions = [](auto& trainer, auto&) { trainer.context().reducing.synchronize(); };

TEST_CASE("unchecked, a unit is updated while the next one's reduction has not begun") {
  using zero::CheckedGradients;
  using zero::UncheckedGradients;
  CHECK(comes_before<UncheckedGradients>("reduce", "a", patient, true, update_of_b));
  // Where a norm comes between the two, that is seen.
  CHECK(!comes_before<CheckedGradients>("reduce", "a", soon, true, update_of_b));
}

TEST_CASE("unchecked, all reductions end while no update has begun") {
  using zero::UncheckedGradients;
  CHECK(comes_before<UncheckedGradients>("update", "d", patient, true, reductions));
  // Where both are on one stream, that is seen.
  CHECK(!comes_before<UncheckedGradients>("update", "d", soon, false, reductions));
}

}  // namespace
}  // namespace zero_test
