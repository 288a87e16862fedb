// SPDX-License-Identifier: Apache-2.0
// The plan of the GPT of 124 million parameters on a GPU is that on the host, but for what kernels
// work with. Plans are made without a device, so no GPU is needed.

#include <zero/cuda/device.hpp>
#include <zero/zero.hpp>

#include <doctest/doctest.h>
#include <gpt2/units.hpp>

#include <algorithm>
#include <string>

namespace gpt2_test {
namespace {

using zero::Index;

gpt2::Configuration const size{
    .vocabulary = 50304, .context = 1024, .width = 768, .heads = 12, .layers = 12};

template <class D>
zero::MemoryPlan plan_on(zero::Facts const& facts, Index world) {
  return zero::plan_memory(gpt2::units_of(size), gpt2::schedule_of(size), world, facts, {},
                           zero::workspace_bytes<D>, zero::CanPin<D>);
}

Index sum_of(zero::PlannedBuffer const& buffer) {
  Index sum = 0;
  for (auto const& slot : buffer.slots) sum += slot.bytes;
  return sum;
}

/// @param bytes an element has in parameters, gradients and the optimizer's state
template <int Stage, class Precision>
void check_plans(Index bytes) {
  using Policies = zero::Policies<zero::Sharded<Stage>, Precision>;
  zero::Facts const facts = zero::Facts::of<Policies>(zero::AdamW::num_states);
  Index const c = size.width;
  Index const elements =
      (size.vocabulary + size.context) * c + size.layers * (12 * c * c + 13 * c) + 2 * c;
  for (Index world : {1, 4}) {
    CAPTURE(Stage);
    CAPTURE(world);
    auto const host = plan_on<zero::Host>(facts, world);
    auto const gpu = plan_on<zero::cuda::Device>(facts, world);
    // Every unit is divided by four ranks and rows of 64 elements: nothing is padding.
    Index const kept = elements / (Stage == 3 ? world : 1) * bytes;
    CHECK(sum_of(host.parameters) + sum_of(host.gradients) + sum_of(host.optimizer_state) == kept);
    for (std::size_t i = 0; i < host.buffers().size(); ++i) {
      zero::PlannedBuffer const& on_host = *host.buffers()[i];
      zero::PlannedBuffer on_gpu = *gpu.buffers()[i];
      CAPTURE(on_host.kind);
      CHECK(on_host.kind == on_gpu.kind);
      if (on_host.kind == "tables") {
        REQUIRE(on_gpu.slots.size() == on_host.slots.size() + 1);
        CHECK(on_gpu.slots.back().bytes == zero::cuda::Stream::workspace_bytes);
        CHECK(on_gpu.bytes == on_host.bytes + zero::cuda::Stream::workspace_bytes);
        on_gpu.slots.pop_back();
      } else {
        CHECK(on_gpu.bytes == on_host.bytes);
      }
      CHECK(std::equal(on_host.slots.begin(), on_host.slots.end(), on_gpu.slots.begin(),
                       on_gpu.slots.end(), [](auto const& a, auto const& b) {
                         return a.offset_bytes == b.offset_bytes && a.bytes == b.bytes;
                       }));
    }
    CHECK(gpu.tiers.host_bytes() == 0);
  }
}

TEST_CASE(
    "the GPT of 124m is planned alike for the host and a GPU, but for what kernels work with") {
  check_plans<0, zero::Fp32>(4 + 4 + 8);
  check_plans<3, zero::Fp32>(4 + 4 + 8);
  check_plans<0, zero::Bf16Mixed>(2 + 2 + 4 + 8);
  check_plans<3, zero::Bf16Mixed>(2 + 2 + 4 + 8);
}

}  // namespace
}  // namespace gpt2_test
