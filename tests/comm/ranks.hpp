// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs ranks that go wrong, and tells what each of them saw.

#include <zero/launch/threads.hpp>

#include <support/device_memory.hpp>

#include <chrono>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace zero_test {

/// What became of one rank.
struct Outcome {
  std::string error;           ///< empty: it returned
  bool communication = false;  ///< the error was a CommunicationError
  double seconds = 0;          ///< until it returned or threw
};

/// What became of a launch.
struct Outcomes {
  std::vector<Outcome> ranks;
  std::string rethrown;  ///< by launch, empty: it returned
  bool communication = false;
  Outcome const& operator[](int rank) const { return ranks[zero::at(rank)]; }
};

/// Runs f(communicator, stream) on every rank; the stream is synchronized at the end.
template <class D, class F>
Outcomes outcomes(int world, std::chrono::milliseconds timeout, F f) {
  using Clock = std::chrono::steady_clock;
  Outcomes result;
  result.ranks.resize(zero::at(world));
  try {
    zero::launch<zero::ThreadsOn<D>>(
        world,
        [&](auto communicator) {
          Outcome& mine = result.ranks[zero::at(communicator.rank())];
          auto const start = Clock::now();
          auto const ends = [&](std::string const& error, bool communication) {
            mine = {error, communication,
                    std::chrono::duration<double>(Clock::now() - start).count()};
          };
          try {
            auto stream = communicator.device().stream();
            f(communicator, stream);
            stream.synchronize();
            ends("", false);
          } catch (zero::CommunicationError const& e) {
            ends(e.what(), true);
            throw;
          } catch (std::exception const& e) {
            ends(e.what(), false);
            throw;
          }
        },
        {.timeout = timeout});
  } catch (zero::CommunicationError const& e) {
    result.rethrown = e.what();
    result.communication = true;
  } catch (std::exception const& e) {
    result.rethrown = e.what();
  }
  return result;
}

/// The first of `parts` that a text lacks; empty where it has all of them.
inline std::string lacks(std::string const& text, std::vector<std::string> const& parts) {
  for (std::string const& part : parts) {
    if (text.find(part) == std::string::npos) return "'" + part + "' is not in: " + text;
  }
  return "";
}

/// One all_reduce of n elements a rank, with memory of its own, and a wait for it.
template <class C, class S>
void all_reduce(C& communicator, S& stream, zero::Index n, zero::Where where, int channel = 0) {
  using D = typename C::Device;
  DeviceMemory<float, D> memory(communicator.device(), stream,
                                std::vector<float>(zero::at(n * communicator.size()), 1.0f));
  auto on_channel = communicator.channel(channel);
  auto claim = memory.claim(stream);
  on_channel.all_reduce(claim.target(0, n * communicator.size()), where);
  claim.end();
  stream.synchronize();
}

template <class C, class S>
void all_gather(C& communicator, S& stream, zero::Index n, zero::Where where, int channel = 0) {
  using D = typename C::Device;
  zero::Index const full = n * communicator.size();
  DeviceMemory<float, D> memory(communicator.device(), stream,
                                std::vector<float>(zero::at(full), 1.0f));
  auto on_channel = communicator.channel(channel);
  auto claim = memory.claim(stream);
  on_channel.all_gather(claim.source(n * communicator.rank(), n), claim.target(0, full), where);
  claim.end();
  stream.synchronize();
}

}  // namespace zero_test
