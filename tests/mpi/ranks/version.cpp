// SPDX-License-Identifier: Apache-2.0
// A rank that makes a context and says what it is told; compiled for two versions of the library.
#include <zero/mpi/backend.hpp>
#include <zero/zero.hpp>

#include <cstdio>

namespace {

struct Nothing {
  using Batch = int;
  zero::Units units() const { return {{"a", {{"a.w", {3}}}}}; }
  template <class Pass>
  void operator()(Pass&, int) {}
};

}  // namespace

int main() {
  try {
    zero::LaunchOptions const options{.timeout = std::chrono::seconds(5)};
    auto world = zero::Mpi::from(zero::Environment::of_process(), options);
    auto const on_rank = [](zero::Mpi::Communicator communicator) {
      zero::Trainer trainer{Nothing{}, communicator, zero::AdamW{}, zero::Sharded<3>{}};
    };
    world.run(on_rank);
  } catch (zero::Error const& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
