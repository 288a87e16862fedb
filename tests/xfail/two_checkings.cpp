// SPDX-License-Identifier: Apache-2.0
// expected-error: Policies: more than one of CheckedGradients and UncheckedGradients was given

#include <zero/policy/policies.hpp>

#ifdef ZERO_XFAIL_PASS
constexpr zero::Policies<zero::Sharded<1>, zero::UncheckedGradients> policies;
#else
constexpr zero::Policies<zero::UncheckedGradients, zero::CheckedGradients> policies;
#endif
