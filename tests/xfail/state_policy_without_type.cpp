// SPDX-License-Identifier: Apache-2.0
// expected-error: Policies: a state policy needs Type, float or bf16; see zero/policy/state.hpp

#include <zero/policy/policies.hpp>

struct Own {
  static constexpr zero::PolicyKind kind = zero::PolicyKind::state;
#ifdef ZERO_XFAIL_PASS
  using Type = float;
#else
  using Type = double;
#endif
};
constexpr zero::Policies<Own> policies;
