// SPDX-License-Identifier: Apache-2.0
// expected-error: judge_own_optimizer: an optimizer whose state is offloaded
// expected-error: needs an update on the host

#include <zero/config.hpp>

#include <cases/descent.hpp>

struct OnGpusAlone : cases::Descent {};

#ifndef ZERO_XFAIL_PASS
void update(zero::Host::Stream&, zero::Update<OnGpusAlone, float, float, zero::Host>) = delete;
#endif

void run(zero::ResolvedConfig const& config) { zero::judge_own_optimizer<OnGpusAlone>(config); }
