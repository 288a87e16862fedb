// SPDX-License-Identifier: Apache-2.0
#pragma once
// A graph of cuDNN operations, through its backend API: tensors, operations between them, and the
// plan that cuDNN's heuristics make of it for one GPU, or for the description of one, which needs
// no GPU.

#include <gpt2/cuda/status.hpp>

#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace gpt2::cuda {

/// Owner of one of cuDNN's backend descriptors: attributes are set, then it is finalized.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(cudnnBackendDescriptorType_t type) {
    check(cudnnBackendCreateDescriptor(type, &native_), "cudnnBackendCreateDescriptor");
  }
  Descriptor(Descriptor&& other) noexcept : native_(std::exchange(other.native_, nullptr)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(native_, other.native_);
    return *this;
  }
  ~Descriptor() {
    if (native_ != nullptr) cudnnBackendDestroyDescriptor(native_);
  }

  cudnnBackendDescriptor_t native() const { return native_; }

  template <class V>
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                  std::span<V const> values) {
    check(cudnnBackendSetAttribute(native_, name, type, std::ssize(values), values.data()),
          "cudnnBackendSetAttribute " + std::to_string(name));
    return *this;
  }
  template <class V>
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                  V const& value) {
    return set(name, type, std::span<V const>(&value, 1));
  }
  Descriptor& set(cudnnBackendAttributeName_t name, Descriptor const& other) {
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, other.native_);
  }
  Descriptor& finalize(char const* what) {
    check(cudnnBackendFinalize(native_), std::string("cudnnBackendFinalize of ") + what);
    return *this;
  }
  std::int64_t number(cudnnBackendAttributeName_t name) const {
    std::int64_t value = 0;
    check(cudnnBackendGetAttribute(native_, name, CUDNN_TYPE_INT64, 1, nullptr, &value),
          "cudnnBackendGetAttribute " + std::to_string(name));
    return value;
  }

 private:
  cudnnBackendDescriptor_t native_ = nullptr;
};

/// What a plan is made for.
struct PlanFor {
  cudnnHandle_t handle = nullptr;           ///< of a GPU that is there, or
  Descriptor const* description = nullptr;  ///< of one that is not
};

/// What can be executed, and the device memory that it needs besides its tensors.
struct ExecutionPlan {
  Descriptor graph{};
  Descriptor engine{};
  Descriptor plan{};
  std::int64_t workspace_bytes = 0;
};

/// Collects operations. Every operation's result is a tensor that lies nowhere ("virtual") unless
/// it is one of the tensors with an address.
class OperationGraph {
 public:
  using Extents = std::array<std::int64_t, 4>;
  /// A tensor by its number, which is also its name in a variant pack.
  using Number = std::int64_t;

  /// A tensor in device memory, [extents], at a multiple of 16 bytes.
  Number tensor(cudnnDataType_t type, Extents const& extents, Extents const& strides) {
    return add(type, extents, strides, false, false);
  }
  /// A result that is only used within the graph.
  Number between(Extents const& extents, cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    return add(type, extents,
               {extents[1] * extents[2] * extents[3], extents[2] * extents[3], extents[3], 1}, true,
               false);
  }
  Number between(Extents const& extents, Extents const& strides,
                 cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    return add(type, extents, strides, true, false);
  }
  /// One number in host memory, read when the plan is executed.
  Number scalar(cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    return add(type, {1, 1, 1, 1}, {1, 1, 1, 1}, false, true);
  }

