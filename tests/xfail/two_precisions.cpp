// SPDX-License-Identifier: Apache-2.0
// expected-error: Policies: more than one precision was given

#include <zero/policy/policies.hpp>

#ifdef ZERO_XFAIL_PASS
constexpr zero::Policies<zero::Sharded<1>, zero::Bf16Mixed> policies;
#else
constexpr zero::Policies<zero::Fp32, zero::Sharded<1>, zero::Bf16Mixed> policies;
#endif
