// SPDX-License-Identifier: Apache-2.0
#include <zero/policy/kind.hpp>

#include <doctest/doctest.h>

namespace {

struct Empty {
  static constexpr zero::PolicyKind kind = zero::PolicyKind::precision;
};
struct WithState {
  static constexpr zero::PolicyKind kind = zero::PolicyKind::precision;
  int state;
};
struct WithoutKind {};
struct OtherKind {
  static constexpr char const* kind = "sharding";
};
struct NeedsAnArgument {
  static constexpr zero::PolicyKind kind = zero::PolicyKind::sharding;
  explicit NeedsAnArgument(int);
};

}  // namespace

TEST_CASE("a policy is an empty type that can be made and says which question it answers") {
  CHECK(zero::Policy<Empty>);
  CHECK(!zero::Policy<WithState>);
  CHECK(!zero::Policy<WithoutKind>);
  CHECK(!zero::Policy<OtherKind>);
  CHECK(!zero::Policy<NeedsAnArgument>);
  CHECK(!zero::Policy<int>);
  CHECK(!zero::Policy<Empty&>);
}
