// SPDX-License-Identifier: Apache-2.0
#pragma once
// Numbers for tests of kernels, and memory whose surroundings are watched.

#include <zero/core/noise.hpp>
#include <zero/cuda/transfer.hpp>

#include <cmath>
#include <cstring>
#include <vector>

namespace zero_test {

/// Values over many magnitudes, some negative, some that T cannot hold exactly.
inline std::vector<float> spread_values(zero::Index n, std::uint64_t seed) {
  std::vector<float> result;
  result.reserve(zero::at(n));
  for (zero::Index i = 0; i < n; ++i) {
    double const unit = zero::noise_uniform(seed, 0, i) * 2 - 1;
    int const exponent = static_cast<int>(zero::noise_bits(seed, 1, i) % 20) - 12;
    result.push_back(static_cast<float>(std::ldexp(unit, exponent)));
  }
  return result;
}

template <class T>
std::vector<T> as(std::vector<float> const& x) {
  std::vector<T> result;
  result.reserve(x.size());
  for (float v : x) result.push_back(static_cast<T>(v));
  return result;
}

template <class T>
bool same_bits(std::vector<T> const& a, std::vector<T> const& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

/// Elements on a GPU that start `shift` elements after an aligned address, between guards: all of
/// the memory is 0xff until something is written.
template <class T>
class GuardedMemory {
 public:
  using Device = zero::cuda::Device;

  GuardedMemory(Device& device, zero::cuda::Stream& stream, zero::Index n, zero::Index shift = 0)
      : stream_(&stream),
        n_(n),
        shift_(guard + shift),
        buffer_(device.allocate((n + shift + 2 * guard) * zero::Index{sizeof(T)}, "test")) {}
  GuardedMemory(Device& device, zero::cuda::Stream& stream, std::vector<T> const& values,
                zero::Index shift = 0)
      : GuardedMemory(device, stream, static_cast<zero::Index>(values.size()), shift) {
    copy_in(stream, view(), values.data());
    stream.synchronize();
  }

  zero::View<T, Device> view() const {
    return {reinterpret_cast<T*>(buffer_.address()) + shift_, n_};
  }
  zero::View<T const, Device> read() const { return view(); }
  std::vector<T> values() const { return range(shift_, n_); }
  /// Nothing before or after the elements was written.
  bool intact() const {
    for (std::vector<T> const& part : {range(0, shift_), range(shift_ + n_, guard)}) {
      auto const* const bytes = reinterpret_cast<unsigned char const*>(part.data());
      for (std::size_t i = 0; i < part.size() * sizeof(T); ++i) {
        if (bytes[i] != 0xff) return false;
      }
    }
    return true;
  }

 private:
  static constexpr zero::Index guard = 64;

  std::vector<T> range(zero::Index begin, zero::Index count) const {
    std::vector<T> host(zero::at(count));
    zero::View<T const, Device> const part{reinterpret_cast<T*>(buffer_.address()) + begin, count};
    copy_out(*stream_, host.data(), part);
    stream_->synchronize();
    return host;
  }

  zero::cuda::Stream* stream_;
  zero::Index n_;
  zero::Index shift_;
  zero::cuda::Buffer buffer_;
};

}  // namespace zero_test
