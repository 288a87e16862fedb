// SPDX-License-Identifier: Apache-2.0
// A model whose gradients lie in buffers of its own trains as one that adds them in place.

#include <zero/zero.hpp>

#include <doctest/doctest.h>
#include <support/late_device.hpp>

#include <memory>
#include <string>
#include <vector>

namespace {

using zero::Index;
using zero::View;
using zero_test::LateDevice;

enum class Way {
  in_place,  ///< adds to the lease
  own,       ///< computes in buffers of its own
  nested     ///< the same; unit 0's two leases are open at once, and end in the order of opening
};

struct Batch {
  int rank = 0;
  int step = 0;
};

/// What a visit adds to a gradient: sixteenths, so that sums are exact in bf16 as well, and
/// rounding is not what is tested.
float part(Batch const& batch, int visit, Index tensor, Index element) {
  auto const key = static_cast<std::uint64_t>(batch.rank * 100 + batch.step * 10 + visit);
  return static_cast<float>(zero::noise_bits(key, tensor, element) % 17) / 16 - 0.5f;
}

/// Two units; the first is used twice and has a frozen tensor, an empty one and odd sizes.
template <class D, class Own>
class Model {
 public:
  using Batch = ::Batch;

  explicit Model(Way way) : way_(way), memory_(std::make_shared<Memory>()) {
    // A visit's own buffers: the two visits of unit 0 may be open at once.
    zero::Units const described = units();
    for (int unit : {0, 1, 0}) {
      auto& buffers = memory_->buffers.emplace_back();
      auto& views = memory_->views.emplace_back();
      for (zero::Tensor const& tensor : described[zero::at(unit)].tensors) {
        Index const n = tensor.trainable ? tensor.elements() : 0;
        buffers.push_back(memory_->device.allocate(n * Index{sizeof(Own)}, "own"));
        views.push_back({reinterpret_cast<Own*>(buffers.back().address()), n});
      }
    }
  }

  zero::Units units() const {
    zero::Tensor frozen{"a.frozen", {9}, zero::Initial::normal(1)};
    frozen.trainable = false;
    return {{"a",
             {{"a.w", {7, 13}, zero::Initial::normal(1)},
              frozen,
              {"a.empty", {0}},
              {"a.b", {65}, zero::Initial::normal(1)}}},
            {"b", {{"b.w", {3}, zero::Initial::normal(1)}}}};
  }
  zero::Schedule schedule() const {
    using enum zero::Phase;
    int const held = way_ == Way::nested ? 2 : 0;
    return {{0, forward}, {1, forward}, {0, backward, held}, {1, backward}, {0, backward}};
  }

  template <class Pass>
  void operator()(Pass& pass, Batch const& batch) {
    auto const first = pass.forward(0);
    auto const second = pass.forward(1);
    if constexpr (Pass::trains) {
      if (way_ == Way::nested) {
        auto outer = pass.backward(0, memory_->views[0]);
        write(pass, batch, 0, 0);
        {
          auto const other = pass.backward(1, memory_->views[1]);
          write(pass, batch, 1, 1);
        }
        auto const inner = pass.backward(0, memory_->views[2]);
        write(pass, batch, 2, 0);
        outer.gradients.end();
        return;
      }
      int const units[] = {0, 1, 0};
      for (int visit = 0; visit < 3; ++visit) {
        int const unit = units[visit];
        if (way_ == Way::own) {
          auto const lease = pass.backward(unit, memory_->views[zero::at(visit)]);
          CHECK(lease.gradients.flat().size() == 0);
          CHECK(lease.gradients[0].size() == 0);
          write(pass, batch, visit, unit);
        } else {
          auto const lease = pass.backward(unit);
          add(pass, batch, visit, unit, lease.gradients);
        }
      }
    }
  }

 private:
  struct Memory {
    D device{};
    std::vector<std::vector<typename D::Buffer>> buffers{};
    std::vector<std::vector<View<Own, D>>> views{};
  };

  template <class Pass>
  void write(Pass& pass, Batch const& batch, int visit, int unit) {
    auto const& views = memory_->views[zero::at(visit)];
    for (std::size_t t = 0; t < views.size(); ++t) {
      pass.stream().enqueue([view = views[t], batch, visit, tensor = number(unit, t)] {
        Own* const to = D::resolve(view.address());
        for (Index i = 0; i < view.size(); ++i) to[i] = Own(part(batch, visit, tensor, i));
      });
    }
  }
  template <class Pass, class Lease>
  void add(Pass& pass, Batch const& batch, int visit, int unit, Lease const& lease) {
    using G = typename Pass::Gradient;
    std::size_t const tensors = units()[zero::at(unit)].tensors.size();
    for (std::size_t t = 0; t < tensors; ++t) {
      pass.stream().enqueue(
          [view = lease[static_cast<Index>(t)], batch, visit, tensor = number(unit, t)] {
            G* const to = D::resolve(view.address());
            for (Index i = 0; i < view.size(); ++i)
              to[i] = G(static_cast<float>(to[i]) + part(batch, visit, tensor, i));
          });
    }
  }
  static Index number(int unit, std::size_t tensor) {
    return unit * 8 + static_cast<Index>(tensor);
  }

