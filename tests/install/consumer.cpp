// SPDX-License-Identifier: Apache-2.0
// What a project that uses the library has: an include of the umbrella, and no flag of its own.
#include <zero/zero.hpp>

#include <cstdint>
#include <type_traits>

static_assert(std::is_same_v<zero::Index, std::int64_t>);
#ifdef PACKAGE_VERSION
static_assert(zero::version == PACKAGE_VERSION);
#endif

int main() { return float(zero::bf16(1.0f)) == 1.0f ? 0 : 1; }
