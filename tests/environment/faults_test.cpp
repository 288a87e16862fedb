// SPDX-License-Identifier: Apache-2.0
// What zero-environment calls wrong, of facts that are written down: each fault alone, as its whole
// sentence.
#include <doctest/doctest.h>
#include <zero_environment/faults.hpp>
#include <zero_environment/ranks.hpp>

namespace {

using namespace zero_environment;

/// A machine on which all is well: built with everything, two GPUs, everything found.
Facts well() {
  Facts f;
  f.compiler = "g++ 12.2.0";
  f.nvcc = {"13.0.48", "13.0.48"};
  f.cuda_header = f.cuda_runtime = 13000;
  f.cuda_driver = 13010;
  f.kernel_driver = true;
  f.gpus = {{"H200", Index{140} << 30, 90, {1}}, {"H200", Index{140} << 30, 90, {0}}};
  f.nccl_header = f.nccl = 22809;
  f.ports = {{29500, false, false}, {29501, true, false}};
  f.mpi = {"Open MPI 4.1.4", "Open MPI 4.1.6"};
  f.mpirun = "Open MPI 4.1.6";
  f.uring_header = "2.5";
  f.memlock_bytes = f.memlock_most_bytes = Index{8} << 20;
  f.memlock_need_bytes = Index{8} << 20;
  f.cores = 16;
  return f;
}

/// The sentences of what is wrong with it, one behind the other.
std::string wrong(Facts const& f) {
  std::string text;
  for (Fault const& fault : judge(f)) text += (text.empty() ? "" : "\n") + fault.text();
  return text;
}

}  // namespace

TEST_CASE("nothing is wrong with a machine that has all, nor with one that has nothing") {
  CHECK(wrong(well()).empty());
  CHECK(wrong(Facts{}).empty());
  Facts f = well();
  f.memlock_bytes = f.memlock_most_bytes = std::nullopt;  // without limit
  f.infiniband = true;
  f.visible_devices = "1,0";
  f.mpi = {};  // not built with MPI, and one is there
  f.uring_header = std::nullopt;
  f.uring_refused = "Operation not permitted";
  CHECK(wrong(f).empty());
}

TEST_CASE("a driver that is older than the runtime, absent or stopped is wrong, a newer one not") {
  Facts f = well();
  f.cuda_driver = 12040;
  CHECK(wrong(f) ==
        "NVIDIA driver: found one for CUDA 12.4; expected one for CUDA 13.0 or later, since the "
        "runtime is 13.0; do: install a newer driver, or build with CUDA 12");
  f.cuda_header = f.cuda_runtime = 12080;  // releases of one number run on each other's driver
  f.nvcc = {};
  CHECK(wrong(f).empty());
  f = well();
  f.cuda_driver = std::nullopt;
  f.gpus.clear();
  CHECK(wrong(f) ==
        "NVIDIA driver: found the kernel's module, and no libcuda.so.1; expected both; do: install "
        "the driver's libraries, or start the container with --gpus all");
  f.kernel_driver = false;  // no GPU and no driver: a machine that only builds
  CHECK(wrong(f).empty());
  f = well();
  f.gpus.clear();
  f.driver_failure = "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH";
  CHECK(wrong(f) ==
        "NVIDIA driver: found CUDA_ERROR_SYSTEM_DRIVER_MISMATCH where it is started; expected "
        "CUDA_SUCCESS; do: look at nvidia-smi; after an update of the driver, load its module "
        "again or reboot");
}

TEST_CASE("GPUs that are hidden, absent or too old are wrong") {
  Facts f = well();
  f.gpus.clear();
  CHECK(wrong(f) ==
        "GPUs: found none, though there is a driver for CUDA 13.1; expected at least one; do: look "
        "at nvidia-smi; start the container with --gpus all");
  f.visible_devices = "7";
  CHECK(wrong(f) ==
        "GPUs: found none, though there is a driver for CUDA 13.1 (CUDA_VISIBLE_DEVICES=7); "
        "expected at least one; do: let CUDA_VISIBLE_DEVICES name GPUs that nvidia-smi lists, or "
        "unset it");
  for (std::string const hidden : {"", "-1"}) {
    f.visible_devices = hidden;
    CHECK(wrong(f) == "CUDA_VISIBLE_DEVICES: found '" + hidden +
                          "', which hides every GPU; expected numbers of GPUs, such as 0,1, or no "
                          "such variable; do: unset CUDA_VISIBLE_DEVICES");
  }
  f = well();
  f.gpus[1].capability = 75;
  CHECK(wrong(f) ==
        "GPU 1: found compute capability 7.5 (H200); expected 8.0 or later; do: hide it by "
        "CUDA_VISIBLE_DEVICES");
}

TEST_CASE("a runtime or an NCCL other than the headers' is wrong") {
  Facts f = well();
  f.cuda_runtime = std::nullopt;
  CHECK(wrong(f) ==
        "CUDA runtime: found no libcudart.so.13; expected that of CUDA 13.0, with which this was "
        "built; do: let LD_LIBRARY_PATH name its folder");
  f = well();
  f.cuda_header = 13010;
  CHECK(wrong(f) ==
        "CUDA runtime: found libcudart of CUDA 13.0; expected CUDA 13.1, with which this was "
        "built; do: take the older one out of LD_LIBRARY_PATH, or build with it");
  f = well();
  f.nccl = 22803;
  CHECK(wrong(f) ==
        "NCCL: found the library of 2.28.3; expected 2.28.9, the header's; do: take the other one "
        "out of LD_LIBRARY_PATH, or build with its header");
  f.nccl = std::nullopt;
  CHECK(wrong(f) ==
        "NCCL: found no libnccl.so.2; expected NCCL 2.28.9, the header's; do: let LD_LIBRARY_PATH "
        "name its folder");
  f.nccl_header = std::nullopt;
  f.nccl = 2803;
  CHECK(wrong(f) == "NCCL: found version 2.8.3; expected 2.28.0 or later; do: install a newer one");
}

