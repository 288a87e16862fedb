// SPDX-License-Identifier: Apache-2.0
// expected-error: zero: an optimizer whose state is offloaded needs update on the host beside the
// expected-error: communicator's device; see zero/tier/host_side.hpp

#include <zero/zero.hpp>

#include <cases/descent.hpp>

struct OnGpusAlone : cases::Descent {};

using Below = zero::HostSide<zero::Host>;
#ifndef ZERO_XFAIL_PASS
void update(Below::Stream&, zero::Update<OnGpusAlone, float, float, Below>) = delete;
#endif

using Context = zero::Context<zero::SingleRank<zero::Host>,
                              zero::Policies<zero::Sharded<1, zero::Offload<zero::OnHost>>>>;
template class zero::OffloadedState<Context, OnGpusAlone>;
