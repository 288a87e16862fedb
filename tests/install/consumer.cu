// SPDX-License-Identifier: Apache-2.0
// What a project that uses the library on GPUs has: an include beside the umbrella, and no flag of
// its own. Where no GPU is, it has compiled and linked.
#include <zero/cuda/cuda.cuh>
#include <zero/zero.hpp>

#include <cstdio>
#include <vector>

static_assert(zero::JoinsProcesses<zero::cuda::Nccl>);
static_assert(zero::version == PACKAGE_VERSION);

namespace {

/// The sum of squares of 64 numbers 2, by the library's kernels.
double squares_of_twos() {
  using Device = zero::cuda::Device;
  Device device;
  auto stream = device.stream();
  auto const numbers = device.allocate(64 * sizeof(float), "numbers");
  auto const record = device.allocate(2 * sizeof(double), "record");
  zero::View<float, Device> const twos{reinterpret_cast<float*>(numbers.address()), 64};
  zero::View<double, Device> const sum{reinterpret_cast<double*>(record.address()), 2};
  std::vector<float> const host(64, 2.0f);
  double result[2];
  copy_in(stream, twos, host.data());
  fill_zero(stream, sum);
  add_squares(stream, zero::View<float const, Device>(twos), sum, zero::Index{0});
  copy_out(stream, result, zero::View<double const, Device>(sum));
  stream.synchronize();
  return result[0];
}

}  // namespace

int main() {
  int version = 0;
  if (ncclGetVersion(&version) != ncclSuccess || version < 22200) return 1;
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
    std::puts("compiled and linked; there is no GPU to run on");
    return 0;
  }
  return squares_of_twos() == 256.0 ? 0 : 1;
}
