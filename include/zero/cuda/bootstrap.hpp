// SPDX-License-Identifier: Apache-2.0
#pragma once
// How the ranks of a world come to NCCL's one id. Three ways: NCCL's own bootstrap at an address
// that all ranks derive from their environment, a function of the program that hands rank 0's bytes
// to all, or a file that all ranks see.

#include <zero/cuda/nccl_status.hpp>
#include <zero/launch/place.hpp>

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace zero::cuda {

/// The id, and what of NCCL's environment must hold while communicators are made from it.
class Bootstrap {
 public:
  /// NCCL's own bootstrap: rank 0 listens at MASTER_ADDR, at ZERO_NCCL_PORT where that is set, else
  /// at the port after MASTER_PORT, which the launcher may hold itself.
  /// @throws InvalidArgument naming what is not set
  static Bootstrap from(Environment const& environment, Place const& place) {
    if (!place.master_address) {
      throw InvalidArgument(
          "NCCL: " + place.launcher + " has started this process, but " +
          environment.quote("MASTER_ADDR") +
          ": set MASTER_ADDR and MASTER_PORT on every rank, or hand the id over by "
          "Bootstrap::broadcast or Bootstrap::file");
    }
    Bootstrap result;
    result.address_ =
        *place.master_address + ":" + std::to_string(port_beside(environment, *place.master_port));
    return result;
  }

  /// @param rank of this process
  /// @param broadcast is given 128 bytes on every rank; it returns when they are rank 0's:
  ///   [](std::span<std::byte> id) { MPI_Bcast(id.data(), int(id.size()), MPI_BYTE, 0, comm); }
  template <class Broadcast>
  requires std::invocable<Broadcast&, std::span<std::byte>>
  static Bootstrap broadcast(int rank, Broadcast broadcast) {
    Bootstrap result;
    if (rank == 0) check(ncclGetUniqueId(&result.id_), "ncclGetUniqueId");
    broadcast(std::as_writable_bytes(std::span(result.id_.internal)));
    return result;
  }

  /// @param path on a file system that all ranks see, the same on every rank; its neighbours
  ///   path.0, path.1, ... are used as well. What an earlier run has left there is recognised: each
  ///   rank asks with a number of its own, and takes no answer that does not repeat it.
  /// @param rank, size place in the world
  /// @param timeout for all ranks to come
  /// @throws CommunicationError naming the ranks that did not come within the timeout
  static Bootstrap file(std::string const& path, int rank, int size,
                        std::chrono::milliseconds timeout);

  /// Says to NCCL what it must know, for as long as it lives. Changes the environment of the
  /// process where the address is given, so that other threads should not read it meanwhile.
  class Use {
   public:
    /// Sets NCCL_COMM_ID where the bootstrap has an address; the end puts back what was there.
    explicit Use(Bootstrap const& bootstrap) : changes_(!bootstrap.address_.empty()) {
      if (!changes_) return;
      if (char const* const old = std::getenv(variable)) old_ = old;
      ::setenv(variable, bootstrap.address_.c_str(), 1);
    }
    Use(Use const&) = delete;
    Use& operator=(Use const&) = delete;
    ~Use() {
      if (!changes_) return;
      if (old_) {
        ::setenv(variable, old_->c_str(), 1);
      } else {
        ::unsetenv(variable);
      }
    }

   private:
    static constexpr char const* variable = "NCCL_COMM_ID";
    bool changes_;
    std::optional<std::string> old_{};
  };

  /// To be called while it is in use.
  ncclUniqueId id() const {
    if (address_.empty()) return id_;
    ncclUniqueId id{};
    check(ncclGetUniqueId(&id), "ncclGetUniqueId");
    return id;
  }
  /// "at 10.0.0.1:29501", for errors.
  std::string text() const {
    return address_.empty() ? "by an id that was handed over"
                            : "at " + address_ + " (another port: ZERO_NCCL_PORT)";
  }

 private:
  Bootstrap() = default;

  std::string address_;
  ncclUniqueId id_{};
};

namespace detail {

/// What stands in a rank's file, or in the answer: numbers, then an id.
struct RendezvousFile {
  /// Written beside and renamed, so that nobody reads a half.
  static void write(std::string const& path, std::string const& bytes) {
    std::string const beside = path + ".tmp" + std::to_string(::getpid());
    {
      std::ofstream out(beside, std::ios::binary | std::ios::trunc);
      out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
      out.flush();
      if (!out) throw CommunicationError("NCCL: '" + beside + "' cannot be written");
    }
    std::filesystem::rename(beside, path);
  }
  static std::string read(std::string const& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static std::string number() {
    std::random_device random;
    std::uint64_t const bits = (std::uint64_t{random()} << 32) ^ random();
    char text[17];
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(bits));
    return text;
  }
};

}  // namespace detail

inline Bootstrap Bootstrap::file(std::string const& path, int rank, int size,
                                 std::chrono::milliseconds timeout) {
  using File = detail::RendezvousFile;
  constexpr std::size_t width = 16;
  auto const of = [&](int r) { return path + "." + std::to_string(r); };
  auto const until = std::chrono::steady_clock::now() + timeout;
  auto const late = [&] { return std::chrono::steady_clock::now() > until; };
  auto const pause = [] { std::this_thread::sleep_for(std::chrono::milliseconds(5)); };
  Bootstrap result;
  auto const bytes = std::as_writable_bytes(std::span(result.id_.internal));
  if (rank != 0) {
    // Asks with a number; the answer repeats it at this rank's place. Then says that it has it, by
    // rank 0's own number.
    std::string const mine = File::number();
    File::write(of(rank), mine);
    for (;;) {
      std::string const answer = File::read(path);
      std::size_t const place = static_cast<std::size_t>(rank) * width;
      std::size_t const numbers = static_cast<std::size_t>(size) * width;
      if (answer.size() == numbers + bytes.size() && answer.compare(place, width, mine) == 0) {
        std::memcpy(bytes.data(), answer.data() + numbers, bytes.size());
        File::write(of(rank), mine + answer.substr(0, width));
        return result;
      }
      if (late()) {
        throw CommunicationError("NCCL: rank " + std::to_string(rank) +
                                 " found no answer of rank 0 in '" + path + "' within " +
                                 std::to_string(timeout.count()) + " ms");
      }
      pause();
    }
  }
  check(ncclGetUniqueId(&result.id_), "ncclGetUniqueId");
  std::string const id(result.id_.internal, bytes.size());
  std::string const own = File::number();
  std::vector<std::string> asked(at(size), std::string(width, '0'));
  std::string written;
  for (;;) {
    std::string missing;
    std::string answer = own;
    for (int r = 1; r < size; ++r) {
      std::string const question = File::read(of(r));
      if (question.size() >= width) asked[at(r)] = question.substr(0, width);
      // What an earlier run has acknowledged was not this rank 0's number.
      bool const has = question == asked[at(r)] + own;
      if (!has) missing += (missing.empty() ? "rank " : ", rank ") + std::to_string(r);
      answer += asked[at(r)];
    }
    answer += id;
    if (missing.empty() && !written.empty()) break;
    if (answer != written) {
      File::write(path, answer);
      written = answer;
    }
    if (size == 1) break;
    if (late()) {
      throw CommunicationError("NCCL: " + missing + " did not come to '" + path + "' within " +
                               std::to_string(timeout.count()) + " ms");
    }
    pause();
  }
  std::error_code ignored;
  for (int r = 1; r < size; ++r) std::filesystem::remove(of(r), ignored);
  std::filesystem::remove(path, ignored);
  return result;
}

}  // namespace zero::cuda
