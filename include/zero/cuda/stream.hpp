// SPDX-License-Identifier: Apache-2.0
#pragma once
// Streams and events of CUDA as owners.

#include <zero/cuda/host_tasks.hpp>
#include <zero/cuda/memory.hpp>
#include <zero/device/host_workers.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace zero::cuda {

/// Owner of an event; one that was made without a handle is complete.
class Event {
 public:
  Event() = default;
  /// An event of the calling thread's GPU. @throws Failure
  static Event make() {
    Event event;
    check(cudaEventCreateWithFlags(&event.handle_, cudaEventDisableTiming),
          "cudaEventCreateWithFlags");
    return event;
  }
  /// Takes over the handle; the other is complete.
  Event(Event&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)), recorder_(other.recorder_) {}
  /// Exchanges the handles of the two.
  Event& operator=(Event&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(recorder_, other.recorder_);
    return *this;
  }
  ~Event() {
    if (handle_ != nullptr) ignore(cudaEventDestroy(handle_));
  }

  /// Stays this object's; null where it has none. To wait for and to ask: only Stream::record
  /// records it.
  cudaEvent_t native() const { return handle_; }

 private:
  friend class Stream;
  cudaEvent_t handle_ = nullptr;
  std::uint64_t recorder_ = 0;  // number of the stream that has recorded it last; 0: none
};

class Stream;

/// What was waited for and recorded while a stream was captured, each once, in order: it stays
/// outside of the graph, whose launch comes behind the waits and before the records.
struct CapturedEvents {
  std::vector<Event const*> waits{};  ///< not owned
  std::vector<Event*> records{};      ///< not owned
  /// Called at each launch of the graph: with false before it, with true right behind it.
  std::vector<std::function<void(Stream&, bool)>> at_launches{};
};

/// What must be looked at while the host waits, since a stream that waits for other processes would
/// wait for ever when one of them is gone.
class Watcher {
 public:
  virtual ~Watcher() = default;
  /// @param host_waits the host does nothing else
  /// @throws CommunicationError when what streams wait for will not come
  virtual void look(bool host_waits) = 0;
};

/// The watchers of one device.
using Watchers = std::vector<std::weak_ptr<Watcher>>;

/// A queue of work on one GPU; owns the CUDA stream. It is ordered with no other stream, the legacy
/// default one included, but by events.
class Stream {
 public:
  using Event = cuda::Event;  ///< what it records and waits for
  /// What the kernels of one stream need: 8,192 sums on their way and 256 running totals. Checked
  /// where they are.
  static constexpr Index workspace_bytes = Index{264} * 256;

  /// @param pool of the GPU; gives the workspace, and stays until the stream has ended
  /// @param watchers are looked at whenever the host waits for this stream
  /// @param workers that share updates on the host, or null
  /// @throws Failure
  Stream(std::shared_ptr<Pool> pool, std::shared_ptr<Watchers> watchers,
         std::shared_ptr<HostWorkers> workers = {})
      : pool_(std::move(pool)), watchers_(std::move(watchers)), workers_(std::move(workers)) {
    activate(pool_->ordinal());
    cuda::check(cudaStreamCreateWithFlags(&handle_, cudaStreamNonBlocking),
                "cudaStreamCreateWithFlags");
  }
  /// Takes over the queue and the workspace; the other has none.
  Stream(Stream&& other) noexcept
      : pool_(std::move(other.pool_)),
        watchers_(std::move(other.watchers_)),
        handle_(std::exchange(other.handle_, nullptr)),
        number_(other.number_),
        failed_(other.failed_),
        captured_(std::exchange(other.captured_, nullptr)),
        workspace_(std::move(other.workspace_)),
        workspace_address_(std::exchange(other.workspace_address_, nullptr)),
        workspace_bytes_(other.workspace_bytes_),
        tasks_(std::move(other.tasks_)),
        workers_(std::move(other.workers_)) {}
  /// Exchanges the queues and workspaces of the two.
  Stream& operator=(Stream&& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(watchers_, other.watchers_);
    std::swap(handle_, other.handle_);
    std::swap(number_, other.number_);
    std::swap(failed_, other.failed_);
    std::swap(captured_, other.captured_);
    std::swap(workspace_, other.workspace_);
    std::swap(workspace_address_, other.workspace_address_);
    std::swap(workspace_bytes_, other.workspace_bytes_);
    std::swap(tasks_, other.tasks_);
    std::swap(workers_, other.workers_);
    return *this;
  }
  /// Waits for work that still uses the workspace, or is done on the host.
  ~Stream() {
    if (handle_ == nullptr) return;
    if (workspace_bytes_ > 0 || tasks_ != nullptr) ignore(cudaStreamSynchronize(handle_));
    ignore(cudaStreamDestroy(handle_));
  }