  /// y = mode(x), mode(x, b), or t ? x : b
  void pointwise(cudnnPointwiseMode_t mode, Number x, Number y, Number b = none, Number t = none,
                 std::int64_t axis = -1) {
    Descriptor& how = keep(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    how.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode);
    how.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    if (axis >= 0) how.set(CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, axis);
    how.finalize("a pointwise descriptor");
    Descriptor& operation = keep(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, of(x));
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, of(y));
    if (b != none) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, of(b));
    if (t != none) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, of(t));
    append(operation, "a pointwise operation");
  }
  /// c = a b, matrix by matrix
  void matmul(Number a, Number b, Number c) {
    Descriptor& how = keep(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    how.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    how.finalize("a matmul descriptor");
    Descriptor& operation = keep(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    operation.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
    operation.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, of(a));
    operation.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, of(b));
    operation.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, of(c));
    append(operation, "a matmul operation");
  }
  /// y = x reduced over the extents that are 1 in y
  void reduce(cudnnReduceTensorOp_t mode, Number x, Number y) {
    Descriptor& how = keep(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    how.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, mode);
    how.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    how.finalize("a reduction descriptor");
    Descriptor& operation = keep(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    operation.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
    operation.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, of(x));
    operation.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, of(y));
    append(operation, "a reduction operation");
  }
  /// y = x with y's extents and strides
  void reshape(Number x, Number y) {
    Descriptor& operation = keep(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    operation.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, of(x));
    operation.set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, of(y));
    append(operation, "a reshape operation");
  }

  /// The first plan among those that the heuristics offer which can be made for the GPU and whose
  /// bits are always the same.
  /// @throws zero::cuda::Failure where there is none
  ExecutionPlan plan(PlanFor gpu, char const* what) const {
    ExecutionPlan result{.graph = Descriptor(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)};
    result.graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                     std::span<cudnnBackendDescriptor_t const>(operations_));
    if (gpu.handle != nullptr)
      result.graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, gpu.handle);
    result.graph.finalize(what);
    std::string refusals;
    for (Descriptor& engine : engines(result.graph, gpu)) {
      if (!deterministic(engine)) continue;
      Descriptor candidate(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      candidate.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, engine);
      if (gpu.handle != nullptr) {
        candidate.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, gpu.handle);
      } else {
        candidate.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *gpu.description);
      }
      if (cudnnBackendFinalize(candidate.native()) != CUDNN_STATUS_SUCCESS) {
        char reason[256] = {};
        cudnnGetLastErrorString(reason, sizeof reason);
        refusals += std::string("; ") + reason;
        continue;
      }
      result.workspace_bytes = candidate.number(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
      result.engine = std::move(engine);
      result.plan = std::move(candidate);
      return result;
    }
    throw zero::cuda::Failure(std::string("cuDNN ") + std::to_string(cudnnGetVersion()) +
                              " has no plan for " + what + refusals);
  }

 private:
  static constexpr Number none = -1;

  Descriptor& keep(cudnnBackendDescriptorType_t type) { return parts_.emplace_back(type); }

  Descriptor const& of(Number tensor) const { return tensors_[at(tensor)]; }

  void append(Descriptor& operation, char const* what) {
    operation.finalize(what);
    operations_.push_back(operation.native());
  }

  Number add(cudnnDataType_t type, Extents const& extents, Extents const& strides, bool is_virtual,
             bool by_value) {
    auto const number = static_cast<Number>(tensors_.size());
    Descriptor& tensor = tensors_.emplace_back(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, number);
    tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type);
    tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64,
               std::span<std::int64_t const>(extents));
    tensor.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, std::span<std::int64_t const>(strides));
    tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, std::int64_t{16});
    tensor.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, is_virtual);
    tensor.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, by_value);
    tensor.finalize("a tensor");
    return number;
  }

  static std::vector<Descriptor> engines(Descriptor const& graph, PlanFor gpu) {
    Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, CUDNN_HEUR_MODE_A);
    if (gpu.description != nullptr)
      heuristics.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *gpu.description);
    heuristics.finalize("heuristics");
    std::int64_t count = 0;
    check(cudnnBackendGetAttribute(heuristics.native(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                   CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr),
          "the number of cuDNN's engines");
    std::vector<Descriptor> found;
    std::vector<cudnnBackendDescriptor_t> natives;
    for (std::int64_t i = 0; i < count; ++i) {
      found.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
      natives.push_back(found.back().native());
    }
    check(cudnnBackendGetAttribute(heuristics.native(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                   CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &count, natives.data()),
          "cuDNN's engines");
    found.resize(at(count));
    return found;
  }

  static bool deterministic(Descriptor const& configuration) {
    Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    cudnnBackendDescriptor_t native = engine.native();
    std::int64_t count = 0;
    check(cudnnBackendGetAttribute(configuration.native(), CUDNN_ATTR_ENGINECFG_ENGINE,
                                   CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &native),
          "the engine of a configuration");
    std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
    check(cudnnBackendGetAttribute(native, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                   CUDNN_TYPE_NUMERICAL_NOTE, std::ssize(notes), &count,
                                   notes.data()),
          "the notes of an engine");
    for (std::int64_t i = 0; i < count; ++i) {
      if (notes[at(i)] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) return false;
    }
    return true;
  }

  std::deque<Descriptor> tensors_;
  std::deque<Descriptor> parts_;
  std::vector<cudnnBackendDescriptor_t> operations_;
};

}  // namespace gpt2::cuda
