// SPDX-License-Identifier: Apache-2.0
// Phase 1 alone: a forward-only pass at stage 3 gathers every unit once.
#include <bench/phase.hpp>

int main(int argc, char** argv) {
  bench::Phase phase(argc, argv, "gather",
                     "Gathering every unit once at stage 3, against copies of memory");
  // A rank reads every rank's slices and writes them where they are wanted.
  auto const moved = [](bench::Index elements, bench::Index) {
    return 2 * elements * bench::Index{sizeof(zero::bf16)};
  };
  auto const once = [](auto& parts) {
    zero::Pass pass{parts.parameters};
    parts.visit(pass);
  };
  phase.add("gather", zero::Sharded<3>{}, 1, moved, once);
  phase.add("gather, 4 ahead", zero::Sharded<3>{}, 1, moved, once, {.prefetch = 4});
  return phase.run();
}
