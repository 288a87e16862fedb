// SPDX-License-Identifier: Apache-2.0
#pragma once
// A GPU as a device.

#include <zero/cuda/range.hpp>
#include <zero/cuda/replay.hpp>
#include <zero/cuda/stream.hpp>
#include <zero/device/range.hpp>
#include <zero/device/replay.hpp>

#include <memory>

namespace zero::cuda {

/// GPUs that this process sees, at least one.
/// @throws InvalidArgument where there is none; Failure
inline int visible_gpus() {
  int count = 0;
  check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  if (count < 1) throw InvalidArgument("cuda: this process sees no GPU; see CUDA_VISIBLE_DEVICES");
  return count;
}

/// One GPU, for one rank. Made, it is the one that the calling thread's CUDA calls mean; a thread
/// that uses several activates each before it enqueues on it.
class Device {
 public:
  static constexpr bool host_memory = false;  ///< the host may not dereference views
  using Stream = cuda::Stream;                ///< runs work in order, later than enqueued
  using Event = cuda::Event;                  ///< orders streams
  using Buffer = cuda::Buffer;                ///< owner of GPU memory
  using Range = cuda::Range;                  ///< names work for profilers
  using Replay = cuda::Replay;                ///< a part of a step as a graph

  /// @param ordinal of the GPU, as CUDA counts those that this process sees
  /// @throws InvalidArgument when there is no such GPU; Failure
  explicit Device(int ordinal = 0) {
    int const count = visible_gpus();
    if (ordinal < 0 || ordinal >= count) {
      throw InvalidArgument("cuda::Device: GPU " + std::to_string(ordinal) +
                            "; this process sees " + std::to_string(count) + " of them, from 0");
    }
    pool_ = std::make_shared<Pool>(ordinal);
  }

  /// Waits until the memory is there. @throws OutOfMemory
  Buffer allocate(Index bytes, std::string_view kind) { return {bytes, kind, pool_}; }
  /// The same, of memory from another source than this GPU's pool.
  Buffer allocate(Index bytes, std::string_view kind, std::shared_ptr<MemorySource> source) {
    return {bytes, kind, pool_, std::move(source)};
  }
  /// A stream of its own, ordered with others by events alone. @throws Failure
  Stream stream() { return {pool_, watchers_, workers_}; }
  /// Complete until it is recorded. @throws Failure
  Event event() {
    cuda::activate(ordinal());
    return Event::make();
  }
  Ledger& ledger() { return pool_->ledger(); }  ///< of this GPU's memory, in bytes

  /// Host memory that transfers to and from this GPU use without a copy in between.
  /// @throws OutOfMemory
  PinnedBuffer pinned(Index bytes, std::string_view kind) { return {bytes, kind, pool_}; }
  /// Makes whole pages of host memory such memory, which kernels may read as well.
  /// @throws OutOfMemory naming bytes and reason
  void pin(std::byte* address, Index bytes) {
    activate();
    cudaError_t const status =
        cudaHostRegister(address, at(bytes), cudaHostRegisterPortable | cudaHostRegisterMapped);
    if (status == cudaSuccess) return;
    ignore(status);
    throw OutOfMemory("pinned memory: the system cannot register " + std::to_string(bytes) +
                      " bytes: " + cudaGetErrorString(status));
  }
  /// Ends that. Work on it is done.
  void unpin(std::byte* address) noexcept { ignore(cudaHostUnregister(address)); }
  /// Streams made from now on share updates on the host over so many threads.
  /// @throws InvalidArgument below 1
  void work_with(int host_threads) { workers_ = std::make_shared<HostWorkers>(host_threads); }
  /// Of pinned host memory, in bytes.
  Ledger& pinned_ledger() { return pool_->pinned_ledger(); }

  int ordinal() const { return pool_->ordinal(); }  ///< of the GPU, as CUDA counts them
  /// Makes it the GPU that the calling thread's CUDA calls mean.
  void activate() const { cuda::activate(ordinal()); }
  /// Lets kernels on another GPU of this process use this one's memory.
  void share_with(int other) { pool_->share_with(other); }
  /// Streams look at it whenever the host waits for them.
  void watch(std::weak_ptr<Watcher> watcher) { watchers_->push_back(std::move(watcher)); }

 private:
  std::shared_ptr<Pool> pool_;
  std::shared_ptr<Watchers> watchers_ = std::make_shared<Watchers>();
  std::shared_ptr<HostWorkers> workers_;
};

static_assert(zero::Device<Device> && NamesRanges<Device> && CanReplay<Device>);

/// A device whose work is kernels: what cuda/*.cuh offers is for all of these, so that a test's
/// device, which delays or counts, runs the same kernels. Not the host's memory beside one, whose
/// streams are the same.
template <class D>
concept RunsKernels =
    zero::HasWorkspace<D> && !D::host_memory && requires(typename D::Stream & stream) {
  { stream.native() } -> std::same_as<cudaStream_t>;
  { stream.workspace(Index{}) } -> std::same_as<std::byte*>;
  { stream.ordinal() } -> std::same_as<int>;
};

static_assert(RunsKernels<Device>);

}  // namespace zero::cuda
