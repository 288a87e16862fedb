// SPDX-License-Identifier: Apache-2.0
#include <zero/model/unit.hpp>

#include <doctest/doctest.h>

#include <string>

namespace {

using zero::Index;
using zero::Tensor;
using zero::Unit;
using zero::Units;

Units one_tensor(Tensor tensor) { return {Unit{"u", {std::move(tensor)}}}; }

void refused(Units const& units, char const* sentence) {
  CHECK_THROWS_WITH_AS(zero::validate(units), sentence, zero::InvalidArgument);
}

TEST_CASE("a tensor has the product of its extents as elements") {
  CHECK(Tensor{.name = "scalar", .shape = {}}.elements() == 1);
  CHECK(Tensor{.name = "vector", .shape = {7}}.elements() == 7);
  CHECK(Tensor{.name = "matrix", .shape = {3, 5, 2}}.elements() == 30);
  CHECK(Tensor{.name = "empty", .shape = {3, 0, 2}}.elements() == 0);
  CHECK(Tensor{.name = "large", .shape = {1 << 20, 1 << 20}}.elements() == Index{1} << 40);
}

TEST_CASE("a tensor is trainable, zero at first, with plain decay and rate, unless it says so") {
  Tensor const tensor{.name = "t", .shape = {2}};
  CHECK(tensor.trainable);
  CHECK(tensor.decay == 1);
  CHECK(tensor.lr_scale == 1);
  CHECK(tensor.initial.value(1, 0, 0) == 0);
}

TEST_CASE("valid models are accepted") {
  zero::validate(one_tensor({.name = "t", .shape = {1}}));
  zero::validate(
      Units{{"a", {}}, {"b", {{.name = "t", .shape = {0}}, {.name = "s", .shape = {}}}}});
  Tensor frozen{.name = "frozen", .shape = {5}, .trainable = false};
  zero::validate(Units{{"a", {frozen}}, {"b", {{.name = "t", .shape = {1}}}}});
}

TEST_CASE("a model without units, or with nothing to train, is refused") {
  refused({}, "model: it has no units");
  refused({{"a", {}}}, "model: none of its 0 elements is trainable; there is nothing to train");
  refused(one_tensor({.name = "t", .shape = {0}}),
          "model: none of its 0 elements is trainable; there is nothing to train");
  refused(one_tensor({.name = "t", .shape = {6}, .trainable = false}),
          "model: none of its 6 elements is trainable; there is nothing to train");
}

TEST_CASE("names are there and unique over the whole model") {
  Tensor const t{.name = "t", .shape = {1}};
  refused({{"", {t}}}, "model: a unit has no name");
  refused(one_tensor({.name = "", .shape = {1}}), "model: a tensor of unit 'u' has no name");
  refused({{"a", {t}}, {"a", {}}}, "model: two units are named 'a'");
  refused({{"a", {t, t}}}, "model: two tensors are named 't'");
  refused({{"a", {t}}, {"b", {t}}}, "model: two tensors are named 't'");
}

TEST_CASE("a unit and a tensor may share a name") {
  zero::validate(Units{{"a", {{.name = "a", .shape = {1}}}}});
  zero::validate(Units{{"head", {{.name = "unit head", .shape = {1}}}}});
}

TEST_CASE("negative extents are refused, even where the product is not") {
  refused(one_tensor({.name = "t", .shape = {-1}}), "model: tensor 't' has the extent -1");
  refused(one_tensor({.name = "t", .shape = {-2, -3}}), "model: tensor 't' has the extent -2");
  refused(one_tensor({.name = "t", .shape = {0, -3}}), "model: tensor 't' has the extent -3");
}

TEST_CASE("sizes beyond what can be counted are refused, naming the tensor") {
  Index const large = Index{1} << 60;
  zero::validate(one_tensor({.name = "t", .shape = {1 << 20, 1 << 20}}));
  refused(one_tensor({.name = "t", .shape = {large + 1}}),
          "model: more than 2^60 elements, with tensor 't'");
  refused(one_tensor({.name = "t", .shape = {large, 4}}),
          "model: more than 2^60 elements, with tensor 't'");
  refused({{"a", {{.name = "t", .shape = {large / 2 + 1}}, {.name = "s", .shape = {large / 2}}}}},
          "model: more than 2^60 elements, with tensor 's'");
  refused({{"a", {{.name = "t", .shape = {large}}}}, {"b", {{.name = "s", .shape = {1}}}}},
          "model: more than 2^60 elements, with tensor 's'");
}

TEST_CASE("a shape whose product does not fit 64 bits is refused like other bad models") {
  Tensor const huge{.name = "t", .shape = {Index{1} << 40, Index{1} << 40}};
  CHECK_THROWS_WITH_AS(static_cast<void>(huge.elements()),
                       doctest::Contains("shape of tensor 't' does not fit 64 bits"), zero::Error);
  CHECK_THROWS_AS(zero::validate(one_tensor(huge)), zero::InvalidArgument);
}

}  // namespace
