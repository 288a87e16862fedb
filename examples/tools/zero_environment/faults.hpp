// SPDX-License-Identifier: Apache-2.0
#pragma once
// What is wrong among the facts, each as one sentence: what, what was found, what was expected, and
// what to do.

#include <zero/config/problem.hpp>
#include <zero/report/number_text.hpp>

#include <zero_environment/facts.hpp>

namespace zero_environment {

/// One thing that is wrong.
struct Fault {
  zero::Problem problem;  ///< what, found, expected
  std::string remedy;     ///< what to do

  /// "CUDA driver: found ...; expected ...; do: ..."
  std::string text() const { return problem.text() + "; do: " + remedy; }
};

/// The oldest NCCL and the oldest GPU that are used.
inline constexpr int oldest_nccl = 22800;
inline constexpr int oldest_capability = 80;

/// Looks at facts alone.
class Judge {
 public:
  explicit Judge(Facts const& facts) : f_(facts) {
    look_at_cuda();
    look_at_nccl();
    look_at_mpi();
    look_at_host();
  }
  std::vector<Fault> const& faults() const { return faults_; }

 private:
  void wrong(std::string what, std::string found, std::string expected, std::string remedy) {
    faults_.push_back(
        {{std::move(what), std::move(found), std::move(expected)}, std::move(remedy)});
  }

  void look_at_cuda() {
    bool const hidden =
        f_.visible_devices && (f_.visible_devices->empty() || f_.visible_devices->front() == '-');
    if (hidden) {
      wrong("CUDA_VISIBLE_DEVICES", "'" + *f_.visible_devices + "', which hides every GPU",
            "numbers of GPUs, such as 0,1, or no such variable", "unset CUDA_VISIBLE_DEVICES");
    }
    if (f_.kernel_driver && !f_.cuda_driver) {
      wrong("NVIDIA driver", "the kernel's module, and no libcuda.so.1", "both",
            "install the driver's libraries, or start the container with --gpus all");
    }
    if (f_.cuda_driver) {
      if (!f_.driver_failure.empty() && !hidden) {
        wrong("NVIDIA driver", f_.driver_failure + " where it is started", "CUDA_SUCCESS",
              "look at nvidia-smi; after an update of the driver, load its module again or reboot");
      } else if (f_.gpus.empty() && !hidden) {
        wrong("GPUs",
              "none, though there is a driver for CUDA " + cuda_text(*f_.cuda_driver) +
                  (f_.visible_devices ? " (CUDA_VISIBLE_DEVICES=" + *f_.visible_devices + ")" : ""),
              "at least one",
              f_.visible_devices
                  ? "let CUDA_VISIBLE_DEVICES name GPUs that nvidia-smi lists, or unset it"
                  : "look at nvidia-smi; start the container with --gpus all");
      }
      std::optional<int> const needed = f_.cuda_header ? f_.cuda_header : f_.cuda_runtime;
      if (needed && *f_.cuda_driver / 1000 < *needed / 1000) {
        wrong(
            "NVIDIA driver", "one for CUDA " + cuda_text(*f_.cuda_driver),
            "one for CUDA " + std::to_string(*needed / 1000) +
                ".0 or later, since the runtime is " + cuda_text(*needed),
            "install a newer driver, or build with CUDA " + std::to_string(*f_.cuda_driver / 1000));
      }
    }
    if (f_.cuda_header && !f_.cuda_runtime) {
      wrong("CUDA runtime", "no libcudart.so." + std::to_string(*f_.cuda_header / 1000),
            "that of CUDA " + cuda_text(*f_.cuda_header) + ", with which this was built",
            "let LD_LIBRARY_PATH name its folder");
    }
    if (f_.cuda_header && f_.cuda_runtime && *f_.cuda_runtime < *f_.cuda_header) {
      wrong("CUDA runtime", "libcudart of CUDA " + cuda_text(*f_.cuda_runtime),
            "CUDA " + cuda_text(*f_.cuda_header) + ", with which this was built",
            "take the older one out of LD_LIBRARY_PATH, or build with it");
    }
    for (std::size_t i = 0; i < f_.gpus.size(); ++i) {
      if (f_.gpus[i].capability >= oldest_capability) continue;
      wrong("GPU " + std::to_string(i),
            "compute capability " + std::to_string(f_.gpus[i].capability / 10) + "." +
                std::to_string(f_.gpus[i].capability % 10) + " (" + f_.gpus[i].name + ")",
            "8.0 or later", "hide it by CUDA_VISIBLE_DEVICES");
    }
  }

