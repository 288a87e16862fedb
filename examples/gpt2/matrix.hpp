// SPDX-License-Identifier: Apache-2.0
#pragma once
// Row-major matrices inside larger buffers, and their product: float through OpenBLAS, double
// through a plain loop. The plain loop makes every layer, instantiated in double, an oracle that
// owes nothing to the BLAS.

#include <zero/core/size.hpp>

#include <cblas.h>

#include <cassert>
#include <concepts>
#include <span>
#include <type_traits>

namespace gpt2 {

using zero::at;
using zero::Index;

/// The types that layers compute in. Parameters may be stored in others and are widened first.
template <class T>
concept Real = std::same_as<T, float> || std::same_as<T, double>;

/// A matrix that does not own its elements. `stride` elements lie between the starts of two stored
/// rows; `transposed` says that stored rows are columns.
template <class T>
struct Matrix {
  T* first = nullptr;
  Index rows = 0;
  Index columns = 0;
  Index stride = 0;
  bool transposed = false;

  Matrix() = default;
  Matrix(T* begin, Index num_rows, Index num_columns, Index row_stride, bool is_transposed = false)
      : first(begin),
        rows(num_rows),
        columns(num_columns),
        stride(row_stride),
        transposed(is_transposed) {}
  /// All of `elements` as rows of `num_columns` elements.
  Matrix(std::span<T> elements, Index num_columns)
      : Matrix(elements.data(), std::ssize(elements) / num_columns, num_columns, num_columns) {
    assert(rows * columns == std::ssize(elements));
  }

  /// The same elements with rows and columns exchanged.
  Matrix operator~() const { return {first, columns, rows, stride, !transposed}; }
};

/// OpenBLAS runs each product on the thread that asks for it: ranks are the parallelism. Call once,
/// before any rank starts.
inline void use_one_blas_thread() { openblas_set_num_threads(1); }

namespace detail {

inline void product(float alpha, Matrix<float const> a, Matrix<float const> b, float beta,
                    Matrix<float> c) {
  auto const order = [](Matrix<float const> const& m) {
    return m.transposed ? CblasTrans : CblasNoTrans;
  };
  auto const size = [](Index n) { return static_cast<blasint>(n); };
  cblas_sgemm(CblasRowMajor, order(a), order(b), size(c.rows), size(c.columns), size(a.columns),
              alpha, a.first, size(a.stride), b.first, size(b.stride), beta, c.first,
              size(c.stride));
}

inline void product(double alpha, Matrix<double const> a, Matrix<double const> b, double beta,
                    Matrix<double> c) {
  auto const element = [](Matrix<double const> const& m, Index row, Index column) {
    return m.transposed ? m.first[column * m.stride + row] : m.first[row * m.stride + column];
  };
  for (Index i = 0; i < c.rows; ++i) {
    for (Index j = 0; j < c.columns; ++j) {
      double sum = 0;
      for (Index k = 0; k < a.columns; ++k) sum += element(a, i, k) * element(b, k, j);
      double& out = c.first[i * c.stride + j];
      out = alpha * sum + (beta == 0 ? 0 : beta * out);
    }
  }
}

}  // namespace detail

/// c = alpha a b + beta c. With beta = 0 whatever stood in c is not read.
template <Real T>
void multiply(T alpha, Matrix<std::type_identity_t<T const>> a,
              Matrix<std::type_identity_t<T const>> b, std::type_identity_t<T> beta,
              Matrix<std::type_identity_t<T>> c) {
  assert(a.rows == c.rows && b.columns == c.columns && a.columns == b.rows && !c.transposed);
  if (c.rows > 0 && c.columns > 0) detail::product(alpha, a, b, beta, c);
}

}  // namespace gpt2
