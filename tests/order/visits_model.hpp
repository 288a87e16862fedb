// SPDX-License-Identifier: Apache-2.0
#pragma once
// A model of two units whose loss is the sum of its weights, and that may visit a unit once more.

#include <zero/zero.hpp>

#include <chrono>
#include <exception>
#include <string>

namespace zero_test {

struct VisitsModel {
  using Batch = int;  ///< the unit that is visited once more before the first, or -1

  zero::Index elements = 100;

  zero::Units units() const {
    return {{"a", {{"a.w", {elements}, zero::Initial::normal(0.1)}}},
            {"b", {{"b.w", {elements}, zero::Initial::normal(0.1)}}}};
  }
  template <class Pass>
  double operator()(Pass& pass, Batch const& again) {
    if (again >= 0) {
      auto const first = pass.forward(0);
      auto const extra = pass.forward(again);
    }
    double loss = 0;
    for (int u : {again >= 0 ? 1 : 0, 1}) {
      auto const w = pass.forward(u);
      for (float x : w[0].span()) loss += x;
    }
    if constexpr (Pass::trains) {
      for (int u : {1, 0}) {
        auto const [w, g] = pass.backward(u);
        for (auto& x : g[0].span()) x += 1.0f;
      }
    }
    return loss;
  }
};

/// What f(communicator) throws under launch<Threads>, or "".
template <class F>
std::string failure_of(int ranks, F f) {
  try {
    zero::launch<zero::Threads>(ranks, f, {.timeout = std::chrono::milliseconds(2000)});
  } catch (std::exception const& e) {
    return e.what();
  }
  return "";
}

}  // namespace zero_test
