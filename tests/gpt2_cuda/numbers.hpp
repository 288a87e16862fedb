// SPDX-License-Identifier: Apache-2.0
#pragma once
// Numbers for the tests of the GPT's kernels: inputs that T holds exactly, so that the oracle in
// double sees the same, and results held against it element by element, each with its own bound.

#include <zero/core/noise.hpp>
#include <zero/cuda/cuda.cuh>

#include <cuda/values.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace gpt2_test {

using zero::at;
using zero::bf16;
using zero::fp16;
using zero::Index;
using Device = zero::cuda::Device;

/// Half a unit in the last place of 1: what one rounding may change a value by, relatively.
template <class T>
inline constexpr double rounding = std::is_same_v<T, float>  ? 0x1p-24
                                   : std::is_same_v<T, bf16> ? 0x1p-8
                                                             : 0x1p-11;
inline constexpr double float_rounding = 0x1p-24;

template <class T>
char const* name() {
  return std::is_same_v<T, float> ? "fp32" : std::is_same_v<T, bf16> ? "bf16" : "fp16";
}

/// Values uniform in [low, high), rounded to T.
template <class T>
std::vector<double> values(Index count, std::uint64_t seed, double low = -1, double high = 1) {
  std::vector<double> result(at(count));
  for (Index i = 0; i < count; ++i) {
    auto const v = static_cast<float>(low + (high - low) * zero::noise_uniform(seed, 0, i));
    result[at(i)] = static_cast<double>(static_cast<float>(static_cast<T>(v)));
  }
  return result;
}

/// A tensor on the GPU, in T.
template <class T>
class OnGpu {
 public:
  OnGpu(Device& device, zero::cuda::Stream& stream, std::vector<double> const& from)
      : memory_(device, stream, rounded(from)) {}
  /// Not written yet: NaN.
  OnGpu(Device& device, zero::cuda::Stream& stream, Index count) : memory_(device, stream, count) {}

  T* address() const { return memory_.view().address(); }
  std::vector<double> values() const {
    std::vector<double> result;
    for (T v : memory_.values()) result.push_back(static_cast<double>(static_cast<float>(v)));
    return result;
  }
  std::vector<T> bits() const { return memory_.values(); }
  bool intact() const { return memory_.intact(); }

 private:
  static std::vector<T> rounded(std::vector<double> const& from) {
    std::vector<T> result;
    for (double v : from) result.push_back(static_cast<T>(static_cast<float>(v)));
    return result;
  }

  zero_test::GuardedMemory<T> memory_;
};

/// Bounds of the elements of a result: relative x |exact| + absolute, or one each.
struct Bound {
  double relative = 0;
  double absolute = 0;
  std::vector<double> each{};

  double of(double exact, std::size_t i) const {
    return relative * std::abs(exact) + absolute + (each.empty() ? 0 : each[i]);
  }
};

/// Checks every element and says how near to its bound the worst one came.
inline void check_close(std::string const& what, std::vector<double> const& result,
                        std::vector<double> const& exact, Bound const& bound) {
  REQUIRE(result.size() == exact.size());
  double worst = 0;
  std::size_t place = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    double const b = bound.of(exact[i], i);
    double const error = std::abs(result[i] - exact[i]);
    double const share = error <= b             ? (b > 0 ? error / b : 0)
                         : std::isfinite(error) ? error / b
                                                : 1e300;
    if (share > worst) {
      worst = share;
      place = i;
    }
  }
  MESSAGE(what << ": " << exact.size() << " elements, largest error / bound " << worst);
  CHECK_MESSAGE(worst <= 1, what << "[" << place << "]: " << result[place] << ", exact "
                                 << exact[place] << ", bound " << bound.of(exact[place], place));
}

inline std::span<double const> read(std::vector<double> const& v) { return v; }

inline double largest(std::vector<double> const& x) {
  double most = 0;
  for (double v : x) most = std::max(most, std::abs(v));
  return most;
}

}  // namespace gpt2_test
