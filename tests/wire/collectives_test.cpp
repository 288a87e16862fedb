// SPDX-License-Identifier: Apache-2.0
#include <zero/step/timeline.hpp>

#include <archetypes/rig.hpp>
#include <doctest/doctest.h>
#include <wire/formula.hpp>
#include <wire/models.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <set>
#include <string>
#include <vector>

namespace {

using zero::Collective;
using zero::Index;

/// What one phase of one step issued.
struct Count {
  Index collectives = 0;
  Index groups = 0;
  std::set<Collective> operations{};
  Index bytes_per_element = 0;
};

/// The records of one step, or of one evaluation, after a step before it.
class Recorded {
 public:
  Recorded(rig::Setup const& setup, int world, Index micro_batches, bool evaluates = false) {
    rig::Alone alone(setup, 0, world);
    alone.step(micro_batches);
    alone.log().clear();
    alone.log().keep_records(true);
    if (evaluates) {
      alone->evaluate({});
    } else {
      alone.step(micro_batches);
    }
    records_ = alone.log().records();
    groups_ = alone.log().groups();
  }

  Count count(std::string_view phase) const {
    Count result;
    std::set<Index> groups;
    for (zero::CollectiveRecord const& r : records_) {
      if (r.phase != phase) continue;
      ++result.collectives;
      groups.insert(r.group);
      result.operations.insert(r.operation);
      result.bytes_per_element = r.element_bytes;
    }
    result.groups = static_cast<Index>(groups.size());
    return result;
  }
  std::vector<zero::CollectiveRecord> const& records() const { return records_; }
  Index groups() const { return groups_; }

 private:
  std::vector<zero::CollectiveRecord> records_;
  Index groups_ = 0;
};

/// Neighbours join until the next one would exceed the bucket.
Index packed(std::vector<Index> const& sizes, Index bucket) {
  Index groups = 0;
  Index filled = 0;
  for (Index n : sizes) {
    if (n == 0) continue;
    if (groups == 0 || filled + n > bucket) {
      ++groups;
      filled = 0;
    }
    filled += n;
  }
  return groups;
}

/// Trainable parts in the order in which units are published, and reduced.
std::vector<Index> sizes(zero::Units const& units, Index world, bool backwards) {
  std::vector<Index> result;
  for (zero::Unit const& unit : units) result.push_back(formula::padded(unit, true, world));
  if (backwards) std::reverse(result.begin(), result.end());
  return result;
}

constexpr Index buckets[] = {0, 600, 1000000};

}  // namespace

TEST_CASE("a step issues a reduction a unit, a publication a unit and one exchange of norms") {
  zero::Units const units = wire::frozen_units();
  for (int world : {2, 3}) {
    Index num_trainable = 0;
    for (Index n : sizes(units, world, false)) num_trainable += n > 0 ? 1 : 0;
    REQUIRE(num_trainable == 4);
    for (int stage = 0; stage <= 3; ++stage) {
      for (Index bucket : buckets) {
        for (Index A : {1, 3}) {
          rig::Setup setup{.units = units, .stage = stage, .bf16 = true};
          setup.options.bucket = bucket;
          setup.options.accumulation = A;
          CAPTURE(setup);
          CAPTURE(world);
          Recorded const step(setup, world, A);
          Index const R = formula::at_boundary(setup) ? 1 : A;

          Count const reduce = step.count("reduce");
          CHECK(reduce.collectives == R * num_trainable);
          CHECK(reduce.groups == R * packed(sizes(units, world, true), bucket));
          CHECK(reduce.operations ==
                std::set{stage == 0 ? Collective::all_reduce : Collective::reduce_scatter});
          CHECK(reduce.bytes_per_element == 2);

          Count const publish = step.count("publish");
          bool const publishes = stage == 1 || stage == 2;
          CHECK(publish.collectives == (publishes ? num_trainable : 0));
          CHECK(publish.groups ==
                (publishes ? packed(sizes(units, world, false), bucket) : Index{0}));
          if (publishes) CHECK(publish.operations == std::set{Collective::all_gather});

          Count const clip = step.count("clip");
          CHECK(clip.collectives == (stage == 0 ? 0 : 1));
          if (stage > 0) CHECK(clip.operations == std::set{Collective::all_gather});

          Count const gather = step.count("gather");
          CHECK((gather.collectives > 0) == (stage == 3));
          CHECK(static_cast<Index>(step.records().size()) ==
                reduce.collectives + publish.collectives + clip.collectives + gather.collectives);
          CHECK(step.groups() == reduce.groups + publish.groups + clip.groups + gather.groups);
        }
      }
    }
  }
}

