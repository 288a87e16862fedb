// SPDX-License-Identifier: Apache-2.0
// expected-error: Menu: no sharding policy is in it

#include <zero/config.hpp>

#ifdef ZERO_XFAIL_PASS
using Menu = zero::Menu<zero::Sharded<1>, zero::Fp32, zero::AdamW>;
#else
using Menu = zero::Menu<zero::Fp32, zero::AdamW>;
#endif

void run(zero::ResolvedConfig const& config) {
  zero::dispatch<Menu>(config, [](auto, auto, auto const&) {});
}
