// SPDX-License-Identifier: Apache-2.0
// expected-error: Menu: every type must be a sharding policy, a precision or an optimizer

#include <zero/config.hpp>

#ifdef ZERO_XFAIL_PASS
using Menu = zero::Menu<zero::Sharded<1>, zero::Fp32, zero::AdamW>;
#else
using Menu = zero::Menu<zero::Sharded<1>, zero::Fp32, zero::AdamW, zero::State<zero::bf16>>;
#endif

void run(zero::ResolvedConfig const& config) {
  zero::dispatch<Menu>(config, [](auto, auto, auto const&) {});
}