  /// The event is complete when all that is enqueued by now is done. What fails in this is thrown
  /// by check().
  void record(Event& event) noexcept {
    if (captured_ != nullptr) {
      keep(captured_->records, &event);
      return;
    }
    cudaError_t const status = event.native() == nullptr ? cudaErrorInvalidValue
                                                         : cudaEventRecord(event.native(), handle_);
    event.recorder_ = status == cudaSuccess ? number_ : 0;
    if (status == cudaSuccess) return;
    ignore(status);
    if (failed_ == cudaSuccess) failed_ = status;
  }
  /// What is enqueued from now on runs after the event's record; the host goes on. Nothing is
  /// enqueued where this stream has recorded the event itself. @throws Failure
  void wait(Event const& event) {
    if (event.native() == nullptr) return;
    if (captured_ != nullptr) {
      keep(captured_->waits, &event);
      return;
    }
    if (event.recorder_ == number_) return;
    cuda::check(cudaStreamWaitEvent(handle_, event.native(), cudaEventWaitDefault),
                "cudaStreamWaitEvent");
  }
  /// The host waits until all work is done.
  /// @throws Failure for what failed in it; CommunicationError when it will never be done
  void synchronize() {
    if (watchers_->empty()) {
      cuda::check(cudaStreamSynchronize(handle_), "cudaStreamSynchronize");
    } else {
      while (!done()) {
        look(true);
        std::this_thread::yield();
      }
    }
    check();
  }
  /// The host waits until the event, which this stream or another one has recorded, is complete.
  /// @throws Failure; CommunicationError when it never will be
  void synchronize(Event const& event) {
    if (event.native() == nullptr) return;
    if (watchers_->empty()) {
      cuda::check(cudaEventSynchronize(event.native()), "cudaEventSynchronize");
      return;
    }
    while (!ended(cudaEventQuery(event.native()), "cudaEventQuery")) {
      look(true);
      std::this_thread::yield();
    }
  }
  /// @throws Failure for what has failed so far; CommunicationError when another rank has failed
  void check() {
    cuda::check(std::exchange(failed_, cudaSuccess), "cudaEventRecord");
    done();
    if (tasks_ != nullptr) tasks_->check();
    look(false);
  }

  /// Runs work() on the host, in this stream's order, by a thread of CUDA's; it calls nothing of
  /// CUDA. What it throws is thrown by check(); work behind it is then left out.
  /// @throws InvalidArgument while the stream is captured; Failure
  template <class F>
  void enqueue(F work) {
    if (captured_ != nullptr)
      throw InvalidArgument("cuda::Stream: work of the host cannot be part of a graph");
    if (tasks_ == nullptr) tasks_ = std::make_unique<HostTasks>();
    auto* const task = tasks_->keep(std::move(work));
    cudaError_t const status = cudaLaunchHostFunc(handle_, HostTasks::run, task);
    if (status != cudaSuccess) tasks_->drop(task);
    cuda::check(status, "cudaLaunchHostFunc");
  }
  /// Threads that share updates on the host; null: none.
  std::shared_ptr<HostWorkers> const& workers() const { return workers_; }

  cudaStream_t native() const { return handle_; }   ///< for kernels; stays this object's
  int ordinal() const { return pool_->ordinal(); }  ///< of its GPU, as CUDA counts them

