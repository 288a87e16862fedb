// SPDX-License-Identifier: Apache-2.0
#pragma once
// The one model that the matrix of tests trains: what it is and what it does are values, so each
// kind of trainer is compiled once. All its work is enqueued on the pass's stream, and addresses of
// the device are resolved inside that work only.

#include <zero/device/device.hpp>
#include <zero/model/model.hpp>
#include <zero/step/pass.hpp>

#include <support/model_spec.hpp>
#include <support/script.hpp>

#include <array>
#include <deque>
#include <memory>
#include <stdexcept>
#include <utility>

namespace zero_test {

class TestModel {
 public:
  using Batch = zero_test::Batch;

  /// @param longest the most layers a script may have
  TestModel(ModelSpec spec, Director direct, zero::Index longest)
      : spec_(std::move(spec)),
        direct_(std::move(direct)),
        memory_(std::make_unique<chain::Memory<float>>(longest)) {
    zero::Index number = 0;
    for (zero::Unit const& unit : spec_.units) {
      first_tensor_.push_back(number);
      number += static_cast<zero::Index>(unit.tensors.size());
    }
  }

  zero::Units const& units() const { return spec_.units; }
  zero::Schedule schedule() const { return spec_.schedule; }

  template <class Pass>
  void operator()(Pass& pass, Batch const& batch) {
    perform(pass, batch, direct_(batch, Pass::trains));
  }

 private:
  static constexpr std::size_t max_tensors = 4;

  /// Leases that are still open, in the order in which they were made.
  template <class Pass>
  struct Open {
    std::deque<zero::ParameterLease<Pass>> parameters;
    std::deque<zero::GradientLease<Pass>> gradients;

    template <class Leases>
    static void keep(Leases& leases, int held) {
      while (leases.size() > static_cast<std::size_t>(held)) leases.pop_front();
    }
  };

  template <class T, class D>
  using Views = std::array<zero::View<T, D>, max_tensors>;

  template <class T, class D, class Lease>
  Views<T, D> views(Lease const& lease, int unit) const {
    Views<T, D> result;
    for (std::size_t i = 0; i < num_tensors(unit); ++i)
      result[i] = lease[static_cast<zero::Index>(i)];
    return result;
  }
  std::size_t num_tensors(int unit) const { return spec_.units[zero::at(unit)].tensors.size(); }

  float* x(std::size_t layer) const { return row(memory_->x, layer); }
  float* z(std::size_t layer) const { return row(memory_->z, layer); }
  float* dx(std::size_t layer) const { return row(memory_->dx, layer); }
  float* dz(std::size_t layer) const { return row(memory_->dz, layer); }
  static float* row(std::vector<float>& cells, std::size_t layer) {
    return cells.data() + layer * static_cast<std::size_t>(chain::cells);
  }

  template <class Pass>
  void perform(Pass& pass, Batch const& batch, Script const& script) {
    std::size_t const layers = script.chain.size();
    Open<Pass> open;
    pass.stream().enqueue(
        [to = x(0), &batch] { std::copy(batch.input.begin(), batch.input.end(), to); });
    for (int i = 0; i < script.forwards; ++i) {
      for (std::size_t k = 0; k < layers; ++k) forward(pass, script, k, open);
    }
    for (int unit : script.extra) auto const asked = pass.forward(unit);
    for (int i = 0; i < script.backwards; ++i) {
      loss(pass, batch, layers);
      if constexpr (Pass::trains) {
        for (std::size_t k = layers; k-- > 0;) {
          if (script.recomputes) forward(pass, script, k, open);
          backward(pass, batch, script, k, open);
        }
      }
    }
    if constexpr (Pass::trains) {
      for (int k : script.again) backward(pass, batch, script, zero::at(k), open);
    }
    Open<Pass>::keep(open.parameters, 0);
    Open<Pass>::keep(open.gradients, 0);
  }

  template <class Pass>
  void loss(Pass& pass, Batch const& batch, std::size_t layers) {
    using D = typename Pass::Device;
    pass.stream().enqueue(
        [dy = dx(layers), y = x(layers), &batch, sum = pass.loss(), scale = pass.loss_scale()] {
          *D::resolve(sum.address()) +=
              chain::loss(dy, y, batch.target.data(), *D::resolve(scale.address()));
        });
  }

