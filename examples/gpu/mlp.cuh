// SPDX-License-Identifier: Apache-2.0
#pragma once
// A model of one's own in CUDA: a hidden layer and an output that learn sin(a) cos(b). Its
// gradients lie in float buffers of its own; the library brings them into the unit's place, and
// casts them, in one launch when a backward lease ends.

#include <zero/cuda/cuda.cuh>
#include <zero/zero.hpp>

#include <memory>
#include <vector>

namespace example {

using zero::Index;

constexpr int inputs = 2;
constexpr int samples = 256;  // of a micro-batch, one thread each where a loss is added up

/// Which samples: every rank and step has others.
struct Samples {
  int rank = 0;
  int step = 0;
};

/// x [samples, inputs], target [samples]
__global__ void make_samples(float* x, float* target, Samples which) {
  int const s = static_cast<int>(threadIdx.x);
  Index const key = Index{which.step} * 1000 + which.rank;
  float const a = static_cast<float>(zero::noise_uniform(1, key, 2 * s) * 4 - 2);
  float const b = static_cast<float>(zero::noise_uniform(1, key, 2 * s + 1) * 4 - 2);
  x[2 * s] = a;
  x[2 * s + 1] = b;
  target[s] = sinf(a) * cosf(b);
}

/// a = tanh(x w^T + b): a [samples, hidden], w [hidden, inputs], b [hidden]
template <class P>
__global__ void hidden_forward(float* a, float const* x, P const* w, P const* b, int hidden) {
  int const i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= samples * hidden) return;
  int const s = i / hidden;
  int const h = i % hidden;
  float z = static_cast<float>(b[h]);
  for (int k = 0; k < inputs; ++k) z += static_cast<float>(w[h * inputs + k]) * x[s * inputs + k];
  a[i] = tanhf(z);
}

/// y = a w + b; loss += mean square error; dy = its gradient times the loss scale.
template <class P>
__global__ void output_forward(float* dy, double* loss, float const* a, P const* w, P const* b,
                               float const* target, float const* scale, int hidden) {
  __shared__ double errors[samples];
  int const s = static_cast<int>(threadIdx.x);
  float y = static_cast<float>(b[0]);
  for (int h = 0; h < hidden; ++h) y += a[s * hidden + h] * static_cast<float>(w[h]);
  float const e = y - target[s];
  dy[s] = 2 * e / samples * *scale;
  errors[s] = double{e} * e / samples;
  __syncthreads();
  // Halves, in an order of their own: no atomics, so that runs can be compared bit by bit.
  for (int apart = samples / 2; apart > 0; apart /= 2) {
    if (s < apart) errors[s] += errors[s + apart];
    __syncthreads();
  }
  if (s == 0) *loss += errors[0];
}

/// dw = a^T dy, db = sum of dy; da = dy w (1 - a^2), which replaces a.
template <class P>
__global__ void output_backward(float* dw, float* db, float* a, float const* dy, P const* w,
                                int hidden) {
  int const h = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (h > hidden) return;
  float sum = 0;
  for (int s = 0; s < samples; ++s) {
    if (h == hidden) {
      sum += dy[s];
      continue;
    }
    float& cell = a[s * hidden + h];
    sum += cell * dy[s];
    cell = dy[s] * static_cast<float>(w[h]) * (1 - cell * cell);
  }
  (h == hidden ? *db : dw[h]) = sum;
}

/// dw = da^T x, db = sum of da
template <class T>
__global__ void hidden_backward(T* dw, T* db, T const* da, T const* x, int hidden) {
  int const h = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (h >= hidden) return;
  T sums[inputs + 1] = {};
  for (int s = 0; s < samples; ++s) {
    T const d = da[s * hidden + h];
    for (int k = 0; k < inputs; ++k) sums[k] += d * x[s * inputs + k];
    sums[inputs] += d;
  }
  for (int k = 0; k < inputs; ++k) dw[h * inputs + k] = sums[k];
  db[h] = sums[inputs];
}

class Mlp {
 public:
  using Batch = Samples;
  using Device = zero::cuda::Device;

  Mlp(Device& device, int hidden) : hidden_(hidden) {
    x_ = floats(device, samples * inputs, "activations");
    target_ = floats(device, samples, "activations");
    a_ = floats(device, samples * hidden, "activations");
    dy_ = floats(device, samples, "activations");
    gradients_[0] = {floats(device, hidden * inputs, "own gradients"),
                     floats(device, hidden, "own gradients")};
    gradients_[1] = {floats(device, hidden, "own gradients"), floats(device, 1, "own gradients")};
  }

  zero::Units units() const {
    using zero::Initial;
    return {{"hidden",
             {{"hidden.w", {hidden_, inputs}, Initial::normal(0.7)},
              {"hidden.b", {hidden_}, Initial::normal(0.5)}}},
            {"output",
             {{"output.w", {1, hidden_}, Initial::normal(1.0 / std::sqrt(double(hidden_)))},
              {"output.b", {1}}}}};
  }

  template <class Pass>
  void operator()(Pass& pass, Samples const& which) {
    cudaStream_t const stream = pass.stream().native();
    unsigned int const cells = static_cast<unsigned int>(samples * hidden_ + 255) / 256;
    unsigned int const rows = static_cast<unsigned int>(hidden_ + 256) / 256;
    make_samples<<<1, samples, 0, stream>>>(x_.address(), target_.address(), which);
    {
      auto const w = pass.forward(0);
      hidden_forward<<<cells, 256, 0, stream>>>(a_.address(), x_.address(), w[0].address(),
                                                w[1].address(), hidden_);
    }
    {
      auto const w = pass.forward(1);
      output_forward<<<1, samples, 0, stream>>>(dy_.address(), pass.loss().address(), a_.address(),
                                                w[0].address(), w[1].address(), target_.address(),
                                                pass.loss_scale().address(), hidden_);
    }
    if constexpr (Pass::trains) {
      {
        auto const [w, g] = pass.backward(1, gradients_[1]);
        output_backward<<<rows, 256, 0, stream>>>(gradients_[1][0].address(),
                                                  gradients_[1][1].address(), a_.address(),
                                                  dy_.address(), w[0].address(), hidden_);
      }
      auto const [w, g] = pass.backward(0, gradients_[0]);
      hidden_backward<<<rows, 256, 0, stream>>>(gradients_[0][0].address(),
                                                gradients_[0][1].address(), a_.address(),
                                                x_.address(), hidden_);
    }
    zero::cuda::check(cudaGetLastError(), "the model's kernels");
  }

 private:
  using Floats = zero::View<float, Device>;

  Floats floats(Device& device, Index n, char const* kind) {
    buffers_.push_back(device.allocate(n * Index{sizeof(float)}, kind));
    return {reinterpret_cast<float*>(buffers_.back().address()), n};
  }

  int hidden_;
  std::vector<Device::Buffer> buffers_;
  Floats x_;
  Floats target_;
  Floats a_;
  Floats dy_;
  std::vector<Floats> gradients_[2];
};

/// Whether this process sees a GPU; says so where it does not.
inline bool has_gpu() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess && count > 0) return true;
  std::puts("skipped: this process sees no GPU");
  return false;
}

}  // namespace example
