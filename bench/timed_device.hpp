// SPDX-License-Identifier: Apache-2.0
#pragma once
// A GPU that writes down when the work of its streams ran: on the GPU between the last wait and the
// first record around it, by events; on the host by the clock. Streams that were given a name are
// written down, while it is asked to.

#include <zero/cuda/device.hpp>

#include <chrono>
#include <deque>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace bench {

/// From, to: milliseconds since the trace began.
struct Span {
  double from = 0;
  double to = 0;
};

/// What has been written down.
class Trace {
 public:
  using Clock = std::chrono::steady_clock;
  /// Work of the host, named by the function that enqueued it.
  struct Work {
    std::string_view by;
    Clock::time_point asked{};  ///< enqueued
    Clock::time_point from{};
    Clock::time_point to{};
  };

  bool on() const { return on_; }
  /// The GPU is idle, so that its clock and the host's can be laid beside each other.
  void begin() {
    zero::cuda::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    start_ = event();
    zero::cuda::check(cudaEventRecord(start_, nullptr), "cudaEventRecord");
    zero::cuda::check(cudaEventSynchronize(start_), "cudaEventSynchronize");
    began_ = Clock::now();
    on_ = true;
  }
  void end() { on_ = false; }

  /// A new event, recorded on the stream.
  cudaEvent_t mark(cudaStream_t stream) {
    cudaEvent_t const made = event();
    zero::cuda::check(cudaEventRecord(made, stream), "cudaEventRecord");
    return made;
  }
  /// Once the GPU is idle.
  double ms(cudaEvent_t at) const {
    float since = 0;
    zero::cuda::check(cudaEventElapsedTime(&since, start_, at), "cudaEventElapsedTime");
    return static_cast<double>(since);
  }
  double ms(Clock::time_point at) const {
    return std::chrono::duration<double, std::milli>(at - began_).count();
  }

  Trace() = default;
  Trace(Trace const&) = delete;
  Trace& operator=(Trace const&) = delete;
  ~Trace() {
    for (cudaEvent_t made : events_) zero::cuda::ignore(cudaEventDestroy(made));
  }

 private:
  cudaEvent_t event() {
    cudaEvent_t made = nullptr;
    zero::cuda::check(cudaEventCreate(&made), "cudaEventCreate");
    events_.push_back(made);
    return made;
  }

  bool on_ = false;
  cudaEvent_t start_ = nullptr;
  Clock::time_point began_{};
  std::vector<cudaEvent_t> events_;
};

class TimedStream : public zero::cuda::Stream {
 public:
  using Event = zero::cuda::Event;

  TimedStream(zero::cuda::Stream&& stream, std::shared_ptr<Trace> trace)
      : zero::cuda::Stream(std::move(stream)), trace_(std::move(trace)) {}

  /// It is written down from now on, whenever the trace is on. @param of_gpu work on the GPU as
  ///   well, which costs two timed events a piece: a stream of the host's work alone goes without
  void watch(bool of_gpu) {
    log_ = std::make_unique<Log>();
    log_->of_gpu = of_gpu;
  }

  void record(Event& event) noexcept {
    if (traces() && log_->of_gpu && log_->waited != nullptr) {
      try {
        log_->gpu.emplace_back(std::exchange(log_->waited, nullptr), trace_->mark(native()));
      } catch (...) {  // the work itself fails as well, and says so
      }
    }
    zero::cuda::Stream::record(event);
  }
  void wait(Event const& event) {
    zero::cuda::Stream::wait(event);
    if (traces() && log_->of_gpu) log_->waited = trace_->mark(native());
  }
  template <class F>
  void enqueue(F work) {
    if (!traces()) return zero::cuda::Stream::enqueue(std::move(work));
    Trace::Work& noted = log_->host.emplace_back();
    noted.by = name_of<F>();
    noted.asked = Trace::Clock::now();
    zero::cuda::Stream::enqueue([work = std::move(work), &noted]() mutable {
      noted.from = Trace::Clock::now();
      work();
      noted.to = Trace::Clock::now();
    });
  }

  /// Work on the GPU, in the order in which it was enqueued.
  std::vector<Span> on_gpu() const {
    std::vector<Span> spans;
    for (auto const& [from, to] : log_->gpu) spans.push_back({trace_->ms(from), trace_->ms(to)});
    return spans;
  }
  /// Work on the host that a function of this name has enqueued.
  std::vector<Span> on_host(std::string_view function) const {
    std::vector<Span> spans;
    for (Trace::Work const& work : log_->host) {
      if (work.by.find(function) != std::string_view::npos)
        spans.push_back({trace_->ms(work.from), trace_->ms(work.to)});
    }
    return spans;
  }
  /// How long that work waited for its turn, from when it was enqueued.
  std::vector<Span> waiting(std::string_view function) const {
    std::vector<Span> spans;
    for (Trace::Work const& work : log_->host) {
      if (work.by.find(function) != std::string_view::npos)
        spans.push_back({trace_->ms(work.asked), trace_->ms(work.from)});
    }
    return spans;
  }

 private:
  struct Log {
    bool of_gpu = true;
    cudaEvent_t waited = nullptr;
    std::vector<std::pair<cudaEvent_t, cudaEvent_t>> gpu;
    std::deque<Trace::Work> host;
  };

  bool traces() const { return log_ != nullptr && trace_->on(); }
  template <class F>
  static std::string_view name_of() {
    return __PRETTY_FUNCTION__;
  }

  std::shared_ptr<Trace> trace_;
  std::unique_ptr<Log> log_;
};

class TimedDevice : public zero::cuda::Device {
 public:
  using Stream = TimedStream;
  using zero::cuda::Device::Device;

  TimedStream stream() { return {zero::cuda::Device::stream(), trace_}; }
  Trace& trace() { return *trace_; }

 private:
  std::shared_ptr<Trace> trace_ = std::make_shared<Trace>();
};

static_assert(zero::cuda::RunsKernels<TimedDevice>);

}  // namespace bench
