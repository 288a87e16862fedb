// SPDX-License-Identifier: Apache-2.0
#include <zero/policy/precision.hpp>

#include <doctest/doctest.h>

#include <concepts>
#include <string>

namespace {

template <class P, class G, bool Master, zero::PolicyKind Kind = zero::PolicyKind::precision>
struct Own {
  static constexpr zero::PolicyKind kind = Kind;
  using Parameter = P;
  using Gradient = G;
  static constexpr bool has_master = Master;
};

struct NoMaster {
  static constexpr zero::PolicyKind kind = zero::PolicyKind::precision;
  using Parameter = float;
  using Gradient = float;
};

using zero::bf16;
using zero::fp16;

/// Parts that fit a master in halves, but for one thing.
template <class P, bool Master>
struct Halved : Own<P, bf16, Master> {
  static constexpr bool splits_master = true;
};

}  // namespace

TEST_CASE("the menu: all float, or 16 bits with a float master") {
  CHECK(std::same_as<zero::Fp32::Parameter, float>);
  CHECK(std::same_as<zero::Fp32::Gradient, float>);
  CHECK(!zero::Fp32::has_master);
  CHECK(std::same_as<zero::Bf16Mixed::Parameter, bf16>);
  CHECK(std::same_as<zero::Bf16Mixed::Gradient, bf16>);
  CHECK(zero::Bf16Mixed::has_master);
  CHECK(std::same_as<zero::Fp16Mixed::Parameter, fp16>);
  CHECK(std::same_as<zero::Fp16Mixed::Gradient, fp16>);
  CHECK(zero::Fp16Mixed::has_master);
  CHECK(std::string(zero::Fp16Mixed::name) == "fp16");
  CHECK(std::string(zero::Fp32::name) == "fp32");
  CHECK(std::string(zero::Bf16Mixed::name) == "bf16");
}

TEST_CASE("a master in halves is that of a bfloat16 parameter") {
  auto const menu = zero::PrecisionPolicy<zero::Bf16Split>;
  auto const own = zero::PrecisionPolicy<Halved<bf16, true>>;
  auto const of_fp16 = zero::PrecisionPolicy<Halved<fp16, true>>;
  auto const of_float = zero::PrecisionPolicy<Halved<float, true>>;
  auto const without = zero::PrecisionPolicy<Halved<float, false>>;
  CHECK(menu);
  CHECK(own);
  CHECK(!of_fp16);
  CHECK(!of_float);
  CHECK(!without);
  CHECK(zero::splits_master<zero::Bf16Split>);
  CHECK(!zero::splits_master<zero::Bf16Mixed>);
  CHECK(!zero::splits_master<Own<bf16, bf16, true>>);
  CHECK(std::string(zero::Bf16Split::name) == "bf16_split");
}

TEST_CASE("a user's own precision may mix types, and without a master its parameters are float") {
  auto const mixed = zero::PrecisionPolicy<Own<bf16, float, true>>;
  auto const half = zero::PrecisionPolicy<Own<fp16, fp16, true>>;
  auto const master_of_float = zero::PrecisionPolicy<Own<float, bf16, true>>;
  auto const float_alone = zero::PrecisionPolicy<Own<float, bf16, false>>;
  auto const half_alone = zero::PrecisionPolicy<Own<bf16, bf16, false>>;
  auto const of_double = zero::PrecisionPolicy<Own<double, float, true>>;
  auto const gradients_of_double = zero::PrecisionPolicy<Own<float, double, false>>;
  auto const other_kind =
      zero::PrecisionPolicy<Own<float, float, false, zero::PolicyKind::sharding>>;
  CHECK(mixed);
  CHECK(half);
  CHECK(master_of_float);
  CHECK(float_alone);
  CHECK(!half_alone);
  CHECK(!of_double);
  CHECK(!gradients_of_double);
  CHECK(!other_kind);
  CHECK(!zero::PrecisionPolicy<NoMaster>);
}
