// SPDX-License-Identifier: Apache-2.0
// Phase 3 alone: the norm of the whole gradient and the decision of the step.
#include <bench/phase.hpp>

int main(int argc, char** argv) {
  bench::Phase phase(argc, argv, "clip",
                     "Norm and decision over every unit, against copies of memory");
  constexpr bench::Index bytes = sizeof(zero::bf16);
  auto const once = [](auto& parts) { parts.state.decide(parts.gradients, 1); };
  // A rank reads the gradients that it keeps, and where all keep everything, all of them.
  phase.add("clip, stage 0", zero::Sharded<0>{}, 0,
            [](bench::Index elements, bench::Index) { return elements * bytes; }, once,
            {.clip = 1});
  phase.add("clip, stage 1", zero::Sharded<1>{}, 0,
            [](bench::Index elements, bench::Index ranks) { return elements / ranks * bytes; },
            once, {.clip = 1});
  return phase.run();
}
