// SPDX-License-Identifier: Apache-2.0
#include <zero/policy/options.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>

namespace {

using zero::Options;

/// What validate says; empty: nothing.
std::string refusal(Options const& options) {
  try {
    zero::validate(options);
  } catch (zero::InvalidArgument const& e) {
    return e.what();
  }
  return {};
}

template <class Change>
std::string refused(Change change) {
  Options options;
  change(options);
  return refusal(options);
}

bool says(std::string const& text, char const* part) { return text.find(part) != text.npos; }

constexpr float infinity = std::numeric_limits<float>::infinity();

}  // namespace

TEST_CASE("options as they are by default can be met") {
  CHECK(refusal(Options{}).empty());
  Options const o;
  CHECK(o.accumulation == 1);
  CHECK(o.clip == 0);
  CHECK(!o.reduction);
  CHECK(o.prefetch == 1);
  CHECK(o.bucket == 0);
  CHECK(o.persistence_threshold == 0);
  CHECK(o.release_after_forward);
}

TEST_CASE("an option that cannot be met is named, with what was found and what was expected") {
  auto const accumulation = refused([](Options& o) { o.accumulation = 0; });
  CHECK(accumulation == "Options::accumulation: found 0; expected at least 1 micro-batch");
  auto const negative = refused([](Options& o) { o.accumulation = -3; });
  CHECK(says(negative, "Options::accumulation: found -3"));
  auto const clip = refused([](Options& o) { o.clip = -1; });
  CHECK(clip == "Options::clip: found -1; expected a finite norm, or 0 for none");
  // What six digits behind the point would show as 0.
  auto const small = refused([](Options& o) { o.clip = -0x1p-30f; });
  CHECK(says(small, "Options::clip: found -9.313225746154785e-10; expected"));
  auto const prefetch = refused([](Options& o) { o.prefetch = -1; });
  CHECK(prefetch == "Options::prefetch: found -1; expected 0 to 64 visits");
  auto const far = refused([](Options& o) { o.prefetch = 65; });
  CHECK(says(far, "Options::prefetch: found 65"));
  auto const bucket = refused([](Options& o) { o.bucket = -1; });
  CHECK(bucket == "Options::bucket: found -1; expected a number of elements, or 0");
  auto const publish = refused([](Options& o) { o.publish_bucket = -4; });
  CHECK(publish == "Options::publish_bucket: found -4; expected a number of elements, or 0");
  auto const threshold = refused([](Options& o) { o.persistence_threshold = -2; });
  CHECK(says(threshold, "Options::persistence_threshold: found -2"));
}

TEST_CASE("options that were made for another world are refused") {
  Options const o{.world = 3};
  CHECK_NOTHROW(zero::validate(o));
  CHECK_NOTHROW(zero::validate(o, 3));
  CHECK_THROWS_WITH_AS(zero::validate(o, 2),
                       "Options::world: found 3; expected the communicator's 2 ranks",
                       zero::InvalidArgument);
}

TEST_CASE("a clip that is no number is refused") {
  CHECK(says(refused([](Options& o) { o.clip = NAN; }), "Options::clip"));
  CHECK(says(refused([](Options& o) { o.clip = infinity; }), "Options::clip"));
  CHECK(says(refused([](Options& o) { o.clip = -infinity; }), "Options::clip"));
}

TEST_CASE("the ends of what can be met are met") {
  CHECK(refused([](Options& o) { o.prefetch = 0; }).empty());
  CHECK(refused([](Options& o) { o.prefetch = 64; }).empty());
  CHECK(refused([](Options& o) { o.clip = std::numeric_limits<float>::denorm_min(); }).empty());
  CHECK(refused([](Options& o) { o.clip = std::numeric_limits<float>::max(); }).empty());
  CHECK(refused([](Options& o) { o.bucket = std::numeric_limits<zero::Index>::max(); }).empty());
}
