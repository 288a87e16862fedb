// SPDX-License-Identifier: Apache-2.0
// The trainers of one device and stage; sources.cmake defines ZERO_TEST_DEVICE, from 0, and
// ZERO_TEST_STAGE. On devices other than the host some storages are compiled for some optimizers.
#include <zero/comm/recording.hpp>
#include <zero/launch/threads.hpp>
#include <zero/report/slices.hpp>
#include <zero/report/wire_plan.hpp>
#include <zero/step/trainer.hpp>

#include <cases/given_gradients.hpp>
#include <optimizers/run.hpp>
#include <support/joined.hpp>
#if ZERO_TEST_DEVICE == 1
#include <support/late_device.hpp>
#elif ZERO_TEST_DEVICE == 2
#include <support/guarded_device.hpp>
#endif

#include <limits>
#include <stdexcept>
#include <type_traits>

namespace optimizers {
namespace {

#if ZERO_TEST_DEVICE == 0
using D = zero::Host;
#elif ZERO_TEST_DEVICE == 1
using D = zero_test::LateDevice;
#else
using D = zero_test::GuardedDevice;
#endif

/// One vector a tensor, with room where it is trained.
Tensors room() {
  Tensors tensors;
  for (zero::Unit const& unit : units()) {
    for (zero::Tensor const& tensor : unit.tensors)
      tensors.emplace_back(tensor.trainable ? at(tensor.elements()) : 0);
  }
  return tensors;
}

cases::GivenGradients::Batch batch_of(Setup const& setup, int step, int rank) {
  cases::GivenGradients::Batch batch;
  for (auto const& tensor : room()) {
    for (std::size_t i = 0; i < tensor.size(); ++i)
      batch.push_back(gradient(step, setup.same_gradients ? 0 : rank, std::ssize(batch)));
  }
  if (step == setup.bad_step && rank == setup.world - 1)
    batch[0] = std::numeric_limits<float>::infinity();
  return batch;
}

/// Copies this rank's pieces into tensors that all ranks share.
auto into(Tensors& to) {
  return [&to](zero::PlacedTensor const& t, Index first, std::span<float const> values) {
    std::copy(values.begin(), values.end(), to[at(t.number)].begin() + first);
  };
}

template <class Trainer>
Tensors seen(Trainer& trainer) {
  using Parameter = typename Trainer::Parameter;
  std::vector<std::vector<Parameter>> host;
  for (auto const& tensor : room()) host.emplace_back(tensor.size());
  zero::Layout const& layout = trainer.context().layout;
  trainer.evaluate([&](auto& pass) {
    for (int u = 0; u < layout.size(); ++u) {
      auto const lease = pass.forward(u);
      for (std::size_t i = 0; i < layout[u].tensors.size(); ++i) {
        zero::PlacedTensor const& t = layout[u].tensors[i];
        if (t.trainable)
          copy_out(pass.stream(), host[at(t.number)].data(), lease[static_cast<Index>(i)]);
      }
    }
  });
  trainer.synchronize();
  Tensors result;
  for (auto const& tensor : host) {
    result.emplace_back();
    for (Parameter x : tensor) result.back().push_back(static_cast<float>(x));
  }
  return result;
}

template <class Precision, class State, class O>
Outcome train(Setup const& setup, O const& optimizer) {
  Outcome outcome;
  for (int s = 0; s < setup.steps; ++s) {
    AfterStep& step = outcome.steps.emplace_back();
    step.weights = room();
    for (int k = 0; k < O::num_states; ++k) step.states[at(k)] = step.weights;
    step.decisions.resize(at(setup.world));
  }
  outcome.ranks.resize(at(setup.world));
  outcome.parameters.resize(at(setup.world));
  zero::launch<zero::ThreadsOn<D>>(setup.world, [&](zero::ThreadCommunicator<D> ranks) {
    int const rank = ranks.rank();
    zero::CollectiveLog log;
    zero::Trainer trainer{cases::GivenGradients{units()},
                          zero::Recording<zero::ThreadCommunicator<D>>(ranks, log),
                          optimizer,
                          setup.options,
                          zero::Sharded<ZERO_TEST_STAGE>{},
                          Precision{},
                          State{}};
    Numbers& numbers = outcome.ranks[at(rank)];
    zero::Ledger& ledger = trainer.context().device().ledger();
    auto const doubles = [&] {
      return log.totals("clip").elements + log.totals("update").elements;
    };
    for (int s = 0; s < setup.steps; ++s) {
      Index const before = doubles();
      Index const collectives = log.totals("update").collectives;
      auto const batch = batch_of(setup, s, rank);
      trainer.step(batch);
      AfterStep& after = outcome.steps[at(s)];
      zero::read_weights(trainer, into(after.weights));
      for (int k = 0; k < O::num_states; ++k)
        zero::read_state(trainer, k, into(after.states[at(k)]));
      after.decisions[at(rank)] = trainer.decision();
      numbers.doubles = doubles() - before;
      numbers.update_collectives = log.totals("update").collectives - collectives;
      if (s == 0) numbers.late_allocations = -ledger.allocations();
    }
    numbers.late_allocations += ledger.allocations();
    numbers.hash = zero::parameters_hash(trainer);
    outcome.parameters[at(rank)] = seen(trainer);
    numbers.planned_bytes = trainer.plan().total_bytes();
    numbers.peak_bytes = ledger.peak_bytes();
    for (auto const& kind : ledger.kinds())
      if (kind.name == "optimizer state") numbers.state_bytes = kind.bytes;
    numbers.planned_doubles = zero::plan_wire_doubles(units(), trainer.context().world(),
                                                      trainer.context().shares.facts());
  });
  return outcome;
}

template <class O>
Outcome train(Setup const& setup, O const& optimizer) {
  using zero::bf16, zero::State;
  constexpr bool host = ZERO_TEST_DEVICE == 0;
  constexpr bool adamw = std::is_same_v<O, zero::AdamW>;
  constexpr bool lamb = std::is_same_v<O, zero::Lamb>;  // which reads weights before it moves them
  switch (setup.storage) {
    case Storage::floats:
      return train<zero::Fp32, State<float>>(setup, optimizer);
    case Storage::all_short:
      return train<zero::Bf16Split, State<bf16>>(setup, optimizer);
    case Storage::mixed:
      if constexpr (host || adamw || lamb)
        return train<zero::Bf16Mixed, State<float>>(setup, optimizer);
      break;
    case Storage::split:
      if constexpr (host || adamw) return train<zero::Bf16Split, State<float>>(setup, optimizer);
      break;
    case Storage::short_states:
      if constexpr (host || adamw) return train<zero::Fp32, State<bf16>>(setup, optimizer);
      break;
    case Storage::half:
      if constexpr (host || lamb) return train<zero::Fp16Mixed, State<float>>(setup, optimizer);
      break;
  }
  throw std::logic_error("this storage of this optimizer is compiled for the host alone");
}

}  // namespace

template <>
Outcome run_as<ZERO_TEST_DEVICE, ZERO_TEST_STAGE>(Setup const& setup) {
  return std::visit(
      [&](auto const& optimizer) {
        if constexpr (ZERO_TESTS_SANITIZED) {  // their tenth
          return train(setup, zero_test::joined(optimizer));
        } else {
          return train(setup, optimizer);
        }
      },
      setup.optimizer);
}

}  // namespace optimizers
