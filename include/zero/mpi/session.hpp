// SPDX-License-Identifier: Apache-2.0
#pragma once
// MPI in this process: started once, ended when the process ends well, and every status checked.

#include <zero/core/error.hpp>

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace zero::detail {

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

/// What must be known of a world when the process exits in the middle of it.
struct LiveWorld {
  virtual void process_exits() noexcept = 0;

 protected:
  ~LiveWorld() = default;
};

/// Starts MPI where the program has not; then it also ends MPI, at exit. A process that has failed,
/// or exits in the middle of a world, does not: MPI_Finalize would wait for ranks that never come.
/// Who exits in the middle fails the run, whatever exit code it asked for: the process ends with 1,
/// since a launcher may take the first code that it sees for that of all.
class MpiSession {
 public:
  static MpiSession& of_process() {
    static MpiSession session;
    return session;
  }
  MpiSession(MpiSession const&) = delete;
  MpiSession& operator=(MpiSession const&) = delete;
  ~MpiSession() {
    if (worlds_.empty() && !failed_) {
      int finalized = 1;
      MPI_Finalized(&finalized);
      if (ours_ && finalized == 0) MPI_Finalize();
      return;
    }
    for (LiveWorld* world : worlds_) world->process_exits();
    // A launcher ends the other ranks when the first one exits: let all say first what they know.
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    if (worlds_.empty()) return;
    static_cast<void>(std::fflush(nullptr));
    std::_Exit(EXIT_FAILURE);
  }

  void begins(LiveWorld& world) { worlds_.push_back(&world); }
  /// @param well all ranks have said that they need this one no more
  void ends(LiveWorld& world, bool well) noexcept {
    failed_ = failed_ || (!well && std::ranges::find(worlds_, &world) != worlds_.end());
    std::erase(worlds_, &world);
  }
  /// A world could not be made, for want of a rank.
  void failed() noexcept { failed_ = true; }
  /// Transfers that never end may write to what this owns as long as the process lives.
  void keep(std::shared_ptr<void> memory) { kept_.push_back(std::move(memory)); }

 private:
  MpiSession() {
    int started = 0;
    check_mpi(MPI_Initialized(&started), "MPI_Initialized");
    if (started != 0) return;
    int provided = 0;
    check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
    ours_ = true;
    if (provided < MPI_THREAD_FUNNELED) {
      throw CommunicationError(
          "MPI_Init_thread provides thread level " + std::to_string(provided) +
          "; expected MPI_THREAD_FUNNELED, since the process may have other threads");
    }
    // What belongs to no communicator of ours is reported through these.
    check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN),
              "MPI_Comm_set_errhandler");
    check_mpi(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  }

  bool ours_ = false;
  bool failed_ = false;
  std::vector<LiveWorld*> worlds_;
  std::vector<std::shared_ptr<void>> kept_;
};

}  // namespace zero::detail
