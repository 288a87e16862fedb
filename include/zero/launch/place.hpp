// SPDX-License-Identifier: Apache-2.0
#pragma once
// This process's place in the world that a launcher has started, read from the variables that
// launchers set. What is half set, no number, impossible, or said twice and differently is refused:
// a rank that guesses trains alone.

#include <zero/launch/environment.hpp>
#include <zero/launch/task_list.hpp>

#include <array>
#include <initializer_list>
#include <limits>
#include <vector>

namespace zero {

/// What a launcher says of this process.
struct Place {
  int rank = 0;                     ///< 0 to size - 1
  int size = 1;                     ///< ranks of the world
  std::optional<int> local_rank{};  ///< among the ranks of this machine, where the launcher says it
  std::optional<int> local_size{};  ///< ranks of this machine, where the launcher says it
  std::optional<std::string> master_address{};  ///< MASTER_ADDR
  std::optional<int> master_port{};             ///< MASTER_PORT
  std::string launcher{};                       ///< whose variables were read
  std::string variables{};                      ///< those variables and their texts, for messages
};

namespace detail {

/// The names under which one kind of launcher says a place; where several are given for one thing,
/// the first that is set counts.
struct LauncherNames {
  std::string_view launcher;
  std::string_view rank;
  std::array<std::string_view, 2> size;
  std::array<std::string_view, 2> local_rank;
  std::array<std::string_view, 2> local_size;
  bool needs_local_rank;  ///< the launcher always sets it: without it the set is a half
};

/// In order of preference: whoever stands nearer to the process first. torchrun, accelerate launch
/// and deepspeed start one process a rank themselves, under whatever started them; mpirun starts
/// its daemons through srun; srun starts nothing through others.
inline constexpr std::array<LauncherNames, 4> launchers{{
    {"RANK and WORLD_SIZE", "RANK", {"WORLD_SIZE"}, {"LOCAL_RANK"}, {"LOCAL_WORLD_SIZE"}, true},
    {"mpirun of Open MPI",
     "OMPI_COMM_WORLD_RANK",
     {"OMPI_COMM_WORLD_SIZE"},
     {"OMPI_COMM_WORLD_LOCAL_RANK"},
     {"OMPI_COMM_WORLD_LOCAL_SIZE"},
     true},
    {"mpiexec with PMI",
     "PMI_RANK",
     {"PMI_SIZE"},
     {"MPI_LOCALRANKID", "PMI_LOCAL_RANK"},
     {"MPI_LOCALNRANKS", "PMI_LOCAL_SIZE"},
     false},
    {"srun", "SLURM_PROCID", {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}, {"SLURM_LOCALID"}, {}, true},
}};
inline constexpr std::size_t by_name = 0;  // RANK, WORLD_SIZE, ...
inline constexpr std::size_t by_pmi = 2;
inline constexpr std::size_t by_slurm = 3;

/// Reads one launcher's variables.
class PlaceReader {
 public:
  PlaceReader(Environment const& environment, std::size_t which)
      : environment_(environment), which_(which), names_(launchers[which]) {}

  std::optional<Place> read() const {
    if (!spoke()) return std::nullopt;
    std::string_view const size = first(names_.size);
    std::string_view const local_rank = first(names_.local_rank);
    std::string_view const local_size = first(names_.local_size);
    constexpr int most = std::numeric_limits<int>::max();
    Place place;
    place.launcher = names_.launcher;
    for (std::string_view name : {names_.rank, size, local_rank, local_size}) {
      if (!environment_.has(name)) continue;
      place.variables += (place.variables.empty() ? "" : ", ") + environment_.quote(name);
    }
    demand(place, names_.rank);
    demand(place, size);
    if (names_.needs_local_rank) demand(place, local_rank);
    place.size = *environment_.number(size, 1, most);
    place.rank = *environment_.number(names_.rank, 0, most);
    place.local_rank = environment_.number(local_rank, 0, most);
    place.local_size = environment_.number(local_size, 1, most);
    if (which_ == by_slurm) place.local_size = tasks_here();
    below(place, names_.rank, place.rank, size, place.size);
    if (place.local_rank) below(place, local_rank, *place.local_rank, size, place.size);
    if (place.local_rank && place.local_size)
      below(place, local_rank, *place.local_rank, local_size, *place.local_size);
    if (place.local_size && *place.local_size > place.size)
      refuse(place, "more ranks on this machine than in the world");
    return place;
  }

 private:
  /// Whether this launcher has started this process. A batch script and the shell of an allocation
  /// have Slurm's SLURM_NTASKS, and the script even SLURM_PROCID=0; only srun's tasks have a step.
  bool spoke() const {
    if (which_ == by_slurm) {
      if (environment_.has(names_.size[0])) return true;
      return environment_.has(names_.rank) &&
             (environment_.has("SLURM_STEP_ID") || !environment_.has("SLURM_JOB_ID"));
    }
    bool const world = environment_.has(names_.rank) || environment_.has(first(names_.size));
    if (which_ == by_pmi) return world;
    return world || environment_.has(first(names_.local_rank)) ||
           environment_.has(first(names_.local_size));
  }
  std::string_view first(std::array<std::string_view, 2> const& names) const {
    return !environment_.has(names[0]) && environment_.has(names[1]) ? names[1] : names[0];
  }
  /// Tasks that srun has started on this machine.
  std::optional<int> tasks_here() const {
    auto const list = environment_.find("SLURM_STEP_TASKS_PER_NODE");
    auto const node = environment_.number("SLURM_NODEID", 0, std::numeric_limits<int>::max());
    if (!list || !node) return std::nullopt;
    auto const tasks = task_count(*list, *node);
    if (!tasks) {
      throw InvalidArgument("environment: " + environment_.quote("SLURM_STEP_TASKS_PER_NODE") +
                            " has no count for " + environment_.quote("SLURM_NODEID"));
    }
    return tasks;
  }

