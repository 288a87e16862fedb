// SPDX-License-Identifier: Apache-2.0
// UncheckedGradients: nothing orders the update of a unit and the reduction of the next one, so
// that they may run at one time. Late streams run what is asked for and nothing else: each of the
// two is asked for alone, and the other one has not begun.

#include <zero/zero.hpp>

#include <doctest/doctest.h>
#include <support/late_device.hpp>

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace zero_test {
namespace {

using zero::Index;

/// Three units, whose backward pass comes to them from the last to the first.
struct ThreeUnits {
  using Batch = int;

  zero::Units units() const {
    return {{"a", {{"a.w", {100}}}}, {"b", {{"b.w", {150}}}}, {"c", {{"c.w", {70}}}}};
  }
  template <class Pass>
  void operator()(Pass& pass, Batch const&) {
    for (int u : {0, 1, 2}) auto const w = pass.forward(u);
    if constexpr (Pass::trains) {
      for (int u : {2, 1, 0}) {
        auto const [w, g] = pass.backward(u);
        pass.stream().enqueue([to = g[0]] {
          auto* const x = LateDevice::resolve(to.address());
          for (Index i = 0; i < to.size(); ++i) x[i] += 1.0f;
        });
      }
    }
  }
};

/// Says which elements have been updated.
struct CountedSgd {
  static constexpr int num_states = 1;
  std::atomic<Index>* updated;

  float learning_rate(Index) const { return 0.5f; }
  float constants(Index) const { return 0; }
  float direction(float, float, float gradient, float*, float) const {
    ++*updated;
    return gradient;
  }
};

/// Names of units whose reductions have ended, in order.
class Ended {
 public:
  void add(std::string const& unit) {
    std::lock_guard const lock(mutex_);
    names_ += unit;
  }
  std::string names() {
    std::lock_guard const lock(mutex_);
    return names_;
  }
  void clear() {
    std::lock_guard const lock(mutex_);
    names_.clear();
  }

 private:
  std::mutex mutex_;
  std::string names_;
};

/// A communicator that says when its reductions are done: on their stream, right behind them.
template <class C>
class Telling {
 public:
  using Device = typename C::Device;

  Telling(C inner, Ended& ended) : inner_(std::move(inner)), ended_(&ended) {}

  int rank() const { return inner_.rank(); }
  int size() const { return inner_.size(); }
  Device& device() const { return inner_.device(); }
  Telling channel(int i) const { return {inner_.channel(i), *ended_}; }
  void abort(std::string_view text) const noexcept { inner_.abort(text); }

  template <class T>
  void all_gather(zero::Ordered<T const, Device> slice, zero::Ordered<T, Device> full,
                  zero::Where where) {
    inner_.all_gather(slice, full, where);
  }
  template <class T>
  void reduce_scatter(zero::Ordered<T const, Device> full, zero::Ordered<T, Device> slice,
                      zero::Where where) {
    inner_.reduce_scatter(full, slice, where);
    tell(slice.stream(), where);
  }
  template <class T>
  void all_reduce(zero::Ordered<T, Device> full, zero::Where where) {
    inner_.all_reduce(full, where);
    tell(full.stream(), where);
  }

 private:
  void tell(typename Device::Stream& stream, zero::Where where) {
    if (where.phase != "reduce") return;
    stream.enqueue([ended = ended_, unit = std::string(where.unit)] { ended->add(unit); });
  }

  C inner_;
  Ended* ended_;
};

/// What has been done on each of two ranks, behind two steps, once something of the second has been
/// asked for.
struct Done {
  std::string reduced{};  ///< units, in order
  bool updated = false;   ///< any element

  friend bool operator==(Done const&, Done const&) = default;
};

/// @param ask (trainer, stream) asks for some work and waits for it
template <class Sharding, class Checking, class Ask>
Done done_after(zero::Options const& options, Ask ask) {
  // Nothing runs because time passes.
  WithLateSettings const with({.deadline = std::chrono::seconds(30)});
  Done done[2];
  zero::launch<zero::ThreadsOn<LateDevice>>(2, [&](auto communicator) {
    Ended ended;
    std::atomic<Index> updated{0};
    auto stream = communicator.device().stream();
    zero::Trainer trainer{ThreeUnits{},         Telling(communicator, ended),
                          CountedSgd{&updated}, options,
                          Sharding{},           Checking{}};
    std::vector<int> const batches(zero::at(options.accumulation));
    trainer.step(batches);
    trainer.synchronize();
    ended.clear();
    updated = 0;
    trainer.step(batches);
    ask(trainer, stream);
    done[communicator.rank()] = {ended.names(), updated > 0};
  });
  CHECK(done[0] == done[1]);
  return done[0];
}

/// @param u the unit whose update is asked for
template <class Sharding, class Checking>
Done done_with_update_of(int u, zero::Options const& options) {
  return done_after<Sharding, Checking>(options, [u](auto& trainer, auto& stream) {
    trainer.optimizer_state().state_slot(u).template on<float>(stream).end();
    stream.synchronize();
  });
}
template <class Sharding, class Checking>
Done done_with_reductions(zero::Options const& options) {
  return done_after<Sharding, Checking>(
      options, [](auto& trainer, auto&) { trainer.context().reducing.synchronize(); });
}

template <int Stage>
void check_unordered() {
  using Sharding = zero::Sharded<Stage>;
  using zero::CheckedGradients;
  using zero::UncheckedGradients;
  for (Index accumulation : {1, 2}) {
    zero::Options options{.accumulation = accumulation, .reduction = zero::Reduction::micro_batch};
    std::string const before = accumulation == 2 ? "cba" : "";  // of the first micro-batch
    CAPTURE(Stage);
    CAPTURE(accumulation);
    CHECK(done_with_update_of<Sharding, UncheckedGradients>(2, options) ==
          Done{before + "c", true});
    CHECK(done_with_update_of<Sharding, UncheckedGradients>(1, options) ==
          Done{before + "cb", true});
    CHECK(done_with_update_of<Sharding, UncheckedGradients>(0, options) ==
          Done{before + "cba", true});
    CHECK(done_with_reductions<Sharding, UncheckedGradients>(options) ==
          Done{before + "cba", false});
    // Where there is an order, it is seen: a norm comes between all reductions and any update, and
    // on one stream the one waits behind the other. An update is not asked for by a norm.
    CHECK(done_with_update_of<Sharding, CheckedGradients>(2, options) ==
          Done{before + "cba", true});
    CHECK(done_with_reductions<Sharding, CheckedGradients>(options) == Done{before + "cba", false});
    options.overlap = false;
    CHECK(done_with_update_of<Sharding, UncheckedGradients>(2, options) ==
          Done{before + "cba", true});
    CHECK(done_with_reductions<Sharding, UncheckedGradients>(options) ==
          Done{before + "cba", true});
  }
}

TEST_CASE("unchecked gradients: no update waits for the next reduction, and none the other way") {
  check_unordered<0>();
  check_unordered<1>();
  check_unordered<2>();
  check_unordered<3>();
}

}  // namespace
}  // namespace zero_test
