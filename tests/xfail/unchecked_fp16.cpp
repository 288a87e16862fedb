// SPDX-License-Identifier: Apache-2.0
// expected-error: UncheckedGradients cannot train in fp16, whose loss scale is moved by gradients
// expected-error: that are not finite

#include <zero/comm/single_rank.hpp>
#include <zero/step/requirements.hpp>

#ifdef ZERO_XFAIL_PASS
using Precision = zero::Bf16Mixed;
#else
using Precision = zero::Fp16Mixed;
#endif
using Bundle = zero::Policies<Precision, zero::UncheckedGradients>;

template struct zero::Requirements<zero::SingleRank<zero::Host>, Bundle>;
