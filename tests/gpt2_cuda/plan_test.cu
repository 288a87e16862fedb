// SPDX-License-Identifier: Apache-2.0
// The GPT on a GPU is the host's to the library: the same units, schedule and plan by rank, and the
// same initial weights, up to what CUDA's logarithm and cosine round otherwise.

#include <zero/zero.hpp>

#include <gpt2/cuda/model.cuh>
#include <gpt2/model.hpp>
#include <gpt2_cuda/numbers.hpp>

#include <bit>
#include <cstdlib>
#include <mutex>
#include <sstream>

namespace gpt2_test {
namespace {

zero::LaunchOptions const patient{.timeout = std::chrono::seconds(120)};

std::string text_of(zero::Units const& units) {
  std::ostringstream text;
  for (zero::Unit const& unit : units) {
    text << unit.name << ":";
    for (zero::Tensor const& t : unit.tensors) {
      text << " " << t.name << " [";
      for (Index extent : t.shape) text << extent << ",";
      text << "] " << t.initial.hash() << " " << t.decay << " " << t.lr_scale << " " << t.trainable
           << ";";
    }
    text << "\n";
  }
  return text.str();
}

std::string text_of(zero::Schedule const& schedule) {
  std::ostringstream text;
  for (zero::Visit const& v : schedule)
    text << v.unit << (v.phase == zero::Phase::forward ? "f" : "b") << v.held << " ";
  return text.str();
}

/// Every slot of every buffer, but what kernels work with, which the host has none of.
template <class D>
std::string text_of(zero::MemoryPlan const& plan) {
  std::ostringstream text;
  for (zero::PlannedBuffer const* buffer : plan.buffers()) {
    auto slots = buffer->slots;
    if (buffer == &plan.tables && (zero::workspace_bytes<D>) > 0) {
      CHECK(slots.back().bytes == zero::workspace_bytes<D>);
      slots.pop_back();
    }
    text << buffer->kind << ":";
    for (auto const& slot : slots) text << " " << slot.offset_bytes << "+" << slot.bytes;
    text << "\n";
  }
  return text.str();
}

/// What each rank's context is made of.
template <class Backend, int Stage, class Model>
std::vector<std::string> contexts(int world, Model const& model) {
  std::vector<std::string> all(at(world));
  zero::launch<Backend>(
      world,
      [&](auto communicator) {
        zero::Context context{model,           communicator,           zero::AdamW{},
                              zero::Options{}, zero::Sharded<Stage>{}, zero::Bf16Mixed{}};
        std::string const kept = std::to_string(context.layout.hash());
        all[at(context.rank())] = text_of(context.units) + text_of(context.timeline.schedule()) +
                                  "\nlayout " + kept + "\n" +
                                  text_of<typename decltype(communicator)::Device>(context.plan);
      },
      patient);
  return all;
}

template <int Stage>
void check_contexts(gpt2::cuda::Gpt2<bf16> const& on_gpu, gpt2::BasicGpt2<float> const& on_host) {
  for (int world : {1, 4}) {
    auto const gpu = contexts<zero::cuda::SharedDevice, Stage>(world, on_gpu);
    auto const host = contexts<zero::Threads, Stage>(world, on_host);
    for (int rank = 0; rank < world; ++rank) {
      CAPTURE(Stage);
      CAPTURE(world);
      CAPTURE(rank);
      CHECK(!host[at(rank)].empty());
      CHECK((gpu[at(rank)] == host[at(rank)]));
    }
  }
}

TEST_CASE("the GPT of 124m has the host's units, schedule and plan on every rank") {
  gpt2::Configuration const size{
      .vocabulary = 50304, .context = 1024, .width = 768, .heads = 12, .layers = 12};
  Device device;
  gpt2::cuda::Gpt2<bf16> const on_gpu(device, size, {.recompute = gpt2::Recompute::block});
  gpt2::BasicGpt2<float> const on_host(size);
  check_contexts<0>(on_gpu, on_host);
  check_contexts<3>(on_gpu, on_host);
}

/// Weights by tensor and element, and the library's hash of them.
struct Weights {
  std::vector<std::vector<float>> of{};
  std::uint64_t hash = 0;
};

template <class Backend, int Stage, class Make>
Weights initial_weights(int world, Make make) {
  Weights all;
  std::mutex mutex;
  zero::launch<Backend>(
      world,
      [&](auto communicator) {
        auto const model = make(communicator.device());
        zero::Context context{model, communicator, zero::AdamW{}, zero::Options{},
                              zero::Sharded<Stage>{}};
        zero::Parameters parameters{context};
        zero::OptimizerState state{context, zero::AdamW{}};
        zero::read_weights(parameters, state, [&](auto const& t, Index first, auto values) {
          std::lock_guard const lock(mutex);
          if (all.of.size() <= at(t.number)) all.of.resize(at(t.number) + 1);
          auto& to = all.of[at(t.number)];
          to.resize(std::max(to.size(), at(first) + values.size()));
          std::copy(values.begin(), values.end(), to.begin() + first);
        });
        std::uint64_t const hash = zero::parameters_hash(parameters, state);
        if (communicator.rank() == 0) all.hash = hash;
      },
      patient);
  return all;
}

TEST_CASE("initial weights are the host's, normal ones up to a unit in the last place") {
  gpt2::Configuration const size{
      .vocabulary = 512, .context = 64, .width = 64, .heads = 4, .layers = 3};
  auto const on_gpu = [&](Device& device) {
    return gpt2::cuda::Gpt2<float>(device, size, {.recompute = gpt2::Recompute::block});
  };
  auto const on_host = [&](auto&) { return gpt2::BasicGpt2<float>(size); };
  Weights const host = initial_weights<zero::Threads, 0>(1, on_host);
  Weights const whole = initial_weights<zero::cuda::SharedDevice, 0>(1, on_gpu);
  Weights const shared = initial_weights<zero::cuda::SharedDevice, 3>(2, on_gpu);
  CHECK(shared.hash == whole.hash);
  CHECK((shared.of == whole.of));
  REQUIRE(whole.of.size() == host.of.size());
  std::size_t number = 0;
  Index elements = 0;
  Index apart = 0;
  Index wrong = 0;
  for (zero::Unit const& unit : gpt2::units_of(size)) {
    for (zero::Tensor const& t : unit.tensors) {
      bool const normal = t.initial.formula().kind == zero::Initial::Kind::normal;
      auto const& a = host.of[number];
      auto const& b = whole.of[number++];
      REQUIRE(std::ssize(a) == t.elements());
      REQUIRE(a.size() == b.size());
      for (std::size_t i = 0; i < a.size(); ++i) {
        // Neighbours of one sign have neighbouring bits.
        auto const units = std::abs(std::int64_t{std::bit_cast<std::int32_t>(a[i])} -
                                    std::int64_t{std::bit_cast<std::int32_t>(b[i])});
        wrong += units > (normal ? 1 : 0);
        apart += units != 0;
        ++elements;
      }
    }
  }
  MESSAGE("of " << elements << " initial weights " << apart << " are not the host's to the bit");
  CHECK(number == host.of.size());
  CHECK(wrong == 0);
  // Both are made in double with errors of at most 2^-49 of their size, so that two of 2^-24 /
  // 2^-49 may be rounded to another float.
  CHECK(apart * (Index{1} << 24) <= elements);
  CHECK((host.hash == whole.hash) == (apart == 0));
}

}  // namespace
}  // namespace gpt2_test
