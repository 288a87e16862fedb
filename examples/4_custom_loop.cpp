// SPDX-License-Identifier: Apache-2.0
// A training loop of one's own, from the parts that Trainer is made of. Each step it looks at eight
// pairs of angles in forward-only passes and trains on the worst of them: two forwards, then one
// backward for both. A Trainer that is given the same pairs must end with the same bits at every
// stage; where it does not, this program fails.
#include <zero/zero.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace {

using zero::Index;
using Pair = std::pair<float, float>;  // two angles

// Maps an angle to a vector; the product of two vectors is to be the cosine of the angles'
// difference.
class Twin {
 public:
  using Batch = Pair;

  static constexpr int layers = 3, width = 48;
  using Row = std::array<float, width>;
  using Rows = std::array<Row, layers + 1>;  // an input, and what each layer makes of it

  zero::Units units() const {
    zero::Units all;
    for (int k = 0; k < layers; ++k) {
      std::string const name = "layer." + std::to_string(k);
      all.push_back({name,
                     {{name + ".weight", {width, width}, zero::Initial::normal(0.15)},
                      {.name = name + ".bias", .shape = {width}, .decay = 0}}});
    }
    return all;
  }

  zero::Schedule schedule() const {
    zero::Schedule order;
    for (int k = 0; k < 2 * layers; ++k) order.push_back({k % layers, zero::Phase::forward});
    for (int k = layers; k-- > 0;) order.push_back({k, zero::Phase::backward});
    return order;
  }

  template <class Pass>
  Rows forward(Pass& pass, float angle) const {
    using P = typename Pass::Parameter;
    Rows x{};
    for (int i = 0; i < width; ++i) x[0][i] = std::sin(angle + 0.5f * i);
    for (int k = 0; k < layers; ++k) {
      auto const lease = pass.forward(k);
      std::span<P const> const weight = lease[0], bias = lease[1];
      for (int i = 0; i < width; ++i) {
        float sum = float(bias[i]);
        for (int j = 0; j < width; ++j) sum += float(weight[i * width + j]) * x[k][j];
        x[k + 1][i] = std::tanh(sum);
      }
    }
    return x;
  }

  // How far the product of two vectors is from what it should be.
  static float error(Rows const& a, Rows const& b, Pair angles) {
    float product = 0;
    for (int i = 0; i < width; ++i) product += a[layers][i] * b[layers][i] / width;
    return product - std::cos(angles.first - angles.second);
  }

  // The backward of error^2 through both forwards.
  template <class Pass>
  void backward(Pass& pass, Rows const& a, Rows const& b, float error) const {
    using P = typename Pass::Parameter;
    using G = typename Pass::Gradient;
    std::span<float const> const scale = pass.loss_scale();
    Row da, db;
    for (int i = 0; i < width; ++i) {
      da[i] = scale[0] * 2 * error * b[layers][i] / width;
      db[i] = scale[0] * 2 * error * a[layers][i] / width;
    }
    for (int k = layers; k-- > 0;) {
      for (int i = 0; i < width; ++i) {
        da[i] *= 1 - a[k + 1][i] * a[k + 1][i];
        db[i] *= 1 - b[k + 1][i] * b[k + 1][i];
      }
      // A unit's only backward visit may assign its gradients instead of adding to zeros.
      auto lease = pass.backward(k, zero::Fill::overwrite);
      std::span<G> const d_weight = lease.gradients[0], d_bias = lease.gradients[1];
      for (int i = 0; i < width; ++i) {
        d_bias[i] = G(da[i] + db[i]);
        for (int j = 0; j < width; ++j)
          d_weight[i * width + j] = G(da[i] * a[k][j] + db[i] * b[k][j]);
      }
      lease.gradients.end();  // its reduction may start while the rest goes on
      std::span<P const> const weight = lease.parameters[0];
      Row da_below{}, db_below{};
      for (int i = 0; i < width; ++i) {
        for (int j = 0; j < width; ++j) {
          da_below[j] += float(weight[i * width + j]) * da[i];
          db_below[j] += float(weight[i * width + j]) * db[i];
        }
      }
      da = da_below;
      db = db_below;
    }
  }

  // What Trainer calls.
  template <class Pass>
  double operator()(Pass& pass, Pair const& angles) const {
    Rows const a = forward(pass, angles.first), b = forward(pass, angles.second);
    float const e = error(a, b, angles);
    if constexpr (Pass::trains) backward(pass, a, b, e);
    return e * e;
  }
};

