// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the processes of mpirun are asked to do, each one rank: mpi_ranks SCENARIO [ARGUMENT...].
// A scenario that finds something wrong throws.

#include <zero/core/error.hpp>

#include <map>
#include <span>
#include <string>
#include <vector>

namespace ranks {

using Arguments = std::vector<std::string>;
using Scenario = void (*)(Arguments const&);

/// Scenarios by name; each file adds its own.
inline std::map<std::string, Scenario>& scenarios() {
  static std::map<std::string, Scenario> all;
  return all;
}
struct Add {
  Add(char const* name, Scenario scenario) { scenarios()[name] = scenario; }
};

struct Wrong : std::runtime_error {
  using std::runtime_error::runtime_error;
};
inline void demand(bool holds, std::string const& what) {
  if (!holds) throw Wrong(what);
}

}  // namespace ranks
