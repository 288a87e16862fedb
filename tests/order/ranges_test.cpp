// SPDX-License-Identifier: Apache-2.0
// What a profiler is told: on a device that brings ranges, phase and unit of what is enqueued, in
// order, by the table of phases in docs/architecture.md. A device without them compiles none.
#include <zero/zero.hpp>

#include <doctest/doctest.h>

#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

using zero::Index;

/// What the ranges of this thread, which is a rank, have said: "+name" opened, "-name" ended.
thread_local std::vector<std::string> said;

class Range {
 public:
  Range() = default;
  Range(std::string_view phase, std::string_view unit)
      : name_(std::string(phase) + (unit.empty() ? "" : " ") + std::string(unit)) {
    said.push_back("+" + name_);
  }
  Range(Range&& other) noexcept : name_(std::exchange(other.name_, {})) {}
  Range& operator=(Range&& other) noexcept {
    end();
    name_ = std::exchange(other.name_, {});
    return *this;
  }
  ~Range() { end(); }

 private:
  void end() {
    if (!name_.empty()) said.push_back("-" + name_);
    name_.clear();
  }
  std::string name_;
};

/// The host, with a profiler.
class Named : public zero::Host {
 public:
  using Range = ::Range;
  static Named with_threads(int) { return {}; }
};

static_assert(zero::NamesRanges<Named> && !zero::NamesRanges<zero::Host>);
static_assert(std::is_empty_v<zero::RangeOf<zero::Host>>);
static_assert(std::is_trivially_destructible_v<zero::OpenRanges<zero::Host>>);

/// Two units, visited once each way.
struct Pair {
  using Batch = int;
  bool own_buffers = false;

  zero::Units units() const {
    return {{"a", {{.name = "a.w", .shape = {70}}}}, {"b", {{.name = "b.w", .shape = {5}}}}};
  }
  template <class Pass>
  void operator()(Pass& pass, Batch const&) {
    for (int u : {0, 1}) auto const w = pass.forward(u);
    if constexpr (Pass::trains) {
      using G = typename Pass::Gradient;
      for (int u : {1, 0}) {
        if (own_buffers) {
          std::vector<G> own(u == 0 ? 70 : 5, G(0.5f));
          std::vector<zero::View<G const, typename Pass::Device>> const views{
              {own.data(), static_cast<Index>(own.size())}};
          auto const [w, g] = pass.backward(u, views);
        } else {
          auto const [w, g] = pass.backward(u);
          std::span<G> const gradient = g[0];
          gradient[0] = gradient[0] + G(0.5f);
        }
      }
    }
  }
};

/// What rank 0 of `ranks` says in one step.
template <class O, class... P>
std::string step(int ranks, O const& optimizer, zero::Options const& options, Pair const& pair,
                 P... policies) {
  std::string all;
  auto f = [&](auto communicator) {
    zero::Trainer trainer{pair, communicator, optimizer, options, policies...};
    said.clear();
    trainer.step(0);
    if (communicator.rank() != 0) return;
    for (std::string const& name : said) all += (all.empty() ? "" : " ") + name;
  };
  zero::launch<zero::ThreadsOn<Named>>(ranks, f, {}, zero::Environment({}));
  return all;
}

zero::AdamW const adamw{};
zero::Options const plain{.prefetch = 0, .bucket = 0};

}  // namespace

TEST_CASE("one rank names the model's visits, clip and updates, and sends nothing to name") {
  for (std::string const& names : {step(1, adamw, plain, {}, zero::Sharded<0>{}),
                                   step(1, adamw, plain, {}, zero::Sharded<3>{})}) {
    CHECK(names ==
          "+forward a -forward a +forward b -forward b "
          "+backward b -backward b +reduce b -reduce b "
          "+backward a -backward a +reduce a -reduce a "
          "+clip -clip +update a -update a +update b -update b");
  }
}

TEST_CASE("at stage 3 gathers come before visits, reductions behind them") {
  CHECK(step(2, adamw, plain, {}, zero::Sharded<3>{}) ==
        "+gather a -gather a +forward a -forward a +gather b -gather b +forward b -forward b "
        "+backward b -backward b +reduce b -reduce b "
        "+gather a -gather a +backward a -backward a +reduce a -reduce a "
        "+clip -clip +update a -update a +update b -update b");
}

TEST_CASE("at stages 1 and 2 updates are published, unit by unit or as a group") {
  std::string const visits =
      "+forward a -forward a +forward b -forward b "
      "+backward b -backward b +reduce b -reduce b "
      "+backward a -backward a +reduce a -reduce a "
      "+clip -clip +update a -update a +update b -update b ";
  std::string const apart = visits + "+publish a -publish a +publish b -publish b";
  CHECK(step(2, adamw, plain, {}, zero::Sharded<1>{}) == apart);
  CHECK(step(2, adamw, plain, {}, zero::Sharded<2>{}) == apart);
  zero::Options const together{.prefetch = 0, .bucket = 0, .publish_bucket = 1000};
  CHECK(step(2, adamw, together, {}, zero::Sharded<2>{}) ==
        visits + "+publish a +publish b -publish a -publish b");
  zero::Options const grouped{.prefetch = 0, .bucket = 1000};
  CHECK(step(2, adamw, grouped, {}, zero::Sharded<0>{}) ==
        "+forward a -forward a +forward b -forward b +backward b -backward b "
        "+backward a -backward a +reduce b +reduce a -reduce b -reduce a "
        "+clip -clip +update a -update a +update b -update b");
}

TEST_CASE("gradients of a model's own are named where they are brought into place") {
  CHECK(step(1, adamw, plain, {.own_buffers = true}, zero::Sharded<0>{}) ==
        "+forward a -forward a +forward b -forward b "
        "+backward b -backward b +flatten b -flatten b +reduce b -reduce b "
        "+backward a -backward a +flatten a -flatten a +reduce a -reduce a "
        "+clip -clip +update a -update a +update b -update b");
}

TEST_CASE("the norms of tensors are measured within the update") {
  std::string const names = step(1, zero::Lamb{}, plain, {}, zero::Sharded<1>{});
  CHECK(
      names.ends_with("+clip -clip +update tensor norms -update tensor norms "
                      "+update a -update a +update b -update b"));
}
