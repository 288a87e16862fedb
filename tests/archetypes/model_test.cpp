// SPDX-License-Identifier: Apache-2.0
#include <archetypes/trainer.hpp>
#include <doctest/doctest.h>

#include <ranges>
#include <span>
#include <type_traits>
#include <vector>

namespace {

using archetype::Batch;

using Context =
    zero::Context<archetype::Complete<zero::Fp32>, zero::Policies<zero::Sharded<3>, zero::Fp32>>;
using Training = zero::Pass<Context, true>;
using Evaluating = zero::Pass<Context, false>;

/// A thing by which a candidate misses the concepts of model/.
enum class Miss { nothing, units, units_const, units_type, call_batch_const, call_for_evaluation };

struct NoUnits {};

/// A model that has everything but one thing.
template <Miss miss>
struct Candidate {
  using Batch = archetype::Batch;
  std::conditional_t<miss == Miss::units_type, NoUnits, zero::Units> units() const
      requires(miss != Miss::units && miss != Miss::units_const);
  zero::Units units() requires(miss == Miss::units_const);
  template <class Pass>
  requires(Pass::trains || miss != Miss::call_for_evaluation) void operator()(
      Pass&, std::conditional_t<miss == Miss::call_batch_const, Batch&, Batch const&>);
};

struct NoBatch {
  zero::Units units() const;
};
using Trainer = archetype::Deduced<archetype::Model, archetype::Complete<zero::Fp32>,
                                   archetype::Optimizer, zero::Sharded<2>>;
template <class R>
concept CanStep = requires(Trainer& trainer, R const& batches) {
  trainer.step(batches);
};

template <class Pass>
concept CanReduce = requires(Pass& pass) {
  pass.reduce();
};

struct Ordered : Candidate<Miss::nothing> {
  zero::Schedule schedule() const;
};
struct OrderedOtherwise : Candidate<Miss::nothing> {
  int schedule() const;
};

}  // namespace

TEST_CASE("the archetype model is a model for both kinds of pass") {
  auto const training = zero::ModelFor<archetype::Model, Training>;
  auto const evaluating = zero::ModelFor<archetype::Model, Evaluating>;
  CHECK(training);
  CHECK(evaluating);
  CHECK(!zero::HasSchedule<archetype::Model>);
  CHECK(!std::is_copy_constructible_v<archetype::Model>);
  CHECK(!std::is_copy_constructible_v<Batch>);
}

TEST_CASE("a model that has everything but one thing is no model") {
  CHECK(zero::Model<Candidate<Miss::nothing>>);
  CHECK(!zero::Model<Candidate<Miss::units>>);
  CHECK(!zero::Model<Candidate<Miss::units_const>>);
  CHECK(!zero::Model<Candidate<Miss::units_type>>);
  CHECK(!zero::Model<NoBatch>);
  CHECK(!zero::Model<int>);
}

TEST_CASE("a model states its own order by a schedule, and by nothing else of that name") {
  CHECK(!zero::HasSchedule<Candidate<Miss::nothing>>);
  CHECK(zero::HasSchedule<Ordered>);
  CHECK(zero::Model<OrderedOtherwise>);
  CHECK(!zero::HasSchedule<OrderedOtherwise>);
}

TEST_CASE("a model is called with each kind of pass and a batch that it must not change") {
  auto const trains = zero::ModelFor<Candidate<Miss::nothing>, Training>;
  auto const evaluates = zero::ModelFor<Candidate<Miss::nothing>, Evaluating>;
  auto const changes_batch = zero::ModelFor<Candidate<Miss::call_batch_const>, Training>;
  auto const only_trains = zero::ModelFor<Candidate<Miss::call_for_evaluation>, Training>;
  auto const half = zero::ModelFor<Candidate<Miss::call_for_evaluation>, Evaluating>;
  CHECK(trains);
  CHECK(evaluates);
  CHECK(!changes_batch);
  CHECK(only_trains);
  CHECK(!half);
}

TEST_CASE("a pass says at compile time whether it trains") {
  static_assert(Training::trains && !Evaluating::trains);
  auto const reduces = CanReduce<Training>;
  auto const evaluation_reduces = CanReduce<Evaluating>;
  CHECK(reduces);
  CHECK(!evaluation_reduces);
}

TEST_CASE("a step takes batches that lie somewhere, not ones that are made while it walks") {
  using Made = std::ranges::transform_view<std::ranges::iota_view<int, int>, Batch (*)(int)>;
  CHECK(CanStep<Batch>);
  CHECK(CanStep<std::span<Batch const>>);
  CHECK(CanStep<std::span<Batch>>);
  CHECK(std::ranges::forward_range<Made>);
  CHECK(!CanStep<Made>);
  CHECK(!CanStep<std::vector<int>>);
  CHECK(!CanStep<int>);
}
