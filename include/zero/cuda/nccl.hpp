// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ranks as processes with a GPU each, over NCCL.

#include <zero/comm/communicator.hpp>
#include <zero/cuda/device.hpp>
#include <zero/cuda/nccl_windows.hpp>

#include <memory>
#include <string>

namespace zero::cuda {

/// A communicator over NCCL; launch<Nccl> makes one a rank. Each channel is an NCCL communicator of
/// its own. Sums are NCCL's ncclSum, whose order differs between collectives and with topology:
/// what stages promise of bits on SharedDevice is a bound here. Nothing is scaled on the way.
class NcclCommunicator {
 public:
  using Device = cuda::Device;                       ///< one GPU a rank
  static constexpr bool replays_collectives = true;  ///< NCCL's kernels can be parts of graphs

  /// @param world of this process's rank, joined
  /// @param device of this rank; outlives every copy
  /// @param channel in [0, 4)
  NcclCommunicator(std::shared_ptr<detail::NcclWorld> world, Device& device, int channel = 0)
      : world_(std::move(world)), device_(&device), channel_(channel) {}

  int rank() const { return world_->rank(); }  ///< from 0
  int size() const { return world_->size(); }  ///< ranks
  Device& device() const { return *device_; }  ///< of this rank
  /// @throws InvalidArgument when there is no such channel
  NcclCommunicator channel(int i) const {
    if (i < 0 || i >= detail::NcclWorld::num_channels) {
      throw InvalidArgument("channel " + std::to_string(i) + "; there are channels 0 to " +
                            std::to_string(detail::NcclWorld::num_channels - 1));
    }
    return {world_, *device_, i};
  }
  /// Other ranks see a lost connection; NCCL carries no text.
  void abort(std::string_view text) const noexcept { world_->abort(text); }

  /// Trainers made from now on gather and publish by the GPUs' copy engines, through NCCL's windows
  /// (symmetric memory) and its policy of no thread blocks: a gather then takes no multiprocessor
  /// from the model, and is not held back by kernels that fill the GPU. Bits are the same. Every
  /// rank calls it, before anything is made of it, or none: what ranks chose is compared when the
  /// first trainer is made, where GPUs that do not reach each other's memory are refused as well.
  /// A model may then keep no lease beyond its schedule. The driver rounds what is kept and what is
  /// gathered up to 2 MiB each, beyond what ledgers count.
  /// @throws InvalidArgument where this communicator has gathered
  void gather_by_copy_engines() { world_->gather_by_copy_engines(); }
  /// As BringsGatheredMemory says.
  bool gathers_own_memory() const { return size() > 1 && world_->gathers_by_copy_engines(); }
  /// As BringsGatheredMemory says: of the device, or a window. Throws as Device::allocate;
  /// CommunicationError where ranks did not choose alike, their GPUs do not reach each other, or
  /// NCCL makes no window
  Device::Buffer gathered_memory(Index bytes, std::string_view kind) {
    if (size() > 1) world_->open(1);
    if (!gathers_own_memory()) return device_->allocate(bytes, kind);
    return device_->allocate(bytes, kind,
                             std::make_shared<detail::NcclWindows>(world_, device_->ordinal()));
  }

  /// As CanAllGather says, for float, bf16, fp16 and double; enqueued on the arguments' one stream.
  /// @throws InvalidArgument for other sizes; Error for two streams; CommunicationError when the
  ///   world has failed or NCCL does not return within the timeout
  template <class T>
  void all_gather(Ordered<T const, Device> slice, Ordered<T, Device> full, Where where) {
    check_sizes("all_gather", full.view().size(), slice.view().size(), size());
    issue<T>("all_gather", slice, full, slice.view().size(), where,
             [](T const* from, T* to, std::size_t n, ncclComm_t c, cudaStream_t stream) {
               return ncclAllGather(from, to, n, nccl_type<T>(), c, stream);
             });
  }
  /// As CanReduceScatter says; sums in NCCL's order and type. Throws as all_gather.
  template <class T>
  void reduce_scatter(Ordered<T const, Device> full, Ordered<T, Device> slice, Where where) {
    check_sizes("reduce_scatter", full.view().size(), slice.view().size(), size());
    issue<T>("reduce_scatter", full, slice, slice.view().size(), where,
             [](T const* from, T* to, std::size_t n, ncclComm_t c, cudaStream_t stream) {
               return ncclReduceScatter(from, to, n, nccl_type<T>(), ncclSum, c, stream);
             });
  }
  /// As CanAllReduce says; sums in NCCL's order and type. Throws as all_gather.
  template <class T>
  void all_reduce(Ordered<T, Device> full, Where where) {
    check_sizes("all_reduce", full.view().size(), full.view().size() / size(), size());
    issue<T>("all_reduce", full, full, full.view().size(), where,
             [](T const* from, T* to, std::size_t n, ncclComm_t c, cudaStream_t stream) {
               return ncclAllReduce(from, to, n, nccl_type<T>(), ncclSum, c, stream);
             });
  }
  /// This channel's collectives are launched together from here to group_end().
  /// @throws CommunicationError
  void group_start() { world_->group_start(channel_); }
  /// Launches them. @throws CommunicationError
  void group_end() { world_->group_end(channel_); }

 private:
  template <class T, class In, class Out, class Call>
  void issue(std::string_view operation, In in, Out out, Index n, Where where, Call call) {
    if (&in.stream() != &out.stream())
      throw Error("a collective's arguments must be ordered on one stream");
    cuda::Stream& stream = out.stream();
    world_->issue(channel_, stream, Entry{operation, n, Index{sizeof(T)}, where},
                  [&](ncclComm_t communicator) {
                    return call(in.view().address(), out.view().address(), at(n), communicator,
                                stream.native());
                  });
  }

  std::shared_ptr<detail::NcclWorld> world_;
  Device* device_;
  int channel_;
};

static_assert(CanAllGather<NcclCommunicator, bf16> && CanReduceScatter<NcclCommunicator, float> &&
              CanAllReduce<NcclCommunicator, fp16> && CanAllGather<NcclCommunicator, double> &&
              CanGroup<NcclCommunicator> && BringsGatheredMemory<NcclCommunicator> &&
              CanReplayCollectives<NcclCommunicator>);

}  // namespace zero::cuda