  [[noreturn]] void refuse(Place const& place, std::string const& why) const {
    throw InvalidArgument("environment: " + place.variables + ": " + why);
  }
  void demand(Place const& place, std::string_view name) const {
    if (!environment_.has(name))
      refuse(place, std::string(name) + " belongs to these and is not set");
  }
  void below(Place const& place, std::string_view a, int value, std::string_view b,
             int bound) const {
    if (value >= bound) refuse(place, std::string(a) + " must be below " + std::string(b));
  }

  Environment const& environment_;
  std::size_t which_;
  LauncherNames const& names_;
};

/// Whether what a farther launcher says cannot be true beside the nearer one.
inline bool contradict(Place const& near, Place const& far, bool far_starts_daemons) {
  if (far.size == 1) return false;  // an interactive task, in which the nearer one was called
  if (far_starts_daemons) return near.size < far.size;  // two daemons would start one rank
  return near.rank != far.rank || near.size != far.size ||
         (near.local_rank && far.local_rank && *near.local_rank != *far.local_rank);
}

}  // namespace detail

/// This process's place; nothing when no launcher has started it. In order of preference:
/// 1. RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE: torchrun, accelerate launch, deepspeed, or
/// set by hand
/// 2. OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE: mpirun of Open MPI
/// 3. PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS: mpiexec of MPICH and its relatives
/// 4. SLURM_PROCID, SLURM_STEP_NUM_TASKS or SLURM_NTASKS, SLURM_LOCALID: a task of srun. The shell
/// of an allocation and a batch script are none.
///
/// Launchers may stand in each other: what torchrun or deepspeed says of its processes is not
/// compared with what stands around it, nor mpirun with the srun task that holds its daemon.
/// Everything else must agree.
/// @throws InvalidArgument naming the variables and their texts: not a number, half a set, a rank
/// that is not below the size, a port that is none, two launchers that disagree
inline std::optional<Place> find_place(Environment const& environment) {
  std::vector<std::pair<std::size_t, Place>> found;
  for (std::size_t i = 0; i < detail::launchers.size(); ++i) {
    if (auto place = detail::PlaceReader(environment, i).read()) found.emplace_back(i, *place);
  }
  auto const pmix = environment.number("PMIX_RANK", 0, std::numeric_limits<int>::max());
  if (found.empty()) {
    if (pmix) {
      throw InvalidArgument("environment: " + environment.quote("PMIX_RANK") +
                            ": no variable says how many ranks there are");
    }
    return std::nullopt;
  }

  auto& [nearest, place] = found.front();
  bool const torchrun = environment.has("TORCHELASTIC_RUN_ID");
  bool const deepspeed = environment.has("CROSS_RANK");
  bool const starts_ranks = nearest == detail::by_name && (torchrun || deepspeed);
  if (starts_ranks) {
    place.launcher = torchrun ? "torchrun" : "deepspeed";
    if (!place.local_size)
      place.local_size = environment.number("LOCAL_SIZE", 1, std::numeric_limits<int>::max());
  } else {
    for (std::size_t i = 1; i < found.size(); ++i) {
      auto const& [which, other] = found[i];
      bool const daemons = which == detail::by_slurm && nearest != detail::by_name;
      if (!detail::contradict(place, other, daemons)) {
        if (place.size != other.size || place.rank != other.rank) continue;
        if (!place.local_rank) place.local_rank = other.local_rank;
        if (!place.local_size) place.local_size = other.local_size;
        continue;
      }
      throw InvalidArgument("environment: two launchers disagree: " + place.variables +
                            " against " + other.variables);
    }
    if (pmix && *pmix != place.rank && nearest != detail::by_pmi) {
      throw InvalidArgument("environment: " + place.variables + " against " +
                            environment.quote("PMIX_RANK"));
    }
  }

  if (environment.has("MASTER_ADDR") != environment.has("MASTER_PORT")) {
    throw InvalidArgument("environment: " + environment.quote("MASTER_ADDR") + ", " +
                          environment.quote("MASTER_PORT") + ": only both make an address");
  }
  if (auto const address = environment.find("MASTER_ADDR")) {
    if (address->empty()) {
      throw InvalidArgument("environment: " + environment.quote("MASTER_ADDR") + " is no address");
    }
    place.master_address = *address;
    place.master_port = environment.number("MASTER_PORT", 1, 65535);
  }
  return place;
}

/// The port at which ranks meet of themselves beside a launcher's: ZERO_NCCL_PORT where it is set,
/// else the one after MASTER_PORT, which torchrun's agent may hold itself.
/// @param environment that may say another
/// @param master_port MASTER_PORT
/// @throws InvalidArgument where ZERO_NCCL_PORT is no port
inline int port_beside(Environment const& environment, int master_port) {
  int const beside = master_port < 65535 ? master_port + 1 : master_port - 1;
  return environment.number("ZERO_NCCL_PORT", 1, 65535).value_or(beside);
}

}  // namespace zero
