// SPDX-License-Identifier: Apache-2.0
#pragma once
// Replays as CUDA graphs: what a stream is given is captured once, and launched as one from then
// on.

#include <zero/cuda/stream.hpp>

#include <utility>

namespace zero::cuda {

/// One graph, as zero::CanReplay wants it. The first call enqueues as usual, which loads kernels: a
/// capture may not. The second captures. A kernel's arguments are those of the capture.
class Replay {
 public:
  Replay() = default;
  /// Takes over the graph; the other has none.
  Replay(Replay&& other) noexcept
      : graph_(std::exchange(other.graph_, nullptr)),
        events_(std::move(other.events_)),
        loaded_(other.loaded_) {}
  /// Exchanges the graphs of the two.
  Replay& operator=(Replay&& other) noexcept {
    std::swap(graph_, other.graph_);
    std::swap(events_, other.events_);
    std::swap(loaded_, other.loaded_);
    return *this;
  }
  ~Replay() {
    if (graph_ != nullptr) ignore(cudaGraphExecDestroy(graph_));
  }

  /// Enqueues on the stream what f() enqueues there.
  /// @throws what f throws while it is called; Failure
  template <class F>
  void operator()(Stream& stream, F&& f) {
    if (!std::exchange(loaded_, true)) {
      f();
      return;
    }
    if (graph_ == nullptr) capture(stream, f);
    for (auto const& at_launch : events_.at_launches) at_launch(stream, false);
    for (Event const* event : events_.waits) stream.wait(*event);
    check(cudaGraphLaunch(graph_, stream.native()), "cudaGraphLaunch");
    for (auto const& at_launch : events_.at_launches) at_launch(stream, true);
    for (Event* event : events_.records) stream.record(*event);
  }

 private:
  template <class F>
  void capture(Stream& stream, F& f) {
    events_ = {};
    stream.begin_capture(events_);
    try {
      f();
    } catch (...) {
      cudaGraph_t graph = nullptr;
      ignore(stream.end_capture(graph));
      if (graph != nullptr) ignore(cudaGraphDestroy(graph));
      throw;
    }
    cudaGraph_t graph = nullptr;
    check(stream.end_capture(graph), "cudaStreamEndCapture");
    cudaError_t const status = cudaGraphInstantiate(&graph_, graph, 0);
    ignore(cudaGraphDestroy(graph));
    if (status != cudaSuccess) graph_ = nullptr;  // what a failed call leaves there is no graph
    check(status, "cudaGraphInstantiate");
  }

  cudaGraphExec_t graph_ = nullptr;
  CapturedEvents events_;
  bool loaded_ = false;
};

}  // namespace zero::cuda
