// SPDX-License-Identifier: Apache-2.0
#pragma once
// Softmax of one row in place, shared by attention and the loss.

#include <gpt2/exponential.hpp>
#include <gpt2/lanes.hpp>

namespace gpt2 {

/// What a softmax divided by: sum x e^largest is the sum of all e^row[i].
template <Real T>
struct SoftmaxScale {
  T largest;
  T sum;
};

/// row[i] = e^(row[i] - largest) / sum, with sum that of the numerators.
template <Real T>
SoftmaxScale<T> softmax(T* row, Index n) {
  T const most = largest(row, n);
  for (Index i = 0; i < n; ++i) row[i] = exponential(row[i] - most);
  T const sum = sum_of<T>(n, [=](Index i) { return row[i]; });
  T const scale = T(1) / sum;
  for (Index i = 0; i < n; ++i) row[i] *= scale;
  return {most, sum};
}

}  // namespace gpt2
