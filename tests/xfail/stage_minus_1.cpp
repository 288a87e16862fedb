// SPDX-License-Identifier: Apache-2.0
// expected-error: Sharded<Stage>: ZeRO has stages 0, 1, 2 and 3

#include <zero/policy/policies.hpp>

#ifdef ZERO_XFAIL_PASS
constexpr auto policy = zero::Sharded<0>{};
#else
constexpr auto policy = zero::Sharded<-1>{};
#endif
