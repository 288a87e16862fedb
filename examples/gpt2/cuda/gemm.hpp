// SPDX-License-Identifier: Apache-2.0
#pragma once
// Products of row-major matrices through cuBLASLt, with what it can do on the way. Each kind of
// product is planned once: the algorithm is the first that the library's heuristics offer for a
// workspace of fixed size, so that equal products have equal bits.
//
// cuBLASLt thinks in columns: a row-major matrix is its transposed one there, so that
// out = a b becomes out^T = b^T a^T, and its first operand is our second.

#include <zero/core/dtype.hpp>
#include <zero/cuda/device.hpp>

#include <gpt2/cuda/status.hpp>

#include <compare>
#include <map>
#include <string>
#include <type_traits>
#include <utility>

namespace gpt2::cuda {

/// CUDA's number for a type.
template <class T>
inline constexpr cudaDataType data_type = std::is_same_v<T, float>        ? CUDA_R_32F
                                          : std::is_same_v<T, zero::bf16> ? CUDA_R_16BF
                                                                          : CUDA_R_16F;

/// What a product does besides.
enum class Epilogue {
  none,
  bias,           ///< adds bias [columns] to every row
  gelu,           ///< adds bias, keeps that in aux [rows, columns], puts out gelu of it
  gelu_gradient,  ///< multiplies by gelu'(aux)
  bias_gradient,  ///< also puts out the sums of b's rows, [columns]
};

/// The kind of a product out [rows, columns] = a [rows, inner] b [inner, columns]. A stride is the
/// distance of two stored rows; a transposed operand is stored as [inner, rows], or [columns,
/// inner]. A batch of products lies `..._step` elements apart.
struct Product {
  Index rows = 0;
  Index columns = 0;
  Index inner = 0;
  bool a_transposed = false;
  bool b_transposed = false;
  Epilogue epilogue = Epilogue::none;
  bool adds = false;   ///< adds c, which may be out
  Index a_stride = 0;  ///< 0: rows lie one after the other
  Index b_stride = 0;
  Index out_stride = 0;
  Index batch = 1;
  Index a_step = 0;
  Index b_step = 0;
  Index out_step = 0;

  auto operator<=>(Product const&) const = default;
};

/// Where a product's matrices lie, in device memory, at multiples of 16 bytes.
struct Operands {
  void const* a = nullptr;
  void const* b = nullptr;
  void* out = nullptr;
  void const* c = nullptr;     ///< added, laid out as out; null: out itself
  void const* bias = nullptr;  ///< bias, or where the bias's gradient goes
  void* aux = nullptr;
};

/// Plans and makes products of T, summed in float without TF32.
/// @tparam T float, zero::bf16 or zero::fp16
template <class T>
class Products {
 public:
  static constexpr Index workspace_bytes = Index{32} << 20;

  /// @throws zero::OutOfMemory; zero::cuda::Failure
  explicit Products(zero::cuda::Device& device)
      : workspace_(device.allocate(workspace_bytes, "workspace of products")) {
    check(cublasLtCreate(&handle_), "cublasLtCreate");
  }
  Products(Products const&) = delete;
  Products& operator=(Products const&) = delete;
  ~Products() {
    plans_.clear();
    if (handle_ != nullptr) cublasLtDestroy(handle_);
  }

  /// Enqueues out = scale a b, + c where the product adds, then the epilogue. Out is float where
  /// `wide`.
  /// @throws zero::cuda::Failure, naming the product when cuBLASLt has no algorithm for it
  void operator()(cudaStream_t stream, Product const& product, Operands const& on, float scale = 1,
                  bool wide = false) {
    Plan& plan = find(product, wide);
    if (on.bias != nullptr) plan.attribute(CUBLASLT_MATMUL_DESC_BIAS_POINTER, on.bias);
    if (on.aux != nullptr)
      plan.attribute(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, static_cast<void const*>(on.aux));
    float const beta = product.adds ? 1.0f : 0.0f;
    check(cublasLtMatmul(handle_, plan.operation, &scale, on.b, plan.b, on.a, plan.a, &beta,
                         on.c == nullptr ? on.out : on.c, plan.out, on.out, plan.out,
                         &plan.algorithm, workspace_.address(), at(workspace_bytes), stream),
          "cublasLtMatmul");
  }

 private:
  static constexpr cudaDataType type = data_type<T>;

  /// Owner of the descriptions of one kind of product.
  struct Plan {
    cublasLtMatmulDesc_t operation = nullptr;
    cublasLtMatrixLayout_t a = nullptr;
    cublasLtMatrixLayout_t b = nullptr;
    cublasLtMatrixLayout_t out = nullptr;
    cublasLtMatmulAlgo_t algorithm{};

    Plan() = default;
    Plan(Plan const&) = delete;
    Plan& operator=(Plan const&) = delete;
    ~Plan() {
      for (cublasLtMatrixLayout_t layout : {a, b, out}) {
        if (layout != nullptr) cublasLtMatrixLayoutDestroy(layout);
      }
      if (operation != nullptr) cublasLtMatmulDescDestroy(operation);
    }

    template <class V>
    void attribute(cublasLtMatmulDescAttributes_t name, V const& value) {
      check(cublasLtMatmulDescSetAttribute(operation, name, &value, sizeof value),
            "cublasLtMatmulDescSetAttribute");
    }
  };

