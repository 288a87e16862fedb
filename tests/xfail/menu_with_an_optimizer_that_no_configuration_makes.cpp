// SPDX-License-Identifier: Apache-2.0
// expected-error: FromConfig: an optimizer in a Menu needs a specialisation of
// expected-error: zero::FromConfig with name, takes(MenuChoice) and make(MenuChoice,
// ScheduleChoice) expected-error: see zero/config/from_config.hpp

#include <zero/config.hpp>

#include <cases/descent.hpp>

#ifdef ZERO_XFAIL_PASS
template <>
struct zero::FromConfig<cases::Descent> {
  static constexpr std::string_view name = "descent";
  static bool takes(MenuChoice const& c) { return c.type == "SGD"; }
  static cases::Descent make(MenuChoice const&, ScheduleChoice const&) { return {}; }
};
#else
// No FromConfig<cases::Descent>.
#endif

using Menu = zero::Menu<zero::Sharded<1>, zero::Fp32, cases::Descent>;

void run(zero::ResolvedConfig const& config) {
  zero::dispatch<Menu>(config, [](auto, auto, auto const&) {});
}
