// SPDX-License-Identifier: Apache-2.0
#pragma once
// launch<Mpi>: the processes of mpirun or srun as ranks; without a launcher, threads.

#include <zero/launch/threads.hpp>
#include <zero/mpi/communicator.hpp>

namespace zero {

/// The backend whose ranks are the processes of MPI_COMM_WORLD. MPI is started by the first world
/// and ended when the process exits; where the program has started it, it stays the program's.
/// Everything stays on the thread that launches.
struct Mpi {
  using Communicator = MpiCommunicator<PollingHost>;  ///< of a rank

  /// This process as one rank.
  class World {
   public:
    /// From the joined world and how to wait.
    World(std::shared_ptr<detail::MpiRanks> ranks, LaunchOptions const& options)
        : ranks_(std::move(ranks)), options_(options) {}

    int rank() const { return ranks_->world.rank(); }  ///< of this process
    int size() const { return ranks_->world.size(); }  ///< processes of the world

    /// Runs f(communicator) and returns when every rank's has returned.
    /// @throws what f throws, after the others were told; CommunicationError when another rank
    /// fails, or does not end within the timeout
    template <class F>
    void run(F& f) {
      try {
        PollingHost device = detail::device_of_rank<PollingHost>(options_);
        f(Communicator(ranks_, device));
        ranks_->world.end();
      } catch (std::exception const& e) {
        failed(e.what());
        throw;
      } catch (...) {
        failed("an exception that is no std::exception");
        throw;
      }
    }

   private:
    void failed(char const* what) {
      detail::MpiSession::of_process().keep(ranks_);
      ranks_->world.abort("rank " + std::to_string(rank()) + " failed: " + what);
    }

    std::shared_ptr<detail::MpiRanks> ranks_;
    LaunchOptions options_;
  };

  /// Joins the other processes. MPI_Init, where the program has not called it, waits for all of
  /// them as long as the launcher does: the timeout begins when MPI has started.
  /// @throws CommunicationError when not all come within the timeout
  static World from(Environment const&, LaunchOptions const& options) {
    detail::MpiSession::of_process();
    return World(std::make_shared<detail::MpiRanks>(MPI_COMM_WORLD, options, detail::MpiLimits{}),
                 options);
  }
  /// Runs f(communicator) on `ranks` threads of this process, without MPI.
  template <class F>
  static void run(int ranks, F& f, LaunchOptions const& options) {
    Threads::run(ranks, f, options);
  }
};

static_assert(JoinsProcesses<Mpi>);

}  // namespace zero
