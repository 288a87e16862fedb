// SPDX-License-Identifier: Apache-2.0
#pragma once
// What there is, as values: what the programs of this build expect, and what this machine has. How
// they are found is in build.hpp, gpus.hpp, machine.hpp and ranks.hpp; what is wrong among them, in
// faults.hpp.

#include <zero/core/size.hpp>

#include <optional>
#include <string>
#include <vector>

namespace zero_environment {

using zero::Index;

/// A package as it was found when this was built, and as it is found now; both may be missing.
struct Package {
  std::optional<std::string> built{};  ///< its version then; none: not built with it
  std::optional<std::string> found{};  ///< its version now
};

/// One GPU that this process sees.
struct Gpu {
  std::string name{};        ///< as the driver calls it
  Index memory_bytes = 0;    ///< all of it
  int capability = 0;        ///< compute capability: 90 for 9.0
  std::vector<int> peers{};  ///< GPUs of this process whose memory it reaches
};

/// A port of this machine at which somebody will want to listen.
struct Port {
  int number = 0;
  bool nccl = false;   ///< of rank 0 of NCCL; else of torchrun's agent
  bool taken = false;  ///< another process listens there
};

/// A file by which ranks would meet.
struct IdFile {
  std::string path{};
  std::vector<std::string> stale{};  ///< of the files that belong to it, those that are there
  bool folder = true;                ///< its folder is there and may be written to
};

/// All of it. Numbers of CUDA and NCCL as these count them: 13000 is CUDA 13.0, 22809 NCCL 2.28.9.
struct Facts {
  std::string compiler{};  ///< that built this
  Package nvcc{};          ///< of this build, and the one that PATH has

  std::optional<int> cuda_header{};              ///< of this build
  std::optional<int> cuda_runtime{};             ///< of libcudart
  std::optional<int> cuda_driver{};              ///< newest CUDA that the driver runs
  bool kernel_driver = false;                    ///< the kernel has NVIDIA's module
  std::string driver_failure{};                  ///< CUDA's name for why the driver does not start
  std::vector<Gpu> gpus{};                       ///< that this process sees
  std::optional<std::string> visible_devices{};  ///< CUDA_VISIBLE_DEVICES

  std::optional<int> nccl_header{};  ///< of this build
  std::optional<int> nccl{};         ///< of libnccl
  std::vector<Port> ports{};         ///< that a launch would use
  std::optional<IdFile> id_file{};   ///< where ZERO_NCCL_ID_FILE names one

  Package mpi{};                        ///< "Open MPI 4.1.4"
  std::optional<std::string> mpirun{};  ///< which MPI's mpirun is found in PATH, and its version
  std::string launched_by{};            ///< implementation that has started this process, or empty
  std::string launcher{};               ///< what has started it as a rank, or empty
  std::string refused_place{};          ///< why its environment makes no place, or empty

  std::optional<std::string> uring_header{};  ///< of this build
  std::string uring_refused{};                ///< why the kernel makes no ring; empty: it does
  std::optional<Index> memlock_bytes{};       ///< limit of this process; none: without limit
  std::optional<Index> memlock_most_bytes{};  ///< to which it may raise that
  std::optional<Index> memlock_need_bytes{};  ///< as the command line says
  bool infiniband = false;                    ///< network cards that read memory themselves

  int cores = 0;           ///< on which this process may run
  int numa_nodes = 0;      ///< of the machine
  Index memory_bytes = 0;  ///< of the machine

  Package openblas{}, boost{}, xxhash{}, yaml{};
};

/// "13.0", of 13000.
inline std::string cuda_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}
/// "2.28.9", of 22809; of 2.8 and before, which had a digit less, "2.8.3" of 2803.
inline std::string nccl_text(int version) {
  int const major = version < 10000 ? 1000 : 10000;
  return std::to_string(version / major) + "." + std::to_string(version % major / 100) + "." +
         std::to_string(version % 100);
}
/// "Open MPI" of "Open MPI 4.1.4": what stands before the version.
inline std::string implementation(std::string const& mpi) {
  return mpi.substr(0, mpi.find_last_of(' '));
}

}  // namespace zero_environment
