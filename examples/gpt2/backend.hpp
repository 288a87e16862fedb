// SPDX-License-Identifier: Apache-2.0
#pragma once
// How this program becomes ranks: as the processes of a launcher where MPI is built in, else, and
// without a launcher, as threads.

#if GPT2_MPI
#include <gpt2/ranks.hpp>
#else
#include <zero/launch/threads.hpp>
#endif

#include <gpt2/flags.hpp>

namespace gpt2 {

#if GPT2_MPI
using Backend = ThreadsOrProcesses;
#else
using Backend = zero::Threads;
#endif

/// Where a launcher has started several processes, its world counts.
/// @param place of this process, as zero::find_place says
/// @throws WrongFlag when --ranks says another size, and when this program cannot join the others
inline void take_place(Settings& settings, std::optional<zero::Place> const& place) {
  if (!place || place->size == 1) return;
  std::string const who = place->launcher + " has started " + std::to_string(place->size) +
                          " ranks (" + place->variables + ")";
  bool const joins = settings.on == On::cuda || zero::JoinsProcesses<Backend>;
  if (!joins)
    throw WrongFlag("gpt2: " + who +
                    ", and this program was built without MPI (packages libopenmpi-dev "
                    "openmpi-bin, or libmpich-dev mpich)");
  if (settings.ranks_given && settings.ranks != place->size) {
    throw WrongFlag("gpt2: --ranks " + std::to_string(settings.ranks) + ", but " + who +
                    ": leave the flag out");
  }
  settings.ranks = place->size;
  settings.ranks_here = place->local_size;
}

}  // namespace gpt2
