// SPDX-License-Identifier: Apache-2.0
#pragma once
// What this program was built with. Only headers are looked at: what is linked by others of this
// build is looked for when the program runs.

#include <zero_environment/facts.hpp>

// CMake says which of these packages the programs of this build use.
#ifdef ZERO_ENVIRONMENT_CUDA
#include <cuda_runtime_api.h>
#include <nccl.h>
#endif
#ifdef ZERO_ENVIRONMENT_MPI
#include <mpi.h>
#endif
#ifdef ZERO_ENVIRONMENT_BOOST
#include <boost/version.hpp>
#endif
#ifdef ZERO_ENVIRONMENT_XXHASH
#include <xxhash.h>
#endif
#if __has_include(<liburing/io_uring_version.h>)
#include <liburing/io_uring_version.h>
#endif

namespace zero_environment {

/// "4.1.4"
inline std::string version_text(int major, int minor, int patch) {
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
}

/// The headers' versions.
inline void add_build(Facts& f) {
#if defined(__clang__)
  f.compiler = "clang " + version_text(__clang_major__, __clang_minor__, __clang_patchlevel__);
#elif defined(__GNUC__)
  f.compiler = "g++ " + version_text(__GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#else
  f.compiler = "unknown";
#endif
#ifdef ZERO_ENVIRONMENT_CUDA
  f.nvcc.built = ZERO_ENVIRONMENT_CUDA;
  f.cuda_header = CUDART_VERSION;
  f.nccl_header = NCCL_VERSION_CODE;
#endif
#if defined(ZERO_ENVIRONMENT_MPI) && defined(OPEN_MPI)
  f.mpi.built =
      "Open MPI " + version_text(OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION, OMPI_RELEASE_VERSION);
#elif defined(ZERO_ENVIRONMENT_MPI) && defined(MPICH_VERSION)
  f.mpi.built = std::string("MPICH ") + MPICH_VERSION;
#elif defined(ZERO_ENVIRONMENT_MPI)
  f.mpi.built = "MPI " + std::to_string(MPI_VERSION) + "." + std::to_string(MPI_SUBVERSION);
#endif
#if defined(IO_URING_VERSION_MAJOR)
  f.uring_header =
      std::to_string(IO_URING_VERSION_MAJOR) + "." + std::to_string(IO_URING_VERSION_MINOR);
#elif __has_include(<liburing.h>)
  f.uring_header = "before 2.4";
#endif
#ifdef ZERO_ENVIRONMENT_BLAS
  f.openblas.built = ZERO_ENVIRONMENT_BLAS;
#endif
#ifdef ZERO_ENVIRONMENT_BOOST
  f.boost.built =
      version_text(BOOST_VERSION / 100000, BOOST_VERSION / 100 % 1000, BOOST_VERSION % 100);
#endif
#ifdef ZERO_ENVIRONMENT_XXHASH
  f.xxhash.built = version_text(XXH_VERSION_MAJOR, XXH_VERSION_MINOR, XXH_VERSION_RELEASE);
#endif
#ifdef ZERO_ENVIRONMENT_YAML
  f.yaml.built = ZERO_ENVIRONMENT_YAML;
#endif
}

}  // namespace zero_environment
