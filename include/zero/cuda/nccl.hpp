// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ranks as processes with a GPU each, over NCCL.

#include <zero/comm/communicator.hpp>
#include <zero/cuda/device.hpp>
#include <zero/cuda/nccl_world.hpp>

#include <memory>
#include <string>

namespace zero::cuda {

/// A communicator over NCCL; launch<Nccl> makes one a rank. Each channel is an NCCL communicator of
/// its own. Sums are NCCL's ncclSum, whose order differs between collectives and with topology:
/// what stages promise of bits on SharedDevice is a bound here. Nothing is scaled on the way.
class NcclCommunicator {
 public:
  using Device = cuda::Device;  ///< one GPU a rank

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
    cudaStream_t const stream = out.stream().native();
    world_->issue(channel_, stream, Entry{operation, n, Index{sizeof(T)}, where},
                  [&](ncclComm_t communicator) {
                    return call(in.view().address(), out.view().address(), at(n), communicator,
                                stream);
                  });
  }

  std::shared_ptr<detail::NcclWorld> world_;
  Device* device_;
  int channel_;
};

static_assert(CanAllGather<NcclCommunicator, bf16> && CanReduceScatter<NcclCommunicator, float> &&
              CanAllReduce<NcclCommunicator, fp16> && CanAllGather<NcclCommunicator, double> &&
              CanGroup<NcclCommunicator>);

}  // namespace zero::cuda
