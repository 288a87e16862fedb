// SPDX-License-Identifier: Apache-2.0
#pragma once
// The test chain as a model whose work is the same functions on the host and in kernels of one
// thread, so that both give the same bits.

#include <zero/core/host_device.hpp>
#include <zero/cuda/device.hpp>
#include <zero/zero.hpp>

#include <support/chain.hpp>
#include <support/model_spec.hpp>
#include <support/script.hpp>

#include <memory>
#include <optional>
#include <utility>

namespace zero_test {

#if defined(__CUDACC__)
template <class F>
__global__ void run_once(F work) {
  work();
}
#endif

/// Enqueues work() on a stream of any device.
template <class D, class F>
void enqueue_once(typename D::Stream& stream, F work) {
  if constexpr (zero::RunsHostCode<D>) {
    stream.enqueue(work);
  } else {
    run_once<<<1, 1, 0, stream.native()>>>(work);
    zero::cuda::check(cudaGetLastError(), "run_once");
  }
}

inline constexpr int most_tensors = 4;

/// The tensors of a unit.
template <class T>
struct TensorRefs {
  T* of[most_tensors];
  zero::Index sizes[most_tensors];
  int count = 0;
};

struct BatchData {
  float input[chain::cells];
  float target[chain::cells];
};

struct StartWork {
  BatchData batch;
  float* x;
  ZERO_HOST_DEVICE void operator()() const {
    for (int i = 0; i < chain::cells; ++i) x[i] = batch.input[i];
  }
};

template <class P>
struct ForwardWork {
  TensorRefs<P const> w;
  float const* from;
  float* sum;
  float* to;
  ZERO_HOST_DEVICE void operator()() const {
    for (int i = 0; i < chain::cells; ++i) sum[i] = 0;
    for (int i = 0; i < w.count; ++i) chain::apply(sum, from, w.of[i], w.sizes[i]);
    chain::finish(to, from, sum);
  }
};

struct LossWork {
  BatchData batch;
  float* dy;
  float const* y;
  double* loss;
  float const* scale;
  ZERO_HOST_DEVICE void operator()() const { *loss += chain::loss(dy, y, batch.target, *scale); }
};

template <class P, class G>
struct BackwardWork {
  TensorRefs<P const> w;
  TensorRefs<G> g;
  float const* input;
  float const* dy;
  float const* sum;
  float* dx;
  float* dz;
  bool overwrites;
  float poison;
  ZERO_HOST_DEVICE void operator()() const {
    chain::begin_back(dz, dx, dy, sum);
    for (int i = 0; i < w.count; ++i) chain::apply_back(dx, dz, w.of[i], w.sizes[i]);
    for (int i = 0; i < g.count; ++i)
      chain::add_gradient(g.of[i], dz, input, g.sizes[i], overwrites);
    if (poison != 0 && g.count > 0 && g.sizes[0] > 0) g.of[0][0] = G(poison * 3e38f * 10.0f);
  }
};

/// @tparam D the device
template <class D>
class ChainModel {
 public:
  using Batch = zero_test::Batch;

  /// @param own whether gradients are computed in buffers of the model's own, as float
  ChainModel(ModelSpec spec, D& device, bool own)
      : spec_(std::move(spec)), memory_(std::make_unique<Memory>()) {
    auto const layers = static_cast<zero::Index>(spec_.chain.size());
    zero::Index const floats = (layers + 1) * chain::cells * 4;
    memory_->activations = device.allocate(floats * zero::Index{sizeof(float)}, "activations");
    memory_->device = &device;
    if (!own) return;
    for (zero::Unit const& unit : spec_.units) {
      auto& buffers = memory_->buffers.emplace_back();
      auto& views = memory_->own.emplace_back();
      for (zero::Tensor const& tensor : unit.tensors) {
        zero::Index const n = tensor.trainable ? tensor.elements() : 0;
        buffers.push_back(device.allocate(n * zero::Index{sizeof(float)}, "own gradients"));
        views.push_back({reinterpret_cast<float*>(buffers.back().address()), n});
      }
    }
  }

