// SPDX-License-Identifier: Apache-2.0
#pragma once
// A model's parameters and gradients in plain device memory, and the pass over them that a
// hand-written training loop would make: one rank, no library underneath. Tests hold the model
// against the host's with it, and benches the library against it.

#include <zero/cuda/cuda.cuh>
#include <zero/model/model.hpp>

#include <span>
#include <string>
#include <vector>

namespace gpt2::cuda {

using zero::at;
using zero::Index;

/// Every tensor of a model, each in memory of its own.
/// @tparam T type of parameters and gradients
template <class T>
class PlainMemory {
 public:
  using Device = zero::cuda::Device;
  using View = zero::View<T, Device>;

  PlainMemory(Device& device, zero::Units const& units)
      : stream(device.stream()), units_(units), scalars_(device.allocate(16, "scalars")) {
    for (zero::Unit const& unit : units) {
      parameters.emplace_back();
      gradients.emplace_back();
      for (zero::Tensor const& tensor : unit.tensors) {
        for (auto* views : {&parameters.back(), &gradients.back()}) {
          Index const n = tensor.elements();
          buffers_.push_back(device.allocate(n * Index{sizeof(T)}, "plain tensors"));
          views->push_back({reinterpret_cast<T*>(buffers_.back().address()), n});
        }
      }
    }
    loss = {reinterpret_cast<double*>(scalars_.address()), 1};
    scale = {reinterpret_cast<float*>(scalars_.address() + 8), 1};
  }

  /// Writes the initial values, those of a Trainer with this seed.
  void initialise(std::uint64_t seed) {
    Index number = 0;
    for (std::size_t u = 0; u < units_.size(); ++u) {
      for (std::size_t t = 0; t < units_[u].tensors.size(); ++t) {
        zero::initialise(stream, parameters[u][t], units_[u].tensors[t].initial, seed, number++,
                         Index{0});
      }
    }
  }

  zero::cuda::Stream stream;
  std::vector<std::vector<View>> parameters;  ///< [unit][tensor]
  std::vector<std::vector<View>> gradients;   ///< [unit][tensor]
  zero::View<double, Device> loss;
  zero::View<float, Device> scale;

 private:
  zero::Units units_;
  Device::Buffer scalars_;
  std::vector<Device::Buffer> buffers_;
};

/// One pass over a PlainMemory; a unit's first visit overwrites its gradients where the model says
/// so, as the library's does.
/// @tparam Trains whether the model makes its backward
template <class T, bool Trains>
class PlainPass {
 public:
  static constexpr bool trains = Trains;
  using Parameter = T;
  using Gradient = T;
  using Device = zero::cuda::Device;

  struct Parameters {
    std::vector<zero::View<T, Device>> const* tensors;
    zero::View<T const, Device> operator[](Index i) const { return (*tensors)[at(i)]; }
  };
  struct Gradients {
    std::vector<zero::View<T, Device>> const* tensors;
    bool is_first;
    zero::View<T, Device> operator[](Index i) const { return (*tensors)[at(i)]; }
    bool first() const { return is_first; }
  };
  struct Both {
    Parameters parameters;
    Gradients gradients;
  };

  explicit PlainPass(PlainMemory<T>& memory, float scale = 1)
      : memory_(&memory), visited_(memory.parameters.size(), false) {
    zero::fill_zero(memory.stream, memory.loss);
    zero::cuda::check(cudaMemcpyAsync(memory.scale.address(), &scale, sizeof scale,
                                      cudaMemcpyHostToDevice, memory.stream.native()),
                      "cudaMemcpyAsync");
  }

  Parameters forward(int unit) const { return {&memory_->parameters[at(unit)]}; }
  Both backward(int unit, zero::Fill) {
    bool const first = !visited_[at(unit)];
    visited_[at(unit)] = true;
    return {forward(unit), {&memory_->gradients[at(unit)], first}};
  }
  zero::View<double, Device> loss() const { return memory_->loss; }
  zero::View<float const, Device> loss_scale() const { return memory_->scale; }
  zero::cuda::Stream& stream() { return memory_->stream; }

 private:
  PlainMemory<T>* memory_;
  std::vector<bool> visited_;
};

}  // namespace gpt2::cuda
