// SPDX-License-Identifier: Apache-2.0
#pragma once
// MPI in this process: started once, ended when the process ends well, and every status checked.

#include <zero/core/error.hpp>

#include <mpi.h>

#include <chrono>
#include <string>
#include <thread>

namespace zero {

namespace detail {

/// A call of MPI that failed.
struct MpiFailure : CommunicationError {
  using CommunicationError::CommunicationError;
};

/// @throws MpiFailure with the call and MPI's text, unless the status is MPI_SUCCESS
inline void check_mpi(int status, char const* call) {
  if (status == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING + 1] = {};
  int length = 0;
  if (MPI_Error_string(status, text, &length) != MPI_SUCCESS) length = 0;
  throw MpiFailure(std::string(call) + " failed: " +
                   (length > 0 ? std::string(text, static_cast<std::size_t>(length))
                               : "MPI error " + std::to_string(status)));
}

/// Starts MPI where the program has not; then it also ends MPI, at exit. A process that has failed,
/// or exits in the middle of a world, does not: MPI_Finalize would wait for ranks that never come.
class MpiSession {
 public:
  static MpiSession& of_process() {
    static MpiSession session;
    return session;
  }
  MpiSession(MpiSession const&) = delete;
  MpiSession& operator=(MpiSession const&) = delete;
  ~MpiSession() {
    if (worlds_ > 0) {
      // A launcher ends the other ranks when the first one exits: let all say first what they know.
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      return;
    }
    int finalized = 1;
    MPI_Finalized(&finalized);
    if (ours_ && finalized == 0) MPI_Finalize();
  }

  void world_begins() { ++worlds_; }
  /// Called for worlds that have ended well, and for no other.
  void world_ends() { --worlds_; }

 private:
  MpiSession() {
    int started = 0;
    check_mpi(MPI_Initialized(&started), "MPI_Initialized");
    if (started != 0) return;
    int provided = 0;
    check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
    ours_ = true;
    // What belongs to no communicator of ours is reported through these.
    check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN),
              "MPI_Comm_set_errhandler");
    check_mpi(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  }

  bool ours_ = false;
  int worlds_ = 0;
};

}  // namespace detail

}  // namespace zero
