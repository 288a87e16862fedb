// SPDX-License-Identifier: Apache-2.0
#include <zero/policy/state.hpp>

#include <doctest/doctest.h>

namespace {

struct Own {
  static constexpr zero::PolicyKind kind = zero::PolicyKind::state;
  using Type = zero::bf16;
};
struct OtherKind {
  static constexpr zero::PolicyKind kind = zero::PolicyKind::precision;
  using Type = float;
};
struct NoType {
  static constexpr zero::PolicyKind kind = zero::PolicyKind::state;
};
struct Halves {
  static constexpr zero::PolicyKind kind = zero::PolicyKind::state;
  using Type = zero::fp16;
};

}  // namespace

TEST_CASE("a state policy names float or bf16") {
  CHECK(zero::StatePolicy<zero::State<float>>);
  CHECK(zero::StatePolicy<zero::State<zero::bf16>>);
  CHECK(zero::StatePolicy<Own>);
  CHECK(!zero::StatePolicy<OtherKind>);
  CHECK(!zero::StatePolicy<NoType>);
  CHECK(!zero::StatePolicy<Halves>);
  CHECK(!zero::StatePolicy<zero::bf16>);
}
