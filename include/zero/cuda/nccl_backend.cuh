// SPDX-License-Identifier: Apache-2.0
#pragma once
// launch<cuda::Nccl>: the processes of torchrun, accelerate, deepspeed, mpirun or srun as ranks, a
// GPU each; without a launcher, threads on the GPUs of this process.

#include <zero/cuda/nccl.hpp>
#include <zero/cuda/shared_device.cuh>

namespace zero::cuda {

/// The backend whose ranks are processes that talk over NCCL.
struct Nccl {
  using Communicator = NcclCommunicator;  ///< what f is given

  /// This process as one rank.
  class World {
   public:
    /// Joins the other processes; collective.
    /// @param bootstrap how the ranks come to one id
    /// @param rank from 0
    /// @param size ranks
    /// @param ordinal of this rank's GPU
    /// @param options timeout, grace, and threads for updates on the host beside the GPU
    /// @throws InvalidArgument when there is no such GPU; CommunicationError when not all
    ///   come within the timeout
    World(Bootstrap const& bootstrap, int rank, int size, int ordinal, LaunchOptions const& options)
        : device_(std::make_unique<Device>(ordinal)),
          world_(std::make_shared<detail::NcclWorld>(bootstrap, rank, size, options)) {
      device_->watch(world_);
      if (options.threads != 1) device_->work_with(options.threads);
    }

    int rank() const { return world_->rank(); }  ///< from 0
    int size() const { return world_->size(); }  ///< ranks

    /// Runs f(communicator) and returns when all of this rank's work is done.
    /// @throws what f throws, after NCCL's communicators were aborted; CommunicationError
    template <class F>
    void run(F& f) {
      try {
        f(Communicator(world_, *device_));
        world_->end();
      } catch (Failure const& e) {
        world_->abort("rank " + std::to_string(rank()) + " failed: " + e.what());
        world_->throw_if_ended();
        throw;
      } catch (std::exception const& e) {
        world_->abort("rank " + std::to_string(rank()) + " failed: " + e.what());
        throw;
      } catch (...) {
        world_->abort("rank " + std::to_string(rank()) + " failed");
        throw;
      }
    }

   private:
    std::unique_ptr<Device> device_;
    std::shared_ptr<detail::NcclWorld> world_;
  };

  /// Joins the other processes, through NCCL's own bootstrap, or the file that ZERO_NCCL_ID_FILE
  /// names. This rank's GPU is its local rank modulo the GPUs that the process sees: several ranks
  /// may share one where each has a NCCL_HOSTID of its own.
  /// @throws InvalidArgument naming what the environment lacks; CommunicationError when not all
  ///   come within the timeout
  static World from(Environment const& environment, LaunchOptions const& options) {
    auto const place = find_place(environment);
    if (!place) throw InvalidArgument("NCCL: no launcher has started this process");
    int const ordinal = place->local_rank.value_or(place->rank) % visible_gpus();
    auto const file = environment.find("ZERO_NCCL_ID_FILE");
    return World(
        file ? Bootstrap::file(std::string(*file), place->rank, place->size, options.timeout)
             : Bootstrap::from(environment, *place),
        place->rank, place->size, ordinal, options);
  }
  /// Runs f(communicator) on `ranks` threads of this process, without NCCL: SharedDevice.
  template <class F>
  static void run(int ranks, F& f, LaunchOptions const& options) {
    SharedDevice::run(ranks, f, options);
  }
};

static_assert(JoinsProcesses<Nccl>);

}  // namespace zero::cuda
