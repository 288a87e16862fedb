// SPDX-License-Identifier: Apache-2.0
// mpi_ranks SCENARIO [ARGUMENT...]: exits with 0; with 1 after printing what was thrown.
#include <mpi/ranks/scenario.hpp>
#include <unistd.h>

#include <cstdio>
#include <exception>

int main(int argc, char** argv) {
  ranks::Arguments arguments(argv + 1, argv + argc);
  if (arguments.empty() || !ranks::scenarios().contains(arguments[0])) {
    for (auto const& [name, scenario] : ranks::scenarios())
      std::fprintf(stderr, "%s\n", name.c_str());
    return 2;
  }
  try {
    ranks::scenarios()[arguments[0]]({arguments.begin() + 1, arguments.end()});
    return 0;
  } catch (std::exception const& e) {
    std::fprintf(stderr, "[process %d] %s\n", static_cast<int>(::getpid()), e.what());
    return 1;
  } catch (...) {
    return 1;
  }
}