TEST_CASE("ports that are taken and files of an earlier run are wrong") {
  Facts f = well();
  f.ports[0].taken = true;
  CHECK(wrong(f) ==
        "port 29500: found a process that listens there; expected a free one, at which torchrun's "
        "agent listens; do: torchrun --master_port with a free one, or end what 'ss -ltnp' shows "
        "there");
  f = well();
  f.ports[1].taken = true;
  CHECK(wrong(f) ==
        "port 29501: found a process that listens there; expected a free one, at which rank 0 of "
        "NCCL listens; do: set ZERO_NCCL_PORT to a free one on every rank");
  f = well();
  f.id_file = IdFile{"/shared/id", {}, true};
  CHECK(wrong(f).empty());
  f.id_file->stale = {"/shared/id", "/shared/id.1"};
  CHECK(wrong(f) ==
        "ZERO_NCCL_ID_FILE: found files of an earlier run: /shared/id /shared/id.1; expected none "
        "before a run; do: rm /shared/id /shared/id.1");
  f.id_file = IdFile{"/shared/id", {}, false};
  CHECK(wrong(f) ==
        "ZERO_NCCL_ID_FILE: found '/shared/id', whose folder cannot be written to; expected a path "
        "in a folder that all ranks see and may write to; do: name another");
}

TEST_CASE("an MPI that is loaded, found or launched by another implementation is wrong") {
  Facts f = well();
  f.mpi.found = "MPICH 4.0.2";
  CHECK(wrong(f) ==
        "MPI: found the library of MPICH 4.0.2; expected Open MPI 4.1.4, with which this was "
        "built; do: take the other one out of LD_LIBRARY_PATH");
  f.mpi.found = std::nullopt;
  CHECK(wrong(f) ==
        "MPI: found no library; expected Open MPI 4.1.4, with which this was built; do: let "
        "LD_LIBRARY_PATH name its folder");
  f = well();
  f.mpirun = "MPICH 4.0.2";
  CHECK(wrong(f) ==
        "mpirun: found that of MPICH 4.0.2; expected that of Open MPI, with which this was built; "
        "do: launch by mpirun.openmpi, or build with the other MPI");
  f.launched_by = "Open MPI";  // whatever PATH has
  CHECK(wrong(f).empty());
  f = well();
  f.launched_by = "MPICH";
  CHECK(wrong(f) ==
        "MPI: found a process that a launcher of MPICH has started; expected one of Open MPI, with "
        "which this was built; do: launch by its own mpirun, such as mpirun.openmpi; else each "
        "process is alone");
  f = well();
  f.refused_place = "environment: RANK=\"0\": WORLD_SIZE belongs to these and is not set";
  CHECK(wrong(f) ==
        "launcher: found environment: RANK=\"0\": WORLD_SIZE belongs to these and is not set; "
        "expected variables that agree on one place, or none; do: unset those that are left over "
        "from another launcher");
}

TEST_CASE("what cannot be locked, and a ring that the kernel refuses, are wrong") {
  Facts f = well();
  f.memlock_need_bytes = (Index{8} << 20) + 1;
  CHECK(wrong(f) ==
        "RLIMIT_MEMLOCK: found 8388608 bytes; expected at least the 8388609 bytes that are to be "
        "locked; do: raise memlock in /etc/security/limits.conf, or docker run --ulimit "
        "memlock=-1");
  f.memlock_most_bytes = std::nullopt;
  CHECK(wrong(f) ==
        "RLIMIT_MEMLOCK: found 8388608 bytes; expected at least the 8388609 bytes that are to be "
        "locked; do: ulimit -l 8193");
  f = well();
  f.infiniband = true;
  CHECK(wrong(f) ==
        "RLIMIT_MEMLOCK: found 8388608 bytes; expected no limit, since the InfiniBand cards here "
        "lock what they send; do: ulimit -l unlimited, or docker run --ulimit memlock=-1");
  f = well();
  f.uring_refused = "Operation not permitted";
  CHECK(wrong(f) ==
        "io_uring: found Operation not permitted by the kernel; expected a ring, for which this "
        "was built; do: sysctl kernel.io_uring_disabled=0, or a container whose seccomp profile "
        "allows it");
}

TEST_CASE("implementations and versions are read out of what an MPI says of itself") {
  CHECK(mpi_name("Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4, repo rev: v4.1.4") ==
        "Open MPI 4.1.4");
  CHECK(mpi_name("mpirun (Open MPI) 5.0.3\n\nReport bugs to") == "Open MPI 5.0.3");
  CHECK(mpi_name("MPICH Version:      4.0.2\nMPICH Release date: Thu Apr  7") == "MPICH 4.0.2");
  CHECK(mpi_name("HYDRA build details:\n    Version:                                 4.0.2\n") ==
        "MPICH 4.0.2");
  CHECK(mpi_name("Other MPI 1.2\nmore") == "Other MPI 1.2");
}
