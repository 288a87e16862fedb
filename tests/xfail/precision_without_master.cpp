// SPDX-License-Identifier: Apache-2.0
// expected-error: Policies: a precision needs the types Parameter and Gradient, and has_master,
// expected-error: which may be false only where Parameter is float

#include <zero/policy/policies.hpp>

// Parameters of 16 bits without a float copy to add small updates to.
struct Own {
  static constexpr zero::PolicyKind kind = zero::PolicyKind::precision;
  using Parameter = zero::bf16;
  using Gradient = float;
#ifdef ZERO_XFAIL_PASS
  static constexpr bool has_master = true;
#else
  static constexpr bool has_master = false;
#endif
};
constexpr zero::Policies<Own> policies;
