// SPDX-License-Identifier: Apache-2.0
#pragma once
// What ranks would be started by, and where they would meet.

#include <zero/launch/place.hpp>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zero_environment/facts.hpp>
#include <zero_environment/machine.hpp>

#include <array>
#include <cerrno>
#include <filesystem>

namespace zero_environment {

/// "Open MPI 4.1.4" of what MPI or its launcher says of itself; the first line where it is neither
/// of the two.
inline std::string mpi_name(std::string const& text) {
  std::string name = text.substr(0, text.find('\n'));
  if (text.find("Open MPI") != std::string::npos || text.find("OpenRTE") != std::string::npos) {
    name = "Open MPI";
  } else if (text.find("MPICH") != std::string::npos || text.find("HYDRA") != std::string::npos) {
    name = "MPICH";
  } else {
    return name;
  }
  std::size_t begin = 0;
  while ((begin = text.find_first_of("0123456789", begin)) != std::string::npos) {
    std::size_t const end = text.find_first_not_of("0123456789.", begin);
    std::string const number = text.substr(begin, end - begin);
    if (number.find('.') != std::string::npos) return name + " " + number;
    begin = end;
  }
  return name + " ?";
}

/// Whether another process listens at a port of this machine.
inline bool is_taken(int port) {
  int const socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return false;
  int const on = 1;  // connections that have ended do not count
  setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  bool const taken = bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 &&
                     errno == EADDRINUSE;
  close(socket);
  return taken;
}

/// The library and the launcher of MPI.
/// @param library its name, as programs of this build look for it; empty: not built with MPI
inline void add_mpi(Facts& f, zero::Environment const& environment, std::string const& library) {
  if (!library.empty()) {
    Library const mpi(library);
    // 8192 is MPI_MAX_LIBRARY_VERSION_STRING where it is longest.
    std::array<char, 8192> text{};
    int size = 0;
    auto* const name = mpi.function<int(char*, int*)>("MPI_Get_library_version");
    if (name != nullptr && name(text.data(), &size) == 0) f.mpi.found = mpi_name(text.data());
  }
  std::string const said = output_of("mpirun --version");
  if (!said.empty()) f.mpirun = mpi_name(said);
  // srun starts processes of either.
  if (environment.has("SLURM_PROCID")) return;
  if (environment.has("OMPI_COMM_WORLD_SIZE")) {
    f.launched_by = "Open MPI";
  } else if (environment.has("PMI_RANK") || environment.has("PMI_SIZE")) {
    f.launched_by = "MPICH";
  }
}

/// The place that the environment gives this process, and the ports and files of a rendezvous.
inline void add_rendezvous(Facts& f, zero::Environment const& environment) {
  constexpr int torchrun_port = 29500;
  constexpr int last_port = 65535;
  try {
    auto const place = zero::find_place(environment);
    int port = environment.number("MASTER_PORT", 1, last_port).value_or(torchrun_port);
    if (place) {
      f.launcher = place->launcher;
      if (place->master_port) port = *place->master_port;
    } else {
      f.ports.push_back({port, false, is_taken(port)});  // under a launcher, its own
    }
    if (!place || place->rank == 0) {
      int const beside = zero::port_beside(environment, port);
      f.ports.push_back({beside, true, is_taken(beside)});
    }
  } catch (zero::InvalidArgument const& e) {
    f.refused_place = e.what();
  }
  auto const path = environment.find("ZERO_NCCL_ID_FILE");
  if (!path) return;
  namespace fs = std::filesystem;
  IdFile file{std::string(*path), {}, true};
  fs::path const whole(file.path);
  fs::path const folder = whole.has_parent_path() ? whole.parent_path() : fs::path(".");
  file.folder = access(folder.c_str(), W_OK | X_OK) == 0;
  std::error_code ignored;
  std::string const name = whole.filename().string();
  for (auto const& entry : fs::directory_iterator(folder, ignored)) {
    std::string const other = entry.path().filename().string();
    bool const of_rank =
        other.size() > name.size() + 1 && other.starts_with(name + ".") &&
        other.find_first_not_of("0123456789", name.size() + 1) == std::string::npos;
    if (other == name || of_rank) file.stale.push_back(entry.path().string());
  }
  std::ranges::sort(file.stale);
  f.id_file = file;
}

}  // namespace zero_environment
