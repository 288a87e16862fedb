// SPDX-License-Identifier: Apache-2.0
// Phase 2 alone: a pass over gradients that are left as they are, so that its time is that of the
// sums over ranks.
#include <bench/phase.hpp>

int main(int argc, char** argv) {
  bench::Phase phase(argc, argv, "reduce",
                     "Reducing every unit's gradients once, against copies of memory");
  constexpr bench::Index bytes = sizeof(zero::bf16);
  auto const once = [](auto& parts) {
    zero::Pass pass{parts.parameters, parts.gradients, zero::MicroBatch{0, 1}};
    parts.visit(pass);
  };
  // A rank reads all ranks' gradients of its slices and writes the sums to every rank, or keeps
  // them.
  phase.add(
      "reduce, stage 0", zero::Sharded<0>{}, 2,
      [](bench::Index elements, bench::Index) { return 2 * elements * bytes; }, once);
  auto const scattered = [](bench::Index elements, bench::Index ranks) {
    return (elements + elements / ranks) * bytes;
  };
  phase.add("reduce, stage 2", zero::Sharded<2>{}, 1, scattered, once);
  phase.add("reduce in buckets, stage 2", zero::Sharded<2>{}, 1, scattered, once,
            {.bucket = 1 << 16});
  return phase.run();
}
