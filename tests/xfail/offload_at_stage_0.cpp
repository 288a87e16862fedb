// SPDX-License-Identifier: Apache-2.0
// expected-error: Sharded<0, Offload<...>>: stage 0 replicates optimizer state; offload needs
// expected-error: stage 1, 2 or 3

#include <zero/policy/policies.hpp>

#ifdef ZERO_XFAIL_PASS
constexpr auto policy = zero::Sharded<1, zero::Offload<zero::OnHost>>{};
#else
constexpr auto policy = zero::Sharded<0, zero::Offload<zero::OnHost>>{};
#endif
