// SPDX-License-Identifier: Apache-2.0
#pragma once
// Threads that read and write beside their caller. A system that has none left says so in words.

#include <zero/checkpoint/files.hpp>

#include <system_error>
#include <thread>

namespace zero::detail {

/// A thread that runs f. @param what it is for, for errors: "writing 'run/a'"
/// @throws CheckpointError where the system gives none
template <class F>
std::thread start_io_thread(std::string const& what, F f) {
  try {
    return std::thread(std::move(f));
  } catch (std::system_error const& e) {
    throw CheckpointError("checkpoint: the system has no thread for " + what + ": " + e.what());
  }
}

}  // namespace zero::detail
