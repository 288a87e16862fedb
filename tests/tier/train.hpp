// SPDX-License-Identifier: Apache-2.0
#pragma once
// The body of a run: one trainer a rank, and all that is read of it.

#include <zero/comm/recording.hpp>
#include <zero/launch/threads.hpp>
#include <zero/report/slices.hpp>
#include <zero/step/trainer.hpp>

#include <cases/given_gradients.hpp>
#include <tier/io_faults.hpp>
#include <tier/run.hpp>

#include <algorithm>
#include <stdexcept>

namespace tier_test {

/// One vector a tensor, with room where it is trained.
inline Tensors room(Setup const& setup) {
  Tensors tensors;
  for (zero::Unit const& unit : *setup.model) {
    for (zero::Tensor const& tensor : unit.tensors)
      tensors.emplace_back(tensor.trainable ? at(tensor.elements()) : 0);
  }
  return tensors;
}

inline std::vector<std::vector<float>> batches_of(Setup const& setup, int step, int rank) {
  std::vector<std::vector<float>> batches(
      at(step == 0 ? setup.options.accumulation : setup.micro_batches));
  Index elements = 0;
  for (auto const& tensor : room(setup)) elements += std::ssize(tensor);
  for (std::size_t m = 0; m < batches.size(); ++m) {
    for (Index i = 0; i < elements; ++i)
      batches[m].push_back(setup.gradient(step, static_cast<Index>(m), rank, i));
  }
  if (step == setup.bad_step && rank == (setup.bad_rank < 0 ? setup.world - 1 : setup.bad_rank))
    batches.back()[at(setup.bad_element)] = setup.bad_value;
  return batches;
}

/// Copies this rank's pieces into tensors that all ranks share.
inline auto into(Tensors& to) {
  return [&to](zero::PlacedTensor const& t, Index first, std::span<float const> values) {
    std::copy(values.begin(), values.end(), to[at(t.number)].begin() + first);
  };
}

template <class Trainer>
Tensors seen(Setup const& setup, Trainer& trainer) {
  using Parameter = typename Trainer::Parameter;
  std::vector<std::vector<Parameter>> host;
  for (auto const& tensor : room(setup)) host.emplace_back(tensor.size());
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

/// Elements of the units' padding that are not 0.
template <class Trainer>
Index padding(Trainer& trainer) {
  using Parameter = typename Trainer::Parameter;
  zero::Layout const& layout = trainer.context().layout;
  std::vector<std::vector<Parameter>> units;
  for (int u = 0; u < layout.size(); ++u) units.emplace_back(at(layout.elements(u)));
  trainer.evaluate([&](auto& pass) {
    for (int u = 0; u < layout.size(); ++u) {
      auto const lease = pass.forward(u);
      copy_out(pass.stream(), units[at(u)].data(), lease.flat());
    }
  });
  trainer.synchronize();
  Index n = 0;
  for (int u = 0; u < layout.size(); ++u) {
    std::vector<Parameter>& unit = units[at(u)];
    for (std::size_t i = 0; i < layout[u].tensors.size(); ++i)
      std::fill_n(unit.begin() + layout.offset(u, static_cast<Index>(i)),
                  layout[u].tensors[i].elements, Parameter(0.0f));
    n += std::count_if(unit.begin(), unit.end(),
                       [](Parameter x) { return !(static_cast<float>(x) == 0); });
  }
  return n;
}

inline Bytes bytes_of(zero::Ledger const& ledger, Index planned) {
  return {planned, ledger.peak_bytes(), ledger.bytes()};
}

template <class D, class Sharding, class Precision, class State, class O,
          class Checking = zero::CheckedGradients>
Outcome train(Setup const& setup, O const& optimizer) {
  Outcome outcome;
  for (int s = 0; s < setup.steps; ++s) {
    AfterStep& step = outcome.steps.emplace_back();
    step.weights = room(setup);
    for (int k = 0; k < O::num_states; ++k) step.states[at(k)] = step.weights;
    step.decisions.resize(at(setup.world));
  }
  outcome.ranks.resize(at(setup.world));
  outcome.parameters.resize(at(setup.world));
  zero::Options options = setup.options;
  if (options.offload.nvme_path.empty()) options.offload.nvme_path = folder();
  if (options.offload.transfers == nullptr)
    options.offload.transfers = transfers_for(options.offload);
  zero::launch<zero::ThreadsOn<D>>(setup.world, [&](zero::ThreadCommunicator<D> ranks) {
    int const rank = ranks.rank();
    zero::CollectiveLog log;
    zero::Trainer trainer{cases::GivenGradients{*setup.model},
                          zero::Recording<zero::ThreadCommunicator<D>>(ranks, log),
                          optimizer,
                          options,
                          Sharding{},
                          Precision{},
                          State{},
                          Checking{}};
    auto& context = trainer.context();
    Numbers& numbers = outcome.ranks[at(rank)];
    auto const allocations = [&] {
      Index n = context.device().ledger().allocations();
      if constexpr (std::remove_cvref_t<decltype(context)>::has_tiers)
        n += context.tiers.memory().ledger().allocations() + context.tiers.files().allocations();
      return n;
    };
    Index before = 0;
    for (int s = 0; s < setup.steps; ++s) {
      auto const batches = batches_of(setup, s, rank);
      log.clear();
      trainer.step(batches);
      trainer.synchronize();  // batches are read until then
      numbers.wire_elements = log.wire_elements();
      AfterStep& after = outcome.steps[at(s)];
      zero::read_weights(trainer, into(after.weights));
      for (int k = 0; k < O::num_states; ++k)
        zero::read_state(trainer, k, into(after.states[at(k)]));
      after.decisions[at(rank)] = trainer.decision();
      if (s == 0) before = allocations();
      if (setup.after_step) {
        Index live = context.device().ledger().bytes();
        if constexpr (std::remove_cvref_t<decltype(context)>::has_tiers)
          live += context.tiers.memory().ledger().bytes() + context.tiers.files().bytes();
        setup.after_step(rank, s, live);
      }
    }
    numbers.late_allocations = allocations() - before;
    numbers.hash = zero::parameters_hash(trainer);
    outcome.parameters[at(rank)] = seen(setup, trainer);
    numbers.padding = padding(trainer);
    numbers.device = bytes_of(context.device().ledger(), trainer.plan().total_bytes());
    for (auto const& kind : context.device().ledger().kinds())
      if (kind.name == "optimizer state") numbers.state_bytes = kind.peak_bytes;
    if constexpr (std::remove_cvref_t<decltype(context)>::has_tiers) {
      zero::TierPlan const& plan = trainer.plan().tiers;
      numbers.host = bytes_of(context.tiers.memory().ledger(), plan.host_bytes());
      numbers.nvme = bytes_of(context.tiers.files(), plan.nvme_bytes());
      numbers.locked = bytes_of(context.tiers.memory().locked(), plan.locked_bytes());
    }
  });
  return outcome;
}

}  // namespace tier_test
