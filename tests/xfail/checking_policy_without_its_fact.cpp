// SPDX-License-Identifier: Apache-2.0
// expected-error: Policies: a checking policy needs checks, a bool; see zero/policy/checking.hpp

#include <zero/policy/policies.hpp>

struct Own {
  static constexpr zero::PolicyKind kind = zero::PolicyKind::checking;
#ifdef ZERO_XFAIL_PASS
  static constexpr bool checks = true;
#endif
};
constexpr zero::Policies<Own> policies;
