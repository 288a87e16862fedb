// SPDX-License-Identifier: Apache-2.0
// expected-error: Policies: more than one sharding policy was given

#include <zero/policy/policies.hpp>

#ifdef ZERO_XFAIL_PASS
constexpr zero::Policies<zero::Bf16Mixed, zero::Sharded<2>> policies;
#else
constexpr zero::Policies<zero::Sharded<1>, zero::Bf16Mixed, zero::Sharded<2>> policies;
#endif
