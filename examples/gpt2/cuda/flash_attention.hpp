// SPDX-License-Identifier: Apache-2.0
#pragma once
// Causal attention in 16 bits by cuDNN's kernels: the graphs of attention_graphs.hpp planned once a
// shape and run on a model's buffers.

#include <zero/cuda/device.hpp>

#include <gpt2/cuda/attention_graphs.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>

namespace gpt2::cuda {

/// Where attention's tensors lie, in device memory.
struct AttentionTensors {
  void const* qkv = nullptr;
  void* out = nullptr;
  float* stats = nullptr;
  void const* grad_out = nullptr;  ///< backward only, as what follows
  void* grad_qkv = nullptr;
  float* row_sums = nullptr;  ///< scratch, [batch, heads, length]
};

/// Runs both graphs; plans each shape once.
class FlashAttention {
 public:
  /// Head widths that cuDNN's kernels take.
  static bool takes(Index head_width) { return head_width % 8 == 0 && head_width <= 128; }

  /// @param type of all that lies in memory but the stats: CUDNN_DATA_BFLOAT16 or CUDNN_DATA_HALF
  FlashAttention(zero::cuda::Device& device, cudnnDataType_t type) : device_(device), type_(type) {
    check(cudnnCreate(&handle_), "cudnnCreate");
  }
  FlashAttention(FlashAttention const&) = delete;
  FlashAttention& operator=(FlashAttention const&) = delete;
  ~FlashAttention() {
    plans_.clear();
    cudnnDestroy(handle_);
  }

  /// Plans a shape and makes room for it; where an earlier shape's room is too small, no work of
  /// this object may be under way.
  /// @throws zero::cuda::Failure where cuDNN has no plan; zero::OutOfMemory
  void prepare(AttentionShape const& shape, bool trains) {
    Plans& plans = plans_[shape];
    Index bytes = workspace_bytes_;
    if (!plans.forward) {
      plans.forward = std::make_unique<AttentionForward>(shape, type_);
      plans.forward_plan = plans.forward->graph.plan({.handle = handle_}, "causal attention");
    }
    bytes = std::max(bytes, Index{plans.forward_plan.workspace_bytes});
    if (trains && !plans.backward) {
      plans.backward = std::make_unique<AttentionBackward>(shape, type_);
      plans.backward_plan =
          plans.backward->graph.plan({.handle = handle_}, "the backward pass of causal attention");
    }
    if (plans.backward) bytes = std::max(bytes, Index{plans.backward_plan.workspace_bytes});
    if (bytes <= workspace_bytes_) return;
    workspace_ = {};
    workspace_ = device_.allocate(bytes, "workspace of attention");
    workspace_bytes_ = bytes;
  }

  /// out and stats from qkv. @pre prepare(shape)
  void forward(cudaStream_t stream, AttentionShape const& shape, AttentionTensors const& on) {
    Plans& plans = plans_.at(shape);
    AttentionForward& g = *plans.forward;
    Scalars scalars(shape);
    Binding to;
    bind_qkv(to, on.qkv, shape, g.query, g.key, g.value);
    to.bind(g.out, on.out);
    to.bind(g.stats, on.stats);
    to.bind(g.scale, &scalars.scale);
    to.bind(g.lowest, &scalars.lowest);
    execute(stream, plans.forward_plan, to);
  }

  /// grad_qkv from grad_out. @pre prepare(shape, true)
  void backward(cudaStream_t stream, AttentionShape const& shape, AttentionTensors const& on) {
    Plans& plans = plans_.at(shape);
    AttentionBackward& g = *plans.backward;
    Scalars scalars(shape);
    Binding to;
    bind_qkv(to, on.qkv, shape, g.query, g.key, g.value);
    bind_qkv(to, on.grad_qkv, shape, g.grad_query, g.grad_key, g.grad_value);
    to.bind(g.out, on.out);
    to.bind(g.stats, on.stats);
    to.bind(g.grad_out, on.grad_out);
    to.bind(g.row_sums, on.row_sums);
    to.bind(g.scale, &scalars.scale);
    to.bind(g.lowest, &scalars.lowest);
    to.bind(g.one, &scalars.one);
    execute(stream, plans.backward_plan, to);
  }

 private:
  struct Plans {
    std::unique_ptr<AttentionForward> forward;
    std::unique_ptr<AttentionBackward> backward;
    ExecutionPlan forward_plan;
    ExecutionPlan backward_plan;
  };
  /// Read by cuDNN while the work is enqueued.
  struct Scalars {
    float scale;
    float lowest = std::numeric_limits<float>::lowest();
    float one = 1;
    explicit Scalars(AttentionShape const& s)
        : scale(1.0f / std::sqrt(static_cast<float>(s.head_width()))) {}
  };
  /// Which tensor lies where.
  struct Binding {
    std::array<std::int64_t, 16> numbers{};
    std::array<void*, 16> addresses{};
    std::size_t count = 0;

    void bind(OperationGraph::Number number, void const* address) {
      numbers[count] = number;
      addresses[count++] = const_cast<void*>(address);
    }
  };

  static void bind_qkv(Binding& to, void const* qkv, AttentionShape const& s,
                       OperationGraph::Number query, OperationGraph::Number key,
                       OperationGraph::Number value) {
    auto const* const first = static_cast<std::uint16_t const*>(qkv);
    to.bind(query, first);
    to.bind(key, first + s.width);
    to.bind(value, first + 2 * s.width);
  }

  void execute(cudaStream_t stream, ExecutionPlan const& plan, Binding const& to) {
    check(cudnnSetStream(handle_, stream), "cudnnSetStream");
    void* const workspace = workspace_.address();
    Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64,
             std::span<std::int64_t const>(to.numbers.data(), to.count));
    pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
             std::span<void* const>(to.addresses.data(), to.count));
    pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace);
    pack.finalize("a variant pack");
    check(cudnnBackendExecute(handle_, plan.plan.native(), pack.native()), "cudnnBackendExecute");
  }

  zero::cuda::Device& device_;
  cudnnDataType_t type_;
  cudnnHandle_t handle_ = nullptr;
  std::map<AttentionShape, Plans> plans_;
  zero::cuda::Device::Buffer workspace_;
  Index workspace_bytes_ = 0;
};

}  // namespace gpt2::cuda
