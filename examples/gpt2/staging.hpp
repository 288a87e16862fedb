// SPDX-License-Identifier: Apache-2.0
#pragma once
// Between how parameters and gradients are stored and the type that layers compute in. Where both
// are the same, spans of the lease itself are handed on and nothing is copied. Otherwise parameters
// are widened into memory of the model's own, and gradients are summed there in full precision and
// added to the lease's once, which is the only rounding.

#include <gpt2/matrix.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace gpt2 {

/// Memory for one unit's parameters and gradients in T, allocated when first needed.
template <Real T>
class Staging {
 public:
  /// The tensors of a lease as T, valid until the next call and while the lease lives.
  /// @tparam P how parameters are stored
  /// @tparam N number of tensors
  template <class P, std::size_t N, class Lease>
  std::array<std::span<T const>, N> weights(Lease const& lease) {
    std::array<std::span<P const>, N> const stored = spans<P const, N>(lease);
    if constexpr (std::same_as<P, T>) {
      return stored;
    } else {
      std::array<std::span<T>, N> const wide = carve(weights_, stored);
      for (std::size_t i = 0; i < N; ++i) {
        P const* from = stored[i].data();
        T* to = wide[i].data();
        for (std::size_t k = 0; k < stored[i].size(); ++k)
          to[k] = static_cast<T>(static_cast<float>(from[k]));
      }
      std::array<std::span<T const>, N> result;
      for (std::size_t i = 0; i < N; ++i) result[i] = wide[i];
      return result;
    }
  }

  /// Calls compute(spans) with a place to add each tensor's gradient to; a frozen tensor's is
  /// empty.
  /// @tparam G how gradients are stored
  template <class G, std::size_t N, class Lease, class Compute>
  void gradients(Lease const& lease, Compute compute) {
    std::array<std::span<G>, N> const stored = spans<G, N>(lease);
    if constexpr (std::same_as<G, T>) {
      compute(stored);
    } else {
      std::array<std::span<T>, N> const wide = carve(gradients_, stored);
      for (std::span<T> tensor : wide) std::fill(tensor.begin(), tensor.end(), T(0));
      compute(wide);
      for (std::size_t i = 0; i < N; ++i) {
        T const* from = wide[i].data();
        G* to = stored[i].data();
        for (std::size_t k = 0; k < stored[i].size(); ++k) {
          to[k] = static_cast<G>(static_cast<float>(to[k]) + static_cast<float>(from[k]));
        }
      }
    }
  }

 private:
  template <class E, std::size_t N, class Lease>
  static std::array<std::span<E>, N> spans(Lease const& lease) {
    std::array<std::span<E>, N> result;
    for (std::size_t i = 0; i < N; ++i) result[i] = std::span<E>(lease[static_cast<int>(i)]);
    return result;
  }

  template <class E, std::size_t N>
  static std::array<std::span<T>, N> carve(std::vector<T>& memory,
                                           std::array<std::span<E>, N> const& like) {
    auto const room = [](std::size_t count) {
      return at(zero::round_up(static_cast<Index>(count), 16));
    };
    std::size_t total = 0;
    for (auto const& tensor : like) total += room(tensor.size());
    if (memory.size() < total) memory.resize(total);
    std::array<std::span<T>, N> result;
    std::size_t begin = 0;
    for (std::size_t i = 0; i < N; ++i) {
      result[i] = std::span<T>(memory).subspan(begin, like[i].size());
      begin += room(like[i].size());
    }
    return result;
  }

  std::vector<T> weights_;
  std::vector<T> gradients_;
};

}  // namespace gpt2