TEST_CASE("without a bucket each residency is a group: its trainable and its frozen part") {
  zero::Units const units = wire::frozen_units();
  for (int prefetch = 0; prefetch <= 3; ++prefetch) {
    for (Index A : {1, 3}) {
      rig::Setup setup{.units = units, .stage = 3};
      setup.options.prefetch = prefetch;
      setup.options.accumulation = A;
      Recorded const step(setup, 2, A);
      zero::Schedule const schedule = rig::schedule_of(setup);
      Index collectives = 0;
      Index groups = 0;
      for (int visit : formula::gathering_visits(setup, 2)) {
        zero::Unit const& unit = units[zero::at(schedule[zero::at(visit)].unit)];
        int const parts =
            (formula::padded(unit, true, 2) > 0) + (formula::padded(unit, false, 2) > 0);
        collectives += parts;
        groups += parts > 0;
      }
      Count const gather = step.count("gather");
      CAPTURE(prefetch);
      CHECK(gather.collectives == A * collectives);
      CHECK(gather.groups == A * groups);
      CHECK(gather.operations == std::set{Collective::all_gather});
    }
  }
}

TEST_CASE("with a bucket gathers that run ahead go together") {
  zero::Units units;
  for (int u = 0; u < 20; ++u)
    units.push_back({"u" + std::to_string(u), {wire::tensor("w" + std::to_string(u), {128})}});
  // Forward visits 0 to 19; of the backward ones units 19 to 16 come back within eight visits and
  // are kept, so that 24 to 39 gather: 36 in all. Of any size: nine at once, 9 to 12, 13 to 16, 17
  // to 19, and four times four. Two at a time: ten pairs, then eight.
  struct Case {
    Index bucket, groups;
  };
  for (auto const [bucket, groups] :
       {Case{0, 36}, Case{64, 36}, Case{128, 36}, Case{255, 36}, Case{256, 18}, Case{1000000, 8}}) {
    rig::Setup setup{.units = units, .stage = 3};
    setup.options.prefetch = 8;
    setup.options.bucket = bucket;
    Count const gather = Recorded(setup, 2, 1).count("gather");
    CAPTURE(bucket);
    CHECK(gather.collectives == 36);
    CHECK(gather.groups == groups);
  }
}

namespace {

/// A group of gathers as Timeline says it.
struct Gathered {
  int visit;               ///< at which it is issued
  std::vector<int> first;  ///< visits at which its units are used
  std::vector<Index> sizes;
};

/// Those of one pass of the first `visits` visits of `sizes.size()` units.
std::vector<Gathered> gathered(std::vector<Index> const& sizes, Index world,
                               zero::Options const& options, int visits) {
  zero::Units units;
  for (std::size_t u = 0; u < sizes.size(); ++u) {
    std::string const name = "u" + std::to_string(u);
    units.push_back({name, {wire::tensor(name + ".w", {sizes[u]}, u % 3 != 1)}});
  }
  zero::Layout const layout(units, world);
  zero::Shares const shares(layout, zero::Facts{true, true, true, 4, 4, false, 2}, options);
  zero::Timeline const timeline(zero::default_schedule(static_cast<int>(sizes.size())), layout,
                                shares, options);
  std::vector<Gathered> result;
  int next = 0;
  for (int visit = 0; visit < visits; ++visit) {
    for (int end; (end = timeline.gather_group(visit, next, visits)) > next;) {
      Gathered& group = result.emplace_back(Gathered{visit, {}, {}});
      for (; next < end; ++next) {
        zero::Residency const& r = timeline.gathers()[zero::at(next)];
        group.first.push_back(r.first);
        group.sizes.push_back(layout.elements(r.unit));
      }
    }
  }
  int used = 0;  // all residencies of the pass, each once, in order
  for (zero::Residency const& r : timeline.gathers()) used += r.first < visits;
  CHECK(next == used);
  return result;
}

}  // namespace

