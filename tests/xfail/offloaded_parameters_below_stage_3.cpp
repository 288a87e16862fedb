// SPDX-License-Identifier: Apache-2.0
// expected-error: Sharded<Stage, Offload<..., ParameterTier>>: offloaded parameters need stage 3

#include <zero/policy/policies.hpp>

#ifdef ZERO_XFAIL_PASS
constexpr auto policy = zero::Sharded<3, zero::Offload<zero::OnHost, zero::OnHost>>{};
#else
constexpr auto policy = zero::Sharded<2, zero::Offload<zero::OnHost, zero::OnHost>>{};
#endif
