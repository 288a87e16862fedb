// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a user's model must be.

#include <zero/model/visit.hpp>

#include <concepts>

namespace zero {

/// A model, apart from being called.
/// - M::Batch: what one micro-batch is.
/// - units(): the description of its parameters; equal on every rank, and at every call.
/// - schedule(), optional: the order of its visits; equal on every rank. Else default_schedule.
template <class M>
concept Model = requires(M const& model) {
  typename M::Batch;
  { model.units() } -> std::convertible_to<Units>;
};

/// A model that states its own order of visits.
template <class M>
concept HasSchedule = Model<M> && requires(M const& model) {
  { model.schedule() } -> std::convertible_to<Schedule>;
};

/// A model that can be run with passes of type P: model(pass, batch) performs one micro-batch, the
/// forward visits, the loss and, `if constexpr (P::trains)`, the backward visits. It returns
/// nothing, or the loss where the host may read device memory.
template <class M, class P>
concept ModelFor = Model<M> && requires(M& model, P& pass, typename M::Batch const& batch) {
  model(pass, batch);
};

/// Everything that is planned from: what a model is made of and the order in which it is used.
struct Description {
  Units units;        ///< in order
  Schedule schedule;  ///< of one micro-batch
};

/// The model's units, and its own order of visits or the default.
template <Model M>
Description describe(M const& model) {
  Description d{model.units(), {}};
  if constexpr (HasSchedule<M>) {
    d.schedule = model.schedule();
  } else {
    d.schedule = default_schedule(static_cast<int>(d.units.size()));
  }
  return d;
}

}  // namespace zero
