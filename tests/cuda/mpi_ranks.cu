// SPDX-License-Identifier: Apache-2.0
// One rank of several over NCCL whose id MPI_Bcast hands over: mpi_ranks.sh starts this program by
// mpirun. What it trains at stage 3 has the bits of the same ranks over NCCL's own bootstrap.

#include <zero/cuda/cuda.cuh>
#include <zero/zero.hpp>

#include <cuda/chain_model.hpp>

#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace zero_test {
namespace {

using zero::cuda::Bootstrap;
using zero::cuda::Nccl;

struct Outcome {
  std::vector<double> losses;  ///< means over ranks, a step
  std::uint64_t parameters_hash = 0;

  friend bool operator==(Outcome const&, Outcome const&) = default;
};

Outcome train(Nccl::World world) {
  Outcome outcome;
  auto on_rank = [&](Nccl::Communicator communicator) {
    ChainModel<zero::cuda::Device> model(everything(), communicator.device(), false);
    zero::Trainer trainer{std::move(model),         communicator,
                          zero::AdamW{.lr = 0.02f}, zero::Options{.clip = 0.5f},
                          zero::Sharded<3>{},       zero::Bf16Mixed{}};
    for (int step = 0; step < 4; ++step) {
      Batch const batch = make_batch(communicator.rank(), 0, 0);
      trainer.step(batch);
      outcome.losses.push_back(trainer.mean_loss());
    }
    outcome.parameters_hash = zero::parameters_hash(trainer);
  };
  world.run(on_rank);
  return outcome;
}

void demand(bool good, std::string const& what) {
  if (!good) throw zero::Error("wrong: " + what);
}

/// This process's rank among those of its machine, and their number.
std::pair<int, int> place_here() {
  MPI_Comm here;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here);
  std::pair<int, int> place;
  MPI_Comm_rank(here, &place.first);
  MPI_Comm_size(here, &place.second);
  MPI_Comm_free(&here);
  return place;
}

/// Every rank has these bytes of rank 0's.
template <class T>
bool alike(T const& mine) {
  T of_rank_0 = mine;
  MPI_Bcast(&of_rank_0, static_cast<int>(sizeof(T)), MPI_BYTE, 0, MPI_COMM_WORLD);
  int same = of_rank_0 == mine ? 1 : 0;
  MPI_Allreduce(MPI_IN_PLACE, &same, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  return same == 1;
}

void run(int gpus) {
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  demand(size > 1, "one rank alone: mpi_ranks.sh starts this program");
  auto const [local_rank, local_size] = place_here();
  if (local_size > gpus) {  // as several_ranks.sh says, before NCCL reads it
    ::setenv("NCCL_HOSTID", ("host" + std::to_string(rank)).c_str(), 1);
    ::setenv("NCCL_SOCKET_IFNAME", "lo", 1);
    ::setenv("NCCL_IB_DISABLE", "1", 1);
    ::setenv("NCCL_NVLS_ENABLE", "0", 1);
  }
  zero::LaunchOptions const options{.timeout = std::chrono::seconds(60)};
  std::size_t handed_over = 0;
  Bootstrap const bootstrap = Bootstrap::broadcast(rank, [&](std::span<std::byte> id) {
    handed_over += id.size();
    MPI_Bcast(id.data(), static_cast<int>(id.size()), MPI_BYTE, 0, MPI_COMM_WORLD);
  });
  demand(handed_over == 128, "bytes of an id");
  Outcome const by_mpi = train(Nccl::World(bootstrap, rank, size, local_rank % gpus, options));

  int port = 20'000 + static_cast<int>(::getpid()) % 20'000;
  MPI_Bcast(&port, 1, MPI_INT, 0, MPI_COMM_WORLD);
  ::setenv("MASTER_ADDR", "127.0.0.1", 1);
  ::setenv("MASTER_PORT", std::to_string(port).c_str(), 1);
  Outcome const by_address = train(Nccl::from(zero::Environment::of_process(), options));

  demand(by_mpi == by_address, "losses or parameters of ranks that met by MPI_Bcast");
  demand(alike(by_mpi.parameters_hash), "ranks end with other parameters");
  for (double loss : by_mpi.losses) demand(alike(loss), "ranks have other mean losses");
  demand(by_mpi.losses.back() < by_mpi.losses.front(), "the loss does not fall");
  if (rank != 0) return;
  std::printf("%d ranks, by MPI_Bcast and at 127.0.0.1: losses %.6f to %.6f, parameters %016llx\n",
              size, by_mpi.losses.front(), by_mpi.losses.back(),
              static_cast<unsigned long long>(by_mpi.parameters_hash));
}

}  // namespace
}  // namespace zero_test

int main(int argc, char** argv) {
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
    std::puts("skipped: this process sees no GPU");
    return 77;
  }
  MPI_Init(&argc, &argv);
  try {
    zero_test::run(gpus);
  } catch (std::exception const& e) {
    std::printf("failed: %s\n", e.what());
    std::fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return 0;
}
