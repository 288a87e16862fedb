// SPDX-License-Identifier: Apache-2.0
#pragma once
// Uses every member template of a trainer and of its parts: an explicit instantiation reaches all
// other members, but not these.

#include <zero/report/slices.hpp>
#include <zero/step/trainer.hpp>

#include <archetypes/communicator.hpp>
#include <archetypes/model.hpp>
#include <archetypes/optimizer.hpp>

#include <span>
#include <utility>

namespace archetype {

/// Calls the member templates of trainer and parts. Is instantiated, never run.
/// @tparam C the communicator; @tparam S, R the policies
template <class C, class S, class R>
void use_member_templates(Model model, C communicator, Optimizer optimizer, Batch const& batch,
                          std::span<Batch const> batches) {
  zero::Options const options;
  zero::Trainer trainer{std::move(model), communicator, optimizer, options, S{}, R{}};
  trainer.step(batch);
  trainer.step(batch, batch);
  trainer.step(batches);
  trainer.evaluate([&](auto& pass) { auto const w = pass.forward(0); });
  zero::read_weights(trainer, [](auto const&, zero::Index, auto) {});
  zero::read_state(trainer, 0, [](auto const&, zero::Index, auto) {});
  zero::read_frozen(trainer, [](auto const&, zero::Index, auto) {});

  zero::Context context{trainer.model(), communicator, optimizer, options, S{}, R{}};
  zero::Parameters parameters{context};
  zero::Gradients gradients{context};
  zero::OptimizerState state{context, optimizer};
  {
    zero::Pass pass{parameters, gradients, zero::MicroBatch{0, 1}};
    trainer.model()(pass, batch);
    pass.end();
    zero::Pass forward{parameters};
    forward.end();
  }
  gradients.with_sums(0, 0, 64, [](auto) {});
  state.decide(gradients, 1);
  state.update(parameters, gradients);
  parameters.publish();
}

/// The trainer that arguments of these types make. The class is made, none of its members.
template <class... Arguments>
using Deduced = decltype(zero::Trainer{std::declval<Arguments>()...});

template <class C, class S, class R>
using ContextOf = zero::Context<C, zero::Policies<S, R>>;

}  // namespace archetype

/// Instantiates a trainer and its parts in full: C communicator, S sharding, R precision. A macro,
/// since explicit instantiations stand at namespace scope.
#define ZERO_INSTANTIATE(C, S, R)                                                                \
  template class zero::Trainer<archetype::Model, C, archetype::Optimizer, zero::Policies<S, R>>; \
  template class zero::Context<C, zero::Policies<S, R>>;                                         \
  template class zero::Parameters<archetype::ContextOf<C, S, R>>;                                \
  template class zero::Gradients<archetype::ContextOf<C, S, R>>;                                 \
  template class zero::OptimizerState<archetype::ContextOf<C, S, R>, archetype::Optimizer>;      \
  template class zero::Pass<archetype::ContextOf<C, S, R>, true>;                                \
  template class zero::Pass<archetype::ContextOf<C, S, R>, false>;                               \
  template void archetype::use_member_templates<C, S, R>(                                        \
      archetype::Model, C, archetype::Optimizer, archetype::Batch const&,                        \
      std::span<archetype::Batch const>)
