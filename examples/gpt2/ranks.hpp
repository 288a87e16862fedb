// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ranks that are threads or processes, found out at run time, behind one communicator: trainers are
// compiled once, and not once for each.

#include <zero/mpi/backend.hpp>

#include <string_view>
#include <utility>
#include <variant>

namespace gpt2 {

/// A rank's communicator, between threads of one process or between the processes of MPI.
class Ranks {
 public:
  using Device = zero::PollingHost;  ///< of this rank; its streams wait for no transfer of threads
  using Threads = zero::ThreadCommunicator<Device>;
  using Processes = zero::MpiCommunicator<Device>;

  explicit Ranks(Threads threads) : ranks_(std::move(threads)) {}
  explicit Ranks(Processes processes) : ranks_(std::move(processes)) {}

  int rank() const {
    return std::visit([](auto const& c) { return c.rank(); }, ranks_);
  }
  int size() const {
    return std::visit([](auto const& c) { return c.size(); }, ranks_);
  }
  Device& device() const {
    return std::visit([](auto const& c) -> Device& { return c.device(); }, ranks_);
  }
  Ranks channel(int i) const {
    return std::visit([i](auto const& c) { return Ranks(c.channel(i)); }, ranks_);
  }
  void abort(std::string_view text) const noexcept {
    std::visit([text](auto const& c) { c.abort(text); }, ranks_);
  }

  /// These as the one that it was made from.
  template <class T>
  void all_gather(zero::Ordered<T const, Device> slice, zero::Ordered<T, Device> full,
                  zero::Where where) {
    std::visit([&](auto& c) { c.all_gather(slice, full, where); }, ranks_);
  }
  template <class T>
  void reduce_scatter(zero::Ordered<T const, Device> full, zero::Ordered<T, Device> slice,
                      zero::Where where) {
    std::visit([&](auto& c) { c.reduce_scatter(full, slice, where); }, ranks_);
  }
  template <class T>
  void all_reduce(zero::Ordered<T, Device> full, zero::Where where) {
    std::visit([&](auto& c) { c.all_reduce(full, where); }, ranks_);
  }

 private:
  std::variant<Threads, Processes> ranks_;
};

/// Becomes ranks as zero::Mpi does: as the processes of a launcher, and as threads without one.
struct ThreadsOrProcesses {
  using Communicator = Ranks;

  /// This process as one rank.
  class World {
   public:
    explicit World(zero::Mpi::World world) : world_(std::move(world)) {}
    int rank() const { return world_.rank(); }
    int size() const { return world_.size(); }

    /// Runs f(communicator); errors as zero::Mpi::World.
    template <class F>
    void run(F& f) {
      auto const on_rank = [&f](Ranks::Processes processes) { f(Ranks(std::move(processes))); };
      world_.run(on_rank);
    }

   private:
    zero::Mpi::World world_;
  };

  /// Joins the other processes; errors as zero::Mpi.
  static World from(zero::Environment const& environment, zero::LaunchOptions const& options) {
    return World(zero::Mpi::from(environment, options));
  }
  /// Runs f(communicator) on `ranks` threads of this process, without MPI.
  template <class F>
  static void run(int ranks, F& f, zero::LaunchOptions const& options) {
    auto const on_rank = [&f](Ranks::Threads threads) { f(Ranks(std::move(threads))); };
    zero::ThreadsOn<zero::PollingHost>::run(ranks, on_rank, options);
  }
};

static_assert(zero::JoinsProcesses<ThreadsOrProcesses>);

}  // namespace gpt2
