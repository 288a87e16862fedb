// SPDX-License-Identifier: Apache-2.0
#pragma once
// A model that walks its schedule, holds leases as long as it declares, and adds gradients that the
// test chose. Takes nothing from the heap while it walks.

#include <zero/device/host.hpp>
#include <zero/model/model.hpp>
#include <zero/step/pass.hpp>

#include <array>
#include <functional>
#include <optional>
#include <span>
#include <utility>

namespace rig {

using zero::Index;

/// A micro-batch: whose it is.
struct Batch {
  int rank = 0;
  Index number = 0;
};

/// What an element of a tensor of a unit gets added at each backward visit.
using GradientOf = std::function<float(Batch const&, int unit, Index tensor, Index element)>;

class Walker {
 public:
  using Batch = rig::Batch;

  /// @param fill whether gradients are added to zeros, or assigned at a unit's first visit
  Walker(zero::Units units, zero::Schedule schedule, GradientOf gradient, zero::Fill fill)
      : units_(std::move(units)),
        schedule_(std::move(schedule)),
        gradient_(std::move(gradient)),
        fill_(fill) {
    if (schedule_.empty()) schedule_ = zero::default_schedule(static_cast<int>(units_.size()));
  }

  zero::Units const& units() const { return units_; }
  zero::Schedule const& schedule() const { return schedule_; }

  template <class Pass>
  void operator()(Pass& pass, Batch const& batch) {
    std::array<std::optional<zero::ParameterLease<Pass>>, max_held + 1> parameters;
    std::array<std::optional<zero::GradientLease<Pass>>, max_held + 1> gradients;
    std::array<int, max_held + 1> until{};  // the visit after whose opening a lease ends
    for (std::size_t i = 0; i < schedule_.size(); ++i) {
      zero::Visit const& visit = schedule_[i];
      std::size_t const place = i % (max_held + 1);
      if (visit.phase == zero::Phase::forward) {
        parameters[place].emplace(pass.forward(visit.unit));
      } else if constexpr (Pass::trains) {
        auto leases = pass.backward(visit.unit, fill_);
        parameters[place].emplace(std::move(leases.parameters));
        gradients[place].emplace(std::move(leases.gradients));
        add(*gradients[place], visit.unit, batch);
      } else {
        break;
      }
      until[place] = static_cast<int>(i) + visit.held;
      for (std::size_t k = 0; k <= max_held; ++k) {
        if (until[k] > static_cast<int>(i)) continue;
        parameters[k].reset();
        gradients[k].reset();
      }
    }
    std::span<double> const loss = pass.loss();
    loss[0] += 1.0;
  }

 private:
  static constexpr std::size_t max_held = 3;

  template <class Lease>
  void add(Lease const& lease, int unit, Batch const& batch) const {
    bool const assigns = fill_ == zero::Fill::overwrite && lease.first();
    auto const tensors = static_cast<Index>(units_[zero::at(unit)].tensors.size());
    for (Index t = 0; t < tensors; ++t) {
      auto const view = lease[t];
      using G = typename std::remove_cvref_t<decltype(view)>::Element;
      std::span<G> const to = view;
      for (std::size_t i = 0; i < to.size(); ++i) {
        float const g = gradient_ ? gradient_(batch, unit, t, static_cast<Index>(i)) : 0.25f;
        to[i] = static_cast<G>(assigns ? g : static_cast<float>(to[i]) + g);
      }
    }
  }

  zero::Units units_;
  zero::Schedule schedule_;
  GradientOf gradient_;
  zero::Fill fill_;
};

static_assert(zero::HasSchedule<Walker>);

}  // namespace rig