TEST_CASE("gathers run up to prefetch visits ahead, and wait for a group as small as its lead") {
  std::vector<Index> const equal(20, 128);
  std::vector<Index> mixed;
  for (int u = 0; u < 20; ++u) mixed.push_back(128 * (1 + u * u % 4));
  for (auto const& sizes : {equal, mixed}) {
    for (Index world : {1, 2}) {
      for (int prefetch = 0; prefetch <= 9; ++prefetch) {
        for (Index bucket : {0, 64, 128, 255, 256, 512, 1000000}) {
          for (int visits : {1, 20, 40}) {
            zero::Options const options{.prefetch = prefetch, .bucket = bucket};
            bool const fits = world > 1 && bucket >= sizes[0] + sizes[1];  // of two neighbours
            bool grouped = false;
            bool late = false;
            for (Gathered const& g : gathered(sizes, world, options, visits)) {
              int const lead = g.first.front() - g.visit;
              CHECK(lead >= 0);
              CHECK(g.first.back() - g.visit <= prefetch);
              Index sum = 0;
              for (Index n : g.sizes) sum += n;
              CHECK((g.sizes.size() == 1 || sum <= bucket));
              CHECK((g.visit == 0 || g.sizes.size() == 1 || std::ssize(g.sizes) <= lead));
              grouped = grouped || g.sizes.size() > 1;
              late = late || (g.visit > 0 && lead < prefetch);
            }
            CAPTURE(prefetch);
            CAPTURE(bucket);
            if (!fits) CHECK_FALSE(grouped);
            if (!fits || prefetch < 3) CHECK_FALSE(late);  // none waits in vain
            if (fits && prefetch >= 3 && visits == 40) CHECK(grouped);
          }
        }
      }
    }
  }
}

TEST_CASE("units kept resident are published and never gathered") {
  zero::Units const units = wire::plain_units();
  rig::Setup setup{.units = units, .stage = 3};
  setup.options.persistence_threshold = 1000000;
  Recorded const all(setup, 2, 1);
  CHECK(all.count("gather").collectives == 0);
  CHECK(all.count("publish").collectives == 5);
  setup.options.persistence_threshold = formula::whole(units[4], 2);
  Recorded const small(setup, 2, 1);
  std::set<std::string> published;
  std::set<std::string> gathered;
  for (zero::CollectiveRecord const& r : small.records()) {
    if (r.phase == "publish") published.insert(r.unit);
    if (r.phase == "gather") gathered.insert(r.unit);
  }
  CHECK(published == std::set<std::string>{"a", "c", "d", "e"});
  CHECK(gathered == std::set<std::string>{"b"});
}

TEST_CASE("norm records are counted apart: 4 doubles a rank, at stages 1 to 3") {
  for (int stage = 0; stage <= 3; ++stage) {
    for (int world : {2, 4}) {
      rig::Setup const setup{.units = wire::plain_units(), .stage = stage};
      rig::Alone alone(setup, 0, world);
      for (Index step = 1; step <= 3; ++step) {
        alone.step(1);
        auto const clip = alone.log().totals("clip");
        Index const elements = stage == 0 ? 0 : 4 * (world - 1) * step;
        CHECK(clip.elements == elements);
        CHECK(clip.bytes == 8 * elements);
        CHECK(alone.log().wire_elements() == step * formula::step_elements(setup, world, 1));
      }
    }
  }
}