  template <class Pass>
  void forward(Pass& pass, Script const& script, std::size_t k, Open<Pass>& open) {
    using D = typename Pass::Device;
    using P = typename Pass::Parameter const;
    int const unit = script.chain[k];
    open.parameters.push_back(pass.forward(unit));
    pass.stream().enqueue([w = views<P, D>(open.parameters.back(), unit), n = num_tensors(unit),
                           from = x(k), sum = z(k), to = x(k + 1)] {
      std::fill(sum, sum + chain::cells, 0.0f);
      for (std::size_t i = 0; i < n; ++i)
        chain::apply(sum, from, D::resolve(w[i].address()), w[i].size());
      chain::finish(to, from, sum);
    });
    Open<Pass>::keep(open.parameters, script.held);
  }

  template <class Pass>
  void backward(Pass& pass, Batch const& batch, Script const& script, std::size_t k,
                Open<Pass>& open) {
    using D = typename Pass::Device;
    int const unit = script.chain[k];
    auto visit = pass.backward(unit, script.overwrites ? zero::Fill::overwrite : zero::Fill::add);
    open.parameters.push_back(std::move(visit.parameters));
    open.gradients.push_back(std::move(visit.gradients));
    pass.stream().enqueue([to = dz(k), input = dx(k), dy = dx(k + 1), sum = z(k)] {
      chain::begin_back(to, input, dy, sum);
    });
    if (script.ends == Ends::gradients_first) {
      gradients(pass, batch, script, k, open.gradients.back());
      Open<Pass>::keep(open.gradients, script.held);
    }
    if (static_cast<int>(k) == script.throws_at)
      throw std::runtime_error("the model fails at layer " + std::to_string(k));
    pass.stream().enqueue(
        [w = views<typename Pass::Parameter const, D>(open.parameters.back(), unit),
         n = num_tensors(unit), from = dz(k), to = dx(k)] {
          for (std::size_t i = 0; i < n; ++i)
            chain::apply_back(to, from, D::resolve(w[i].address()), w[i].size());
        });
    if (script.ends != Ends::together) Open<Pass>::keep(open.parameters, script.held);
    if (script.ends != Ends::gradients_first)
      gradients(pass, batch, script, k, open.gradients.back());
    Open<Pass>::keep(open.gradients, script.held);
    Open<Pass>::keep(open.parameters, script.held);
  }

  template <class Pass, class Lease>
  void gradients(Pass& pass, Batch const& batch, Script const& script, std::size_t k,
                 Lease const& lease) {
    using D = typename Pass::Device;
    using G = typename Pass::Gradient;
    int const unit = script.chain[k];
    bool const assigns = script.overwrites && lease.first();
    pass.stream().enqueue([g = views<G, D>(lease, unit), n = num_tensors(unit), unit, assigns,
                           given = script.given, &batch, from = dz(k), input = x(k),
                           number = first_tensor_[zero::at(unit)]] {
      for (std::size_t i = 0; i < n; ++i) {
        G* const to = D::resolve(g[i].address());
        if (given != Given::no) {
          add_given(to, g[i].size(), assigns, batch, number + static_cast<zero::Index>(i), given);
        } else {
          chain::add_gradient(to, from, input, g[i].size(), assigns);
        }
        for (Poison const& p : batch.poisons) {
          if (p.unit == unit && p.tensor == static_cast<int>(i) && p.element < g[i].size())
            to[p.element] = static_cast<G>(p.value);
        }
      }
    });
  }

  template <class G>
  static void add_given(G* to, zero::Index n, bool assigns, Batch const& batch, zero::Index tensor,
                        Given given) {
    for (zero::Index j = 0; j < n; ++j)
      to[j] = chain::added(assigns ? G(0.0f) : to[j], given_gradient<G>(batch, tensor, j, given));
  }

  ModelSpec spec_;
  Director direct_;
  std::unique_ptr<chain::Memory<float>> memory_;
  std::vector<zero::Index> first_tensor_;
};

static_assert(zero::HasSchedule<TestModel>);

}  // namespace zero_test