// Eight pairs of this rank in this step.
std::vector<Pair> candidates(int step, int rank) {
  std::vector<Pair> pairs;
  for (int i = 0; i < 8; ++i) {
    auto const angle = [&](int which) {
      return static_cast<float>(6.28 * zero::noise_uniform(1, 2 * rank + which, 8 * step + i));
    };
    pairs.push_back({angle(0), angle(1)});
  }
  return pairs;
}

// The `count` pairs with the largest loss.
template <class Loss>
std::vector<Pair> worst(std::vector<Pair> const& pairs, std::size_t count, Loss loss) {
  std::vector<std::pair<double, Pair>> rated;
  for (Pair const& pair : pairs) rated.push_back({loss(pair), pair});
  std::sort(rated.rbegin(), rated.rend());
  std::vector<Pair> chosen;
  for (std::size_t i = 0; i < count; ++i) chosen.push_back(rated[i].second);
  return chosen;
}

// All bytes of a slot, once the work on them is done.
template <class Context>
std::vector<std::byte> bytes(Context& context, zero::Slot<typename Context::Device>& slot) {
  std::vector<std::byte> host(static_cast<std::size_t>(slot.bytes()));
  auto const claim = slot.template on<std::byte>(context.compute);
  copy_out(context.compute, host.data(), claim.view());
  context.compute.synchronize();
  return host;
}

template <class Sharding>
bool same_bits(Sharding sharding) {
  constexpr int ranks = 4, steps = 60;
  std::atomic<bool> same = true;
  zero::launch<zero::Threads>(ranks, [&](auto communicator) {
    zero::AdamW const adamw{.lr = 3e-3f};
    zero::Options const options{.accumulation = 3, .clip = 1.0f};
    Twin const twin;

    // The parts, each of which may be used without the others' help.
    zero::Context context{twin, communicator, adamw, options, sharding, zero::Bf16Mixed{}};
    zero::Parameters parameters{context};
    zero::Gradients gradients{context};
    zero::OptimizerState state{context, adamw};

    // What they are held against.
    zero::Trainer trainer{twin, communicator, adamw, options, sharding, zero::Bf16Mixed{}};

    double first_loss = 0, last_loss = 0;
    for (int step = 0; step < steps; ++step) {
      auto const pairs = candidates(step, communicator.rank());
      std::size_t const count = 1 + step % 3;  // micro-batches of this step; on every rank as many

      auto const chosen = worst(pairs, count, [&](Pair const& pair) {
        zero::Pass pass{parameters};  // forward only: gathers, never reduces
        double const loss = twin(pass, pair);
        pass.end();
        return loss;
      });
      double loss = 0;
      for (std::size_t i = 0; i < count; ++i) {
        zero::MicroBatch const number{static_cast<Index>(i), static_cast<Index>(count)};
        zero::Pass pass{parameters, gradients, number};
        Twin::Rows const a = twin.forward(pass, chosen[i].first);
        Twin::Rows const b = twin.forward(pass, chosen[i].second);
        float const error = Twin::error(a, b, chosen[i]);
        twin.backward(pass, a, b, error);
        pass.end();
        loss += error * error / static_cast<float>(count);
      }
      state.decide(gradients, static_cast<Index>(count));
      state.update(parameters, gradients);
      parameters.publish();
      if (step == 0) first_loss = loss;
      last_loss = loss;

      auto const same_pairs =
          worst(pairs, count, [&](Pair const& pair) { return trainer.evaluate(pair); });
      trainer.step(same_pairs);
    }

    for (int unit = 0; unit < Twin::layers; ++unit) {
      auto& other = trainer.optimizer_state();
      bool const equal = bytes(context, state.master_slot(unit)) ==
                             bytes(trainer.context(), other.master_slot(unit)) &&
                         bytes(context, state.state_slot(unit)) ==
                             bytes(trainer.context(), other.state_slot(unit)) &&
                         bytes(context, parameters.kept(unit)) ==
                             bytes(trainer.context(), trainer.parameters().kept(unit));
      if (!equal) same = false;
    }
    if (bytes(context, context.decision()) !=
        bytes(trainer.context(), trainer.context().decision()))
      same = false;
    if (communicator.rank() == 0)
      std::printf("stage %d: loss %.4f at first, %.4f at last", context.shares.facts().stage(),
                  first_loss, last_loss);
  });
  std::printf("; %s\n", same ? "Trainer's bits" : "NOT Trainer's bits");
  return same;
}

}  // namespace

int main() {
  bool const same[] = {same_bits(zero::Sharded<0>{}), same_bits(zero::Sharded<1>{}),
                       same_bits(zero::Sharded<2>{}), same_bits(zero::Sharded<3>{})};
  return std::count(std::begin(same), std::end(same), false) == 0 ? 0 : 1;
}
