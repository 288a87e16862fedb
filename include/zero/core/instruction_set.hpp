// SPDX-License-Identifier: Apache-2.0
#pragma once
// What this processor can do beyond what a program was compiled for. Loops that gain by it are
// compiled for it as well and chosen when they run, so that no compiler flag is asked of anybody.

#if defined(__GNUC__) && defined(__x86_64__)
#define ZERO_HOST_VECTORS 1
#else
#define ZERO_HOST_VECTORS 0
#endif

namespace zero {

/// What a kernel may use of a processor.
enum class InstructionSet {
  plain,  ///< what the compiler makes of the formula
  avx2,   ///< 8 floats at once
  avx512  ///< 16 floats at once, and avx2
};

/// Whether this processor, and its system, can run `set`.
inline bool has(InstructionSet set) {
#if ZERO_HOST_VECTORS
  if (set == InstructionSet::avx512)
    return has(InstructionSet::avx2) && __builtin_cpu_supports("avx512f") != 0;
  if (set == InstructionSet::avx2) return __builtin_cpu_supports("avx2") != 0;
#endif
  return set == InstructionSet::plain;
}

/// The widest set that this processor has.
inline InstructionSet widest_instruction_set() {
  static InstructionSet const widest = has(InstructionSet::avx512) ? InstructionSet::avx512
                                       : has(InstructionSet::avx2) ? InstructionSet::avx2
                                                                   : InstructionSet::plain;
  return widest;
}

}  // namespace zero
