// SPDX-License-Identifier: Apache-2.0
#include <zero/launch/threads.hpp>
#include <zero/report/slices.hpp>
#include <zero/step/trainer.hpp>

#include <cases/train.hpp>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>

namespace cases {

namespace {

/// Where each tensor starts among the trainable elements, by its number; -1: frozen.
std::vector<Index> places(zero::Units const& units) {
  std::vector<Index> begins;
  Index end = 0;
  for (zero::Unit const& unit : units) {
    for (zero::Tensor const& tensor : unit.tensors) {
      begins.push_back(tensor.trainable ? end : -1);
      end += tensor.trainable ? tensor.elements() : 0;
    }
  }
  return begins;
}

Index trainable_elements(zero::Units const& units) {
  Index n = 0;
  for (zero::Unit const& unit : units) {
    for (zero::Tensor const& tensor : unit.tensors) n += tensor.trainable ? tensor.elements() : 0;
  }
  return n;
}

/// Copies this rank's pieces into a row that all ranks share; their pieces do not overlap.
auto into(std::vector<float>& row, std::vector<Index> const& begins) {
  return [&row, &begins](zero::PlacedTensor const& t, Index first, std::span<float const> values) {
    std::copy(values.begin(), values.end(), row.begin() + begins[at(t.number)] + first);
  };
}

template <class Trainer>
double squares_of_own_record(Trainer& trainer) {
  auto& context = trainer.context();
  auto claim = context.records().template on<double>(context.compute);
  std::span<double> const records = claim.view();
  return records[at(context.rank() * zero::norm_record_doubles)];
}

template <class Trainer>
std::vector<float> parameters_seen(Trainer& trainer, zero::Units const& units) {
  std::vector<float> seen;
  trainer.evaluate([&](auto& pass) {
    for (int u = 0; u < std::ssize(units); ++u) {
      auto const parameters = pass.forward(u);
      for (Index i = 0; i < std::ssize(units[at(u)].tensors); ++i) {
        if (!units[at(u)].tensors[at(i)].trainable) continue;
        for (auto value : std::span(parameters[i].address(), at(parameters[i].size())))
          seen.push_back(static_cast<float>(value));
      }
    }
  });
  return seen;
}

template <class Sharding, class Precision, class Optimizer>
Outcome train_as(Training const& training, Optimizer const& optimizer, std::size_t num_steps) {
  std::vector<Index> const begins = places(training.units);
  Index const elements = trainable_elements(training.units);
  auto const world = at(training.world);

  Outcome outcome;
  outcome.steps.resize(num_steps);
  for (AfterStep& step : outcome.steps) {
    step.weights.assign(at(elements), std::nanf(""));
    if (Optimizer::num_states > 0) step.m = step.weights;
    if (Optimizer::num_states > 1) step.v = step.weights;
    step.ranks.resize(world);
  }
  outcome.parameters.resize(world);
  outcome.parameters_hash.resize(world);
  outcome.owned.resize(world);
  outcome.memory.resize(world);
  outcome.peak_bytes.resize(world);

  zero::launch<zero::Threads>(training.world, [&](auto communicator) {
    int const rank = communicator.rank();
    zero::Trainer trainer{GivenGradients{training.units, training.loss},
                          communicator,
                          optimizer,
                          training.options,
                          Sharding{},
                          Precision{}};
    zero::Ledger const& ledger = communicator.device().ledger();
    Steps const steps = training.steps(rank);
    for (std::size_t s = 0; s < num_steps; ++s) {
      try {
        trainer.step(steps[s]);
      } catch (std::exception const& e) {
        if (training.failed) training.failed(rank, e);
        throw;
      }
      AfterStep& after = outcome.steps[s];
      zero::read_weights(trainer, into(after.weights, begins));
      if (Optimizer::num_states > 0) zero::read_state(trainer, 0, into(after.m, begins));
      if (Optimizer::num_states > 1) zero::read_state(trainer, 1, into(after.v, begins));
      after.ranks[at(rank)] = {trainer.decision(), squares_of_own_record(trainer), ledger.bytes()};
      if (training.saw) training.saw(rank, after.ranks[at(rank)].decision);
      if (training.after_step) training.after_step(rank, static_cast<Index>(s), ledger);
    }
    zero::read_weights(trainer,
                       [&](zero::PlacedTensor const&, Index, std::span<float const> values) {
                         outcome.owned[at(rank)] += std::ssize(values);
                       });
    outcome.parameters[at(rank)] = parameters_seen(trainer, training.units);
    outcome.parameters_hash[at(rank)] = zero::parameters_hash(trainer);
    outcome.memory[at(rank)] = ledger.kinds();
    outcome.peak_bytes[at(rank)] = ledger.peak_bytes();
  });
  return outcome;
}

template <class Precision, class Optimizer>
Outcome train_at_stage(Training const& training, Optimizer const& optimizer) {
  std::size_t const num_steps = training.steps(0).size();
  switch (training.stage) {
    case 0:
      return train_as<zero::Sharded<0>, Precision>(training, optimizer, num_steps);
    case 1:
      return train_as<zero::Sharded<1>, Precision>(training, optimizer, num_steps);
    case 2:
      return train_as<zero::Sharded<2>, Precision>(training, optimizer, num_steps);
    case 3:
      return train_as<zero::Sharded<3>, Precision>(training, optimizer, num_steps);
    default:
      throw zero::InvalidArgument("train: no stage " + std::to_string(training.stage));
  }
}

}  // namespace

Outcome train(Training const& training) {
  return std::visit(
      [&](auto const& optimizer) {
        switch (training.precision) {
          case Precision::fp32:
            return train_at_stage<zero::Fp32>(training, optimizer);
          case Precision::bf16:
            return train_at_stage<zero::Bf16Mixed>(training, optimizer);
          default:
            return train_at_stage<zero::Fp16Mixed>(training, optimizer);
        }
      },
      training.optimizer);
}

zero::Units make_units(std::vector<std::vector<Index>> const& sizes,
                       std::function<double(Index element)> initial) {
  zero::Units units;
  Index first = 0;
  for (std::vector<Index> const& unit_sizes : sizes) {
    std::string const name = "unit_" + std::to_string(units.size());
    zero::Unit& unit = units.emplace_back(zero::Unit{name, {}});
    for (Index size : unit_sizes) {
      zero::Tensor tensor{.name = name + ".tensor_" + std::to_string(unit.tensors.size()),
                          .shape = {size}};
      if (initial) {
        tensor.initial = zero::Initial::function(
            [initial, first](Index i) { return static_cast<float>(initial(first + i)); });
      }
      unit.tensors.push_back(tensor);
      first += size;
    }
  }
  return units;
}

bool same_bits(std::vector<float> const& a, std::vector<float> const& b) {
  if (a.size() != b.size()) return false;
  return a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

double largest_difference(std::vector<float> const& a, std::vector<double> const& b) {
  double const infinity = std::numeric_limits<double>::infinity();
  if (a.size() != b.size()) return infinity;
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    double const difference = std::abs(static_cast<double>(a[i]) - b[i]);
    largest = std::isnan(difference) ? infinity : std::max(largest, difference);
  }
  return largest;
}

}  // namespace cases
