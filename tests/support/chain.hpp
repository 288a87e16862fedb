// SPDX-License-Identifier: Apache-2.0
#pragma once
// The arithmetic of the test model: a chain of layers, each of which may hold any number of tensors
// of any size. It knows nothing of the library and stands open to every arithmetic: float for what
// is trained, and other types for references. Each loop has one order, so floats give the same bits
// wherever it runs, kernels included.
//
// With x the input of a layer (samples x width) and w one of its tensors, flat, element j joins
// input in(j) to output out(j): z[s, out(j)] += x[s, in(j)] w[j]. The layer's output is
// y = x + z / (1 + |z|).

#include <zero/core/host_device.hpp>

#include <cstdint>
#include <vector>

namespace zero_test::chain {

using Count = std::int64_t;

inline constexpr Count width = 5;
inline constexpr Count samples = 3;
inline constexpr Count cells = width * samples;

ZERO_HOST_DEVICE constexpr Count out(Count j) { return j % width; }
/// Differs from out(j) by the row that j is in, so that all pairs occur from 25 elements on.
ZERO_HOST_DEVICE constexpr Count in(Count j) { return (j + j / width) % width; }

template <class Real>
ZERO_HOST_DEVICE Real magnitude(Real const& x) {
  return x < Real(0) ? -x : x;
}

/// What a gradient becomes when a value is added to it; other arithmetics overload it.
template <class Gradient>
ZERO_HOST_DEVICE Gradient added(Gradient const& gradient, float value) {
  return static_cast<Gradient>(static_cast<float>(gradient) + value);
}

/// z += the tensor w applied to x.
template <class Real, class Parameter>
ZERO_HOST_DEVICE void apply(Real* z, Real const* x, Parameter const* w, Count n) {
  for (Count j = 0; j < n; ++j) {
    Real const weight(static_cast<float>(w[j]));
    for (Count s = 0; s < cells; s += width) z[s + out(j)] = z[s + out(j)] + x[s + in(j)] * weight;
  }
}

/// y = x + z / (1 + |z|)
template <class Real>
ZERO_HOST_DEVICE void finish(Real* y, Real const* x, Real const* z) {
  for (Count i = 0; i < cells; ++i) y[i] = x[i] + z[i] / (Real(1) + magnitude(z[i]));
}

/// dz and dx = dy, before the tensors' parts are added to dx.
template <class Real>
ZERO_HOST_DEVICE void begin_back(Real* dz, Real* dx, Real const* dy, Real const* z) {
  for (Count i = 0; i < cells; ++i) {
    Real const d = Real(1) + magnitude(z[i]);
    dz[i] = dy[i] / (d * d);
    dx[i] = dy[i];
  }
}

/// dx += the tensor w, transposed, applied to dz.
template <class Real, class Parameter>
ZERO_HOST_DEVICE void apply_back(Real* dx, Real const* dz, Parameter const* w, Count n) {
  for (Count j = 0; j < n; ++j) {
    Real const weight(static_cast<float>(w[j]));
    for (Count s = 0; s < cells; s += width)
      dx[s + in(j)] = dx[s + in(j)] + dz[s + out(j)] * weight;
  }
}

/// The gradient of a tensor, added to what is there.
template <class Real, class Gradient>
ZERO_HOST_DEVICE void add_gradient(Gradient* g, Real const* dz, Real const* x, Count n,
                                   bool overwrite) {
  for (Count j = 0; j < n; ++j) {
    Real sum(0);
    for (Count s = 0; s < cells; s += width) sum = sum + dz[s + out(j)] * x[s + in(j)];
    g[j] = added(overwrite ? Gradient(0.0f) : g[j], sum);
  }
}

/// Mean square distance of y from the target; dy = its gradient times scale.
template <class Real>
ZERO_HOST_DEVICE double loss(Real* dy, Real const* y, float const* target, float scale) {
  double sum = 0;
  for (Count i = 0; i < cells; ++i) {
    Real const e = y[i] - Real(target[i]);
    dy[i] = e * Real(2.0f / static_cast<float>(samples)) * Real(scale);
    sum += static_cast<double>(e) * static_cast<double>(e);
  }
  return sum / static_cast<double>(samples);
}

/// Room for the activations and their gradients of a chain of layers.
template <class Real>
struct Memory {
  std::vector<Real> x;   ///< [length + 1, cells]
  std::vector<Real> z;   ///< [length, cells]
  std::vector<Real> dx;  ///< [length + 1, cells]
  std::vector<Real> dz;  ///< [length, cells]

  explicit Memory(Count length)
      : x(size(length + 1), Real(0)), z(size(length), Real(0)), dx(x), dz(z) {}

 private:
  static std::size_t size(Count layers) { return static_cast<std::size_t>(layers * cells); }
};

}  // namespace zero_test::chain