  /// What is enqueued from now on goes into a graph and is not run; events go into `events`, which
  /// stays until end_capture. @throws Failure
  void begin_capture(CapturedEvents& events) {
    cuda::check(cudaStreamBeginCapture(handle_, cudaStreamCaptureModeThreadLocal),
                "cudaStreamBeginCapture");
    captured_ = &events;
  }
  /// Between the two.
  bool captures() const { return captured_ != nullptr; }
  /// Between the two: no other capture of the process has it. @throws Failure
  unsigned long long capture_id() const {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    unsigned long long id = 0;
    cuda::check(cudaStreamGetCaptureInfo(handle_, &status, &id), "cudaStreamGetCaptureInfo");
    return id;
  }
  /// Between the two: f(stream, false) is called before each launch of the graph, f(stream, true)
  /// right behind it. What it names outlives the last launch.
  void at_launches(std::function<void(Stream&, bool)> f) {
    captured_->at_launches.push_back(std::move(f));
  }
  /// Ends that. @param graph is the caller's, null where it failed
  cudaError_t end_capture(cudaGraph_t& graph) noexcept {
    captured_ = nullptr;
    return cudaStreamEndCapture(handle_, &graph);
  }

  /// Gives it memory of this GPU for its kernels, in place of memory of its own.
  /// @param address of memory that outlives its work, aligned to 256 bytes
  /// @param bytes as many as it will ever be asked for, workspace_bytes for all kernels here
  /// @throws InvalidArgument where it has a workspace; Failure
  void use_workspace(std::byte* address, Index bytes) {
    if (workspace_bytes_ > 0) {
      throw InvalidArgument("stream: it has a workspace of " + std::to_string(workspace_bytes_) +
                            " bytes already");
    }
    cuda::check(cudaMemsetAsync(address, 0, at(bytes), handle_), "cudaMemsetAsync");
    workspace_address_ = address;
    workspace_bytes_ = bytes;
  }
  /// Memory for kernels of this stream alone. Zeros at first; a kernel leaves as zeros what the
  /// next one needs so. Where it was given none it is allocated by the first call, under "stream
  /// workspace"; a later one may not ask for more.
  /// @throws OutOfMemory; InvalidArgument for more bytes than it has
  std::byte* workspace(Index bytes) {
    if (workspace_bytes_ == 0) {
      workspace_ = Buffer(bytes, "stream workspace", pool_);
      use_workspace(workspace_.address(), bytes);
    }
    if (bytes > workspace_bytes_) {
      throw InvalidArgument("stream: a workspace of " + std::to_string(bytes) + " bytes; it has " +
                            std::to_string(workspace_bytes_));
    }
    return workspace_address_;
  }

 private:
  template <class E>
  static void keep(std::vector<E>& events, E event) {
    if (std::find(events.begin(), events.end(), event) == events.end()) events.push_back(event);
  }
  bool done() { return ended(cudaStreamQuery(handle_), "cudaStreamQuery"); }
  static bool ended(cudaError_t status, std::string_view call) {
    if (status == cudaErrorNotReady) {
      ignore(status);
      return false;
    }
    cuda::check(status, call);
    return true;
  }
  void look(bool host_waits) {
    for (std::weak_ptr<Watcher> const& weak : *watchers_) {
      if (auto const watcher = weak.lock()) watcher->look(host_waits);
    }
  }

  static inline std::atomic<std::uint64_t> made_{0};

  std::shared_ptr<Pool> pool_;
  std::shared_ptr<Watchers> watchers_;
  cudaStream_t handle_ = nullptr;
  std::uint64_t number_ = ++made_;  // of the process's streams
  cudaError_t failed_ = cudaSuccess;
  CapturedEvents* captured_ = nullptr;  // not owned; null where it is not captured
  Buffer workspace_;                    // where it was given none
  std::byte* workspace_address_ = nullptr;
  Index workspace_bytes_ = 0;
  std::unique_ptr<HostTasks> tasks_;  // where there were any
  std::shared_ptr<HostWorkers> workers_;
};

}  // namespace zero::cuda
