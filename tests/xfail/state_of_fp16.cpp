// SPDX-License-Identifier: Apache-2.0
// expected-error: State<T>: optimizer state is kept as float or as bf16

#include <zero/policy/policies.hpp>

#ifdef ZERO_XFAIL_PASS
constexpr zero::Policies<zero::State<zero::bf16>> policies;
#else
constexpr zero::Policies<zero::State<zero::fp16>> policies;
#endif
