// SPDX-License-Identifier: Apache-2.0
// How to bench a model and a policy of one's own: describe the variants, return harness.run().
#include <zero/zero.hpp>

#include <bench/harness.hpp>

#include <span>
#include <string>

namespace {

/// Your model. This one pulls its weights to zero.
struct Mine {
  using Batch = int;
  static constexpr int num_units = 8;

  zero::Units units() const {
    zero::Units all;
    for (int u = 0; u < num_units; ++u) {
      std::string const name = "unit." + std::to_string(u);
      all.push_back({name, {{name + ".weight", {256, 256}, zero::Initial::normal(1)}}});
    }
    return all;
  }
  template <class Pass>
  void operator()(Pass& pass, Batch const&) {
    for (int u = 0; u < num_units; ++u) auto const parameters = pass.forward(u);
    if constexpr (Pass::trains) {
      for (int u = num_units; u-- > 0;) {
        auto const [parameters, gradients] = pass.backward(u);
        std::span<typename Pass::Parameter const> const from = parameters[0];
        std::span<typename Pass::Gradient> const to = gradients[0];
        std::copy(from.begin(), from.end(), to.begin());
      }
    }
  }
};

/// And your policy: any empty type with these facts. This is what Sharded<3> says.
struct MySharding {
  static constexpr zero::PolicyKind kind = zero::PolicyKind::sharding;
  static constexpr bool shards_optimizer = true;
  static constexpr bool shards_gradients = true;
  static constexpr bool shards_parameters = true;
  static constexpr zero::Tier optimizer_tier = zero::Tier::device;
  static constexpr zero::Tier parameter_tier = zero::Tier::device;
};

}  // namespace

int main(int argc, char** argv) {
  bench::Harness harness(argc, argv, "own_model", "A model and a policy of one's own on two ranks");
  auto const add = [&](bench::Variant const& variant, auto sharding) {
    harness.add(variant, [sharding](auto communicator, auto measure) {
      zero::Trainer trainer{Mine{}, communicator, zero::AdamW{}, sharding, zero::Bf16Mixed{}};
      measure([&] { trainer.step(0), trainer.synchronize(); });
      measure.fact("bytes", trainer.plan().total_bytes());
    });
  };
  add({.name = "replicated", .ranks = 2}, zero::Sharded<0>{});
  add({.name = "mine", .ranks = 2, .against = "replicated"}, MySharding{});
  return harness.run();
}
