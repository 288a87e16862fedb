// SPDX-License-Identifier: Apache-2.0
// Phase 5 alone: every owner's parameters sent to all ranks.
#include <bench/phase.hpp>

int main(int argc, char** argv) {
  bench::Phase phase(argc, argv, "publish",
                     "Publishing every unit once at stage 1, against copies of memory");
  // A rank reads the others' slices and writes them; its own are there.
  auto const moved = [](bench::Index elements, bench::Index ranks) {
    return 2 * (elements - elements / ranks) * bench::Index{sizeof(zero::bf16)};
  };
  auto const once = [](auto& parts) { parts.parameters.publish(); };
  phase.add("publish", zero::Sharded<1>{}, 1, moved, once);
  phase.add("publish in buckets", zero::Sharded<1>{}, 1, moved, once, {.bucket = 1 << 16});
  return phase.run();
}
