// SPDX-License-Identifier: Apache-2.0
// expected-error: UncheckedGradients needs the optimizer's state on the device: below it every
// expected-error: update waits for the norm

#include <zero/comm/single_rank.hpp>
#include <zero/step/requirements.hpp>

#ifdef ZERO_XFAIL_PASS
using Bundle = zero::Policies<zero::Sharded<1>, zero::UncheckedGradients>;
#else
using Bundle =
    zero::Policies<zero::Sharded<1, zero::Offload<zero::OnHost>>, zero::UncheckedGradients>;
#endif

template struct zero::Requirements<zero::SingleRank<zero::Host>, Bundle>;