  Way way_;
  std::shared_ptr<Memory> memory_;
};

template <class D, class Own, int Stage, class Precision>
std::uint64_t trained(int world, Way way) {
  std::uint64_t hash = 0;
  zero::launch<zero::ThreadsOn<D>>(world, [&](auto communicator) {
    zero::Options options;
    options.accumulation = 2;
    options.reduction = zero::Reduction::micro_batch;
    zero::Trainer trainer{Model<D, Own>(way),     communicator, zero::AdamW{.lr = 0.1f}, options,
                          zero::Sharded<Stage>{}, Precision{}};
    for (int step = 0; step < 3; ++step) {
      Batch const first{communicator.rank(), 2 * step};
      Batch const second{communicator.rank(), 2 * step + 1};
      trainer.step(first, second);
      trainer.synchronize();
    }
    std::uint64_t const mine = zero::parameters_hash(trainer);
    if (communicator.rank() == 0) hash = mine;
  });
  return hash;
}

template <class D, class Own, class Precision>
void check() {
  for (int world : {1, 3}) {
    std::uint64_t const expected = trained<D, Own, 0, Precision>(world, Way::in_place);
    for (Way way : {Way::own, Way::nested}) {
      CHECK(trained<D, Own, 0, Precision>(world, way) == expected);
      CHECK(trained<D, Own, 1, Precision>(world, way) == expected);
      CHECK(trained<D, Own, 2, Precision>(world, way) == expected);
      CHECK(trained<D, Own, 3, Precision>(world, way) == expected);
    }
  }
}

TEST_CASE("gradients in buffers of the model's own give the bits of gradients added in place") {
  check<zero::Host, float, zero::Fp32>();
  check<zero::Host, float, zero::Bf16Mixed>();
  check<zero::Host, zero::bf16, zero::Bf16Mixed>();
  check<LateDevice, float, zero::Bf16Mixed>();
}

/// Hands over buffers that do not fit.
struct Wrong {
  using Batch = int;
  std::vector<Index> sizes;
  zero::Units units() const { return {{"a", {{"a.w", {3}}, {"a.b", {2}}}}}; }
  template <class Pass>
  void operator()(Pass& pass, int const&) {
    if constexpr (Pass::trains) {
      std::vector<float> memory(8, 0.0f);
      std::vector<View<float const, zero::Host>> views;
      for (Index n : sizes) views.push_back({memory.data(), n});
      auto const lease = pass.backward(0, views);
    }
  }
};

std::string refusal(std::vector<Index> sizes) {
  zero::Trainer trainer{Wrong{std::move(sizes)}, zero::SingleRank<>{}, zero::AdamW{}};
  try {
    trainer.step(0);
  } catch (zero::InvalidArgument const& e) {
    return e.what();
  }
  return "";
}

TEST_CASE("buffers that do not fit are refused by the tensor's name") {
  CHECK(refusal({3, 2}).empty());
  CHECK(refusal({3}) == "backward of unit 'a': 1 buffers; it has 2 tensors");
  CHECK(refusal({3, 1}) == "backward of tensor 'a.b': a buffer of 1 elements; expected 2");
  CHECK(refusal({0, 2}) == "backward of tensor 'a.w': a buffer of 0 elements; expected 3");
}

TEST_CASE("parameters are copied into buffers of the model's own") {
  zero::SingleRank<> communicator;
  zero::Trainer trainer{Wrong{{3, 2}}, communicator, zero::AdamW{}, zero::Sharded<3>{},
                        zero::Bf16Mixed{}};
  std::vector<float> weights(3, -1.0f);
  std::vector<float> biases(2, -1.0f);
  trainer.evaluate([&](auto& pass) {
    auto const lease = pass.forward(0);
    std::vector<View<float, zero::Host>> const own{{weights.data(), 3}, {biases.data(), 2}};
    lease.copy_to(std::span(own));
    for (Index i = 0; i < 3; ++i)
      CHECK(weights[zero::at(i)] == static_cast<float>(lease[0].span()[zero::at(i)]));
    std::vector<View<float, zero::Host>> const long_one{{weights.data(), 2}};
    CHECK_THROWS_AS(lease.copy_to(std::span(long_one)), zero::InvalidArgument);
  });
  CHECK(weights == std::vector<float>(3, 0.0f));
  CHECK(biases == std::vector<float>(2, 0.0f));
}

}  // namespace