TEST_CASE("where the loss scale moves, stage 0 tells of losses: one element a rank") {
  for (int stage = 0; stage <= 3; ++stage) {
    for (int world : {1, 2, 4}) {
      rig::Setup setup{.units = wire::plain_units(), .stage = stage};
      setup.options.loss_scale = zero::LossScale::dynamic();
      rig::Alone alone(setup, 0, world);
      alone.step(1);
      auto const clip = alone.log().totals("clip");
      // An all_reduce counts 2 (N - 1) / N of its elements, here N.
      CHECK(clip.collectives == (world > 1 ? 1 : 0));
      CHECK(clip.elements == (world > 1 ? (stage == 0 ? 2 : 4) * (world - 1) : 0));
    }
  }
}

TEST_CASE("an evaluation gathers what its forward uses, and sends nothing else") {
  for (wire::Described const& model : wire::models()) {
    for (int stage = 0; stage <= 3; ++stage) {
      for (int prefetch : {0, 2}) {
        rig::Setup setup{.units = model.units, .schedule = model.schedule, .stage = stage};
        setup.options.prefetch = prefetch;
        CAPTURE(model.name);
        CAPTURE(setup);
        Recorded const evaluation(setup, 2, 1, true);
        Index elements = 0;
        for (zero::CollectiveRecord const& r : evaluation.records()) {
          CHECK(r.phase == "gather");
          elements += r.elements;
        }
        CHECK(elements == (stage == 3 ? formula::gathered(setup, 2, true) / 2 : 0));
      }
    }
  }
}

TEST_CASE("one rank sends nothing in its whole life") {
  for (int stage = 0; stage <= 3; ++stage) {
    rig::Setup setup{.units = wire::frozen_units(), .stage = stage};
    setup.options.accumulation = 2;
    rig::Alone alone(setup, 0, 1);
    alone.step(2);
    alone->evaluate({});
    alone->decision();
    alone->parameters_hash();
    CHECK(alone.log().totals().collectives == 0);
    CHECK(alone.log().groups() == 0);
  }
}

TEST_CASE("bytes are elements of the precision's types") {
  for (int stage = 0; stage <= 3; ++stage) {
    for (bool bf16 : {false, true}) {
      rig::Setup const setup{.units = wire::plain_units(), .stage = stage, .bf16 = bf16};
      rig::Alone alone(setup, 0, 4);
      alone.step(1);
      for (char const* phase : {"gather", "reduce", "publish"}) {
        auto const totals = alone.log().totals(phase);
        CHECK(totals.bytes == totals.elements * (bf16 ? 2 : 4));
      }
    }
  }
}

TEST_CASE("threads send what echoes send") {
  for (int stage = 0; stage <= 3; ++stage) {
    rig::Setup setup{.units = wire::frozen_units(), .stage = stage, .bf16 = true};
    setup.options.accumulation = 2;
    setup.options.bucket = 600;
    rig::Alone alone(setup, 0, 3);
    alone.step(2);
    auto const same = [&](zero::CollectiveLog const& log) {
      for (char const* phase : {"exchange", "gather", "reduce", "clip", "publish"}) {
        auto const a = alone.log().totals(phase);
        auto const b = log.totals(phase);
        if (a.collectives != b.collectives || a.elements != b.elements || a.bytes != b.bytes)
          return false;
      }
      return alone.log().groups() == log.groups();
    };
    std::atomic<int> equal = 0;
    zero::launch<zero::Threads>(3, [&](auto communicator) {
      zero::CollectiveLog log;
      auto const trainer = rig::make(setup, rig::Ranks(communicator), log);
      rig::Batch const batches[] = {{communicator.rank(), 0}, {communicator.rank(), 1}};
      trainer->step(batches);
      if (same(log)) ++equal;
    });
    CHECK(equal == 3);
  }
}