  zero::Units const& units() const { return spec_.units; }
  zero::Schedule schedule() const { return spec_.schedule; }

  template <class Pass>
  void operator()(Pass& pass, Batch const& batch) {
    auto const layers = static_cast<zero::Index>(spec_.chain.size());
    BatchData data{};
    std::copy(batch.input.begin(), batch.input.end(), data.input);
    std::copy(batch.target.begin(), batch.target.end(), data.target);
    float const poison = batch.poisons.empty() ? 0.0f : 1.0f;
    enqueue_once<D>(pass.stream(), StartWork{data, row(0, 0)});
    for (zero::Index k = 0; k < layers; ++k) {
      int const unit = spec_.chain[zero::at(k)];
      auto const lease = pass.forward(unit);
      enqueue_once<D>(pass.stream(),
                      ForwardWork<typename Pass::Parameter>{parameters(lease, unit), row(0, k),
                                                            row(1, k), row(0, k + 1)});
    }
    enqueue_once<D>(pass.stream(), LossWork{data, row(2, layers), row(0, layers),
                                            pass.loss().address(), pass.loss_scale().address()});
    if constexpr (Pass::trains) {
      for (zero::Index k = layers; k-- > 0;) {
        int const unit = spec_.chain[zero::at(k)];
        float const bad = k == 0 ? poison : 0.0f;
        if (memory_->own.empty()) {
          auto const lease = pass.backward(unit, zero::Fill::add);
          back(pass, lease.parameters, unit, k, gradients(lease.gradients, unit), false, bad);
        } else {
          auto const lease = pass.backward(unit, memory_->own[zero::at(unit)]);
          TensorRefs<float> refs;
          for (auto const& view : memory_->own[zero::at(unit)]) {
            refs.of[refs.count] = view.address();
            refs.sizes[refs.count++] = view.size();
          }
          back(pass, lease.parameters, unit, k, refs, true, bad);
        }
      }
    }
  }

 private:
  struct Memory {
    D* device = nullptr;
    typename D::Buffer activations{};
    std::vector<std::vector<typename D::Buffer>> buffers{};
    std::vector<std::vector<zero::View<float, D>>> own{};
  };

  /// Row `layer` of x, z, dx and dz, kind 0 to 3.
  float* row(zero::Index kind, zero::Index layer) const {
    auto const rows = static_cast<zero::Index>(spec_.chain.size()) + 1;
    return reinterpret_cast<float*>(memory_->activations.address()) +
           (kind * rows + layer) * chain::cells;
  }
  int tensors(int unit) const {
    return static_cast<int>(spec_.units[zero::at(unit)].tensors.size());
  }
  template <class Lease>
  auto parameters(Lease const& lease, int unit) const {
    using P = std::remove_const_t<std::remove_pointer_t<decltype(lease[0].address())>>;
    TensorRefs<P const> refs;
    for (; refs.count < tensors(unit); ++refs.count) {
      refs.of[refs.count] = lease[refs.count].address();
      refs.sizes[refs.count] = lease[refs.count].size();
    }
    return refs;
  }
  template <class Lease>
  auto gradients(Lease const& lease, int unit) const {
    TensorRefs<std::remove_pointer_t<decltype(lease[0].address())>> refs;
    for (; refs.count < tensors(unit); ++refs.count) {
      refs.of[refs.count] = lease[refs.count].address();
      refs.sizes[refs.count] = lease[refs.count].size();
    }
    return refs;
  }
  template <class Pass, class Lease, class G>
  void back(Pass& pass, Lease const& lease, int unit, zero::Index k, TensorRefs<G> const& g,
            bool overwrites, float poison) {
    enqueue_once<D>(pass.stream(), BackwardWork<typename Pass::Parameter, G>{
                                       parameters(lease, unit), g, row(0, k), row(2, k + 1),
                                       row(1, k), row(2, k), row(3, k), overwrites, poison});
  }

  ModelSpec spec_;
  std::unique_ptr<Memory> memory_;
};

}  // namespace zero_test