  void look_at_nccl() {
    if (f_.nccl_header && !f_.nccl) {
      wrong("NCCL", "no libnccl.so.2", "NCCL " + nccl_text(*f_.nccl_header) + ", the header's",
            "let LD_LIBRARY_PATH name its folder");
    } else if (f_.nccl_header && *f_.nccl != *f_.nccl_header) {
      wrong("NCCL", "the library of " + nccl_text(*f_.nccl),
            nccl_text(*f_.nccl_header) + ", the header's",
            "take the other one out of LD_LIBRARY_PATH, or build with its header");
    }
    if (f_.nccl && *f_.nccl < oldest_nccl) {
      wrong("NCCL", "version " + nccl_text(*f_.nccl), nccl_text(oldest_nccl) + " or later",
            "install a newer one");
    }
    for (Port const& port : f_.ports) {
      if (!port.taken) continue;
      std::string const number = std::to_string(port.number);
      wrong("port " + number, "a process that listens there",
            port.nccl ? "a free one, at which rank 0 of NCCL listens"
                      : "a free one, at which torchrun's agent listens",
            port.nccl
                ? "set ZERO_NCCL_PORT to a free one on every rank"
                : "torchrun --master_port with a free one, or end what 'ss -ltnp' shows there");
    }
    if (!f_.id_file) return;
    if (!f_.id_file->folder) {
      wrong("ZERO_NCCL_ID_FILE", "'" + f_.id_file->path + "', whose folder cannot be written to",
            "a path in a folder that all ranks see and may write to", "name another");
    }
    if (f_.id_file->stale.empty()) return;
    std::string files;
    for (std::string const& file : f_.id_file->stale) files += (files.empty() ? "" : " ") + file;
    wrong("ZERO_NCCL_ID_FILE", "files of an earlier run: " + files, "none before a run",
          f_.launcher.empty() ? "rm " + files : "rm " + files + ", unless a run is just beginning");
  }

  void look_at_mpi() {
    if (!f_.refused_place.empty()) {
      wrong("launcher", f_.refused_place, "variables that agree on one place, or none",
            "unset those that are left over from another launcher");
    }
    if (!f_.mpi.built) return;
    std::string const built = implementation(*f_.mpi.built);
    if (!f_.mpi.found) {
      wrong("MPI", "no library", *f_.mpi.built + ", with which this was built",
            "let LD_LIBRARY_PATH name its folder");
    } else if (implementation(*f_.mpi.found) != built) {
      wrong("MPI", "the library of " + *f_.mpi.found, *f_.mpi.built + ", with which this was built",
            "take the other one out of LD_LIBRARY_PATH");
    }
    if (built != "Open MPI" && built != "MPICH") return;  // who starts those is not known
    if (!f_.launched_by.empty() && f_.launched_by != built) {
      wrong("MPI", "a process that a launcher of " + f_.launched_by + " has started",
            "one of " + built + ", with which this was built",
            "launch by its own mpirun, such as " + own_mpirun(built) +
                "; else each process is alone");
    } else if (f_.launched_by.empty() && f_.mpirun && implementation(*f_.mpirun) != built) {
      wrong("mpirun", "that of " + *f_.mpirun, "that of " + built + ", with which this was built",
            "launch by " + own_mpirun(built) + ", or build with the other MPI");
    }
  }
  static std::string own_mpirun(std::string const& implementation) {
    return implementation == "Open MPI" ? "mpirun.openmpi" : "mpirun.mpich";
  }

  void look_at_host() {
    if (f_.memlock_bytes && f_.memlock_need_bytes && *f_.memlock_bytes < *f_.memlock_need_bytes) {
      bool const may = !f_.memlock_most_bytes || *f_.memlock_most_bytes >= *f_.memlock_need_bytes;
      Index const kibibytes = zero::round_up(*f_.memlock_need_bytes, 1024) / 1024;
      wrong(
          "RLIMIT_MEMLOCK", std::to_string(*f_.memlock_bytes) + " bytes",
          "at least the " + std::to_string(*f_.memlock_need_bytes) + " bytes that are to be locked",
          may ? "ulimit -l " + std::to_string(kibibytes)
              : "raise memlock in /etc/security/limits.conf, or docker run --ulimit memlock=-1");
    }
    if (f_.infiniband && f_.memlock_bytes) {
      wrong("RLIMIT_MEMLOCK", std::to_string(*f_.memlock_bytes) + " bytes",
            "no limit, since the InfiniBand cards here lock what they send",
            "ulimit -l unlimited, or docker run --ulimit memlock=-1");
    }
    if (f_.uring_header && !f_.uring_refused.empty()) {
      wrong("io_uring", f_.uring_refused + " by the kernel", "a ring, for which this was built",
            "sysctl kernel.io_uring_disabled=0, or a container whose seccomp profile allows it");
    }
  }

  Facts const& f_;
  std::vector<Fault> faults_;
};

/// What is wrong among them, in the order of the facts.
inline std::vector<Fault> judge(Facts const& facts) { return Judge(facts).faults(); }

}  // namespace zero_environment
