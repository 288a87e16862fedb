// SPDX-License-Identifier: Apache-2.0
// Reduced gradients of the trained model against one rank that computes all of it in double.
//
// The bound is carried along with the double computation (tracked.hpp), operation by operation, so
// it is made of sizes (how many operations a value has gone through), eps (2^-24, and 2^-8 where a
// gradient is bf16) and magnitudes (of the values themselves). By hand, for an element of a tensor
// of n elements at layer k of L: z is a sum of about n / 5 products of numbers below 1 in size, so
// it is off by about (n / 5) u sum|x w|; going through L layers and back multiplies by a factor of
// the order of L; the element's gradient is a sum of 3 products: in all some
// 2 L (n / 5 + 3) u |g| per rank, which for n = 713, L = 8 is about 2,300 u |g| = 1.4e-4 |g|; in
// bf16 h |g| = 3.9e-3 |g| for each time that it is rounded: at the model's own addition (each use
// of the unit) and as in given_gradients_test.cpp from there on.

#include <equivalence/reduction.hpp>
#include <support/agreement.hpp>

#include <cstdio>
#include <string>
#include <utility>

namespace zero_test {
namespace {

using Locals = std::vector<std::vector<Tracked>>;  // [tensor][element]

/// One rank's gradients of one micro-batch.
template <bool Halves>
Locals local_gradients(ModelSpec const& model, Tensors const& parameters, Batch const& batch) {
  chain::Count const layers = static_cast<chain::Count>(model.chain.size());
  chain::Memory<Tracked> memory(layers);
  auto const row = [](std::vector<Tracked>& all, chain::Count k) {
    return all.data() + k * chain::cells;
  };
  std::vector<std::vector<TrackedGradient<Halves>>> gradients;
  std::vector<std::vector<std::size_t>> numbers;  // [unit]: its tensors
  for (zero::Unit const& unit : model.units) {
    numbers.emplace_back();
    for (zero::Tensor const& tensor : unit.tensors) {
      numbers.back().push_back(gradients.size());
      gradients.emplace_back(tensor.trainable ? zero::at(tensor.elements()) : 0);
    }
  }
  auto const tensors_of = [&](chain::Count k) -> auto const& {
    return numbers[zero::at(model.chain[zero::at(k)])];
  };
  auto const size = [](auto const& values) { return static_cast<chain::Count>(values.size()); };
  for (chain::Count i = 0; i < chain::cells; ++i)
    memory.x[zero::at(i)] = Tracked(static_cast<double>(batch.input[zero::at(i)]));
  for (chain::Count k = 0; k < layers; ++k) {
    for (std::size_t t : tensors_of(k))
      chain::apply(row(memory.z, k), row(memory.x, k), parameters[t].data(), size(parameters[t]));
    chain::finish(row(memory.x, k + 1), row(memory.x, k), row(memory.z, k));
  }
  chain::loss(row(memory.dx, layers), row(memory.x, layers), batch.target.data(), 1.0f);
  for (chain::Count k = layers; k-- > 0;) {
    Tracked* const dz = row(memory.dz, k);
    chain::begin_back(dz, row(memory.dx, k), row(memory.dx, k + 1), row(memory.z, k));
    for (std::size_t t : tensors_of(k)) {
      chain::apply_back(row(memory.dx, k), dz, parameters[t].data(), size(parameters[t]));
      chain::add_gradient(gradients[t].data(), dz, row(memory.x, k), size(gradients[t]), false);
    }
  }
  Locals result(gradients.size());
  for (std::size_t t = 0; t < gradients.size(); ++t) {
    for (auto const& g : gradients[t]) result[t].push_back(g.sum);
  }
  return result;
}

/// The parameters that step s computes with.
Tensors parameters_of(Config const& config, Result const& result, int s) {
  Tensors parameters;
  zero::Index number = 0;
  for (zero::Unit const& unit : config.model.units) {
    for (zero::Tensor const& tensor : unit.tensors) {
      auto& values = parameters.emplace_back();
      for (zero::Index i = 0; i < tensor.elements(); ++i) {
        float value = tensor.initial.value(config.options.seed, number, i);
        if (tensor.trainable && s > 0)
          value = result.snapshots[zero::at(s - 1)].weights[zero::at(number)][zero::at(i)];
        values.push_back(config.bf16 ? to_16_bits(value) : value);
      }
      ++number;
    }
  }
  return parameters;
}

struct Found {
  Ratio error;
  Ratio missing;
  Ratio twice;
};

template <bool Halves>
Found measure(Config const& config, Result const& result) {
  Found found;
  Path const path{
      config.bf16, config.options.accumulation > 1,
      config.options.reduction.value_or(zero::Reduction::boundary) == zero::Reduction::boundary};
  for (int s = 0; s < config.steps; ++s) {
    Tensors const parameters = parameters_of(config, result, s);
    std::vector<std::vector<Locals>> locals(zero::at(config.options.accumulation));
    for (int r = 0; r < config.world; ++r) {
      for (Batch const& batch : make_batches(config, r, s))
        locals[zero::at(batch.micro)].push_back(
            local_gradients<Halves>(config.model, parameters, batch));
    }
    Tensors const& got = result.snapshots[zero::at(s)].gradients;
    for (std::size_t t = 0; t < got.size(); ++t) {
      for (std::size_t i = 0; i < got[t].size(); ++i) {
        std::vector<std::vector<Tracked>> given(locals.size());
        for (std::size_t m = 0; m < locals.size(); ++m) {
          for (Locals const& of_rank : locals[m]) given[m].push_back(of_rank[t][i]);
        }
        Tracked const expected = reduced(given, path);
        found.error.add(static_cast<double>(got[t][i]), expected);
        found.missing.add(reduced(given, path, Fault::rank_missing).value, expected);
        found.twice.add(reduced(given, path, Fault::rank_twice).value, expected);
      }
    }
  }
  return found;
}

TEST_CASE("reduced gradients are within the bound of a loop in double") {
  for (ModelSpec const& model : {everything(), ragged_sizes()}) {
    for (Family const& family : families({1, 2, 3, 4})) {
      Config config;
      config.model = model;
      config = family.applied_to(config);
      for (int stage : {0, 3}) {
        config.stage = stage;
        Result const result = run(config);
        Found const found =
            config.bf16 ? measure<true>(config, result) : measure<false>(config, result);
        std::string const where =
            describe(config) + ": error/bound " + std::to_string(found.error.greatest());
        std::printf("%s; a rank missing %.1f, twice %.1f\n", where.c_str(),
                    found.missing.greatest(), found.twice.greatest());
        CHECK_MESSAGE(found.error.greatest() <= 1, where);
        CHECK_MESSAGE(found.error.greatest() > 0, where << ": nothing was compared");
        if (config.world == 1) continue;
        CHECK_MESSAGE(found.missing.greatest() > 1, where << ": a missing rank is not seen");
        CHECK_MESSAGE(found.twice.greatest() > 1, where << ": a doubled rank is not seen");
      }
    }
  }
}

}  // namespace
}  // namespace zero_test
