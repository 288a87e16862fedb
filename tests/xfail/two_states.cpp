// SPDX-License-Identifier: Apache-2.0
// expected-error: Policies: more than one State<...> was given

#include <zero/policy/policies.hpp>

#ifdef ZERO_XFAIL_PASS
constexpr zero::Policies<zero::Sharded<1>, zero::State<zero::bf16>> policies;
#else
constexpr zero::Policies<zero::State<float>, zero::Sharded<1>, zero::State<zero::bf16>> policies;
#endif