  static cublasLtEpilogue_t native(Epilogue epilogue) {
    switch (epilogue) {
      case Epilogue::bias:
        return CUBLASLT_EPILOGUE_BIAS;
      case Epilogue::gelu:
        return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
      case Epilogue::gelu_gradient:
        return CUBLASLT_EPILOGUE_DGELU;
      case Epilogue::bias_gradient:
        return CUBLASLT_EPILOGUE_BGRADA;
      default:
        return CUBLASLT_EPILOGUE_DEFAULT;
    }
  }

  /// A stored matrix [rows, columns]: columns of `columns` elements there.
  static cublasLtMatrixLayout_t layout(cudaDataType of, Index rows, Index columns, Index stride,
                                       Index batch, Index step) {
    cublasLtMatrixLayout_t result = nullptr;
    check(cublasLtMatrixLayoutCreate(&result, of, static_cast<std::uint64_t>(columns),
                                     static_cast<std::uint64_t>(rows),
                                     stride == 0 ? columns : stride),
          "cublasLtMatrixLayoutCreate");
    if (batch > 1) {
      auto const count = static_cast<std::int32_t>(batch);
      cublasStatus_t status = cublasLtMatrixLayoutSetAttribute(
          result, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count);
      if (status == CUBLAS_STATUS_SUCCESS) {
        status = cublasLtMatrixLayoutSetAttribute(
            result, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step, sizeof step);
      }
      if (status != CUBLAS_STATUS_SUCCESS) cublasLtMatrixLayoutDestroy(result);
      check(status, "cublasLtMatrixLayoutSetAttribute");
    }
    return result;
  }

  Plan& find(Product const& p, bool wide) {
    auto const found = plans_.find({p, wide});
    if (found != plans_.end()) return found->second;
    Plan& plan = plans_[{p, wide}];
    try {
      make(plan, p, wide);
    } catch (...) {
      plans_.erase({p, wide});
      throw;
    }
    return plan;
  }

  void make(Plan& plan, Product const& p, bool wide) {
    check(cublasLtMatmulDescCreate(&plan.operation, CUBLAS_COMPUTE_32F, CUDA_R_32F),
          "cublasLtMatmulDescCreate");
    plan.attribute(CUBLASLT_MATMUL_DESC_TRANSA, p.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    plan.attribute(CUBLASLT_MATMUL_DESC_TRANSB, p.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    plan.attribute(CUBLASLT_MATMUL_DESC_EPILOGUE, native(p.epilogue));
    void const* const somewhere = workspace_.address();  // heuristics look at its alignment
    if (p.epilogue == Epilogue::bias || p.epilogue == Epilogue::gelu ||
        p.epilogue == Epilogue::bias_gradient) {
      plan.attribute(CUBLASLT_MATMUL_DESC_BIAS_POINTER, somewhere);
    }
    if (p.epilogue == Epilogue::gelu || p.epilogue == Epilogue::gelu_gradient) {
      std::int64_t const stride = p.columns;
      plan.attribute(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, stride);
      plan.attribute(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, somewhere);
    }
    plan.a = layout(type, p.a_transposed ? p.inner : p.rows, p.a_transposed ? p.rows : p.inner,
                    p.a_stride, p.batch, p.a_step);
    plan.b = layout(type, p.b_transposed ? p.columns : p.inner,
                    p.b_transposed ? p.inner : p.columns, p.b_stride, p.batch, p.b_step);
    plan.out =
        layout(wide ? CUDA_R_32F : type, p.rows, p.columns, p.out_stride, p.batch, p.out_step);
    plan.algorithm = choose(plan, p);
  }

  cublasLtMatmulAlgo_t choose(Plan const& plan, Product const& p) {
    cublasLtMatmulPreference_t preference = nullptr;
    check(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
    std::uint64_t const bytes = workspace_bytes;
    std::uint32_t const alignment = 16;
    // Parts of a sum meet in float, or rounding would depend on into how many it is cut.
    std::uint32_t const reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    cublasStatus_t status = cublasLtMatmulPreferenceSetAttribute(
        preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes);
    if (status == CUBLAS_STATUS_SUCCESS) {
      status = cublasLtMatmulPreferenceSetAttribute(
          preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions, sizeof reductions);
    }
    for (auto name :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      if (status == CUBLAS_STATUS_SUCCESS) {
        status =
            cublasLtMatmulPreferenceSetAttribute(preference, name, &alignment, sizeof alignment);
      }
    }
    cublasLtMatmulHeuristicResult_t result{};
    int found = 0;
    if (status == CUBLAS_STATUS_SUCCESS) {
      status = cublasLtMatmulAlgoGetHeuristic(handle_, plan.operation, plan.b, plan.a, plan.out,
                                              plan.out, preference, 1, &result, &found);
    }
    cublasLtMatmulPreferenceDestroy(preference);
    check(found == 0 && status == CUBLAS_STATUS_SUCCESS ? CUBLAS_STATUS_NOT_SUPPORTED : status,
          "cublasLtMatmulAlgoGetHeuristic for " + describe(p));
    return result.algo;
  }

  static std::string describe(Product const& p) {
    auto const n = [](Index value) { return std::to_string(value); };
    return "[" + n(p.rows) + ", " + n(p.inner) + "] x [" + n(p.inner) + ", " + n(p.columns) +
           "], batch " + n(p.batch) + ", " +
           (type == CUDA_R_32F    ? "fp32"
            : type == CUDA_R_16BF ? "bf16"
                                  : "fp16") +
           ", epilogue " + n(static_cast<Index>(p.epilogue));
  }

  zero::cuda::Device::Buffer workspace_;
  cublasLtHandle_t handle_ = nullptr;
  std::map<std::pair<Product, bool>, Plan> plans_;
};

}  // namespace gpt2::cuda
