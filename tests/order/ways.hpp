// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ways in which a model's passes leave the order that its schedule declares, all of which every
// stage follows.

#include <support/runner.hpp>

#include <string>
#include <utility>
#include <vector>

namespace zero_test {

/// A model, and what its passes do with it.
struct Way {
  std::string name;
  ModelSpec model;
  Director direct;
  /// Ranks leave at different units.
  bool apart = false;
};

inline Script cut(Script script, std::size_t layers) {
  script.chain.resize(std::min(layers, script.chain.size()));
  return script;
}
inline Script without(Script script, std::size_t layer) {
  script.chain.erase(script.chain.begin() + static_cast<std::ptrdiff_t>(layer));
  return script;
}

/// A number that differs among steps, micro-batches and ranks without a pattern.
inline std::size_t draw(Batch const& b, std::size_t below, bool by_rank) {
  auto const key = static_cast<std::uint64_t>((b.step * 8 + b.micro) * 8 + (by_rank ? b.rank : 7));
  return static_cast<std::size_t>(zero::mix(key) % below);
}

/// Visits left out. Ranks may do so each by itself.
inline std::vector<Way> ways_to_skip() {
  std::vector<Way> ways;
  auto const add = [&](std::string name, ModelSpec model, bool apart, auto direct) {
    Script const script = in_order(model);
    ways.push_back({std::move(name), std::move(model),
                    [=](Batch const& b, bool trains) { return direct(script, b, trains); }, apart});
  };
  for (bool apart : {false, true}) {
    std::string const who = apart ? ", ranks apart" : ", ranks alike";
    add("early exit" + who, everything(), apart, [=](Script const& s, Batch const& b, bool) {
      return cut(s, 1 + draw(b, s.chain.size(), apart));
    });
    add("a layer left out" + who, everything(), apart, [=](Script const& s, Batch const& b, bool) {
      return without(s, draw(b, s.chain.size(), apart));
    });
    add("a layer left out between frozen ones" + who, frozen_parts(), apart,
        [=](Script const& s, Batch const& b, bool) {
          return without(s, draw(b, s.chain.size(), apart));
        });
    add("no backward in some passes" + who, tied(), apart,
        [=](Script s, Batch const& b, bool trains) {
          // The loss is counted, and nothing is learned from it.
          s.backwards = trains && draw(b, 2, apart) == 0 ? 0 : 1;
          return s;
        });
    add("nothing at all in some passes" + who, ragged_sizes(), apart,
        [=](Script s, Batch const& b, bool) { return draw(b, 2, apart) == 0 ? cut(s, 0) : s; });
  }
  {
    ModelSpec held = everything();
    held.schedule = there_and_back(held.chain, 2);
    held.name = "held over 2";
    add("early exit, leases held as declared", held, true, [](Script s, Batch const& b, bool) {
      s.held = 2;
      return cut(s, 1 + draw(b, s.chain.size(), true));
    });
  }
  {
    ModelSpec twice = ragged_sizes();
    twice.chain = {0, 1, 1, 2, 3};
    twice.schedule = there_and_back(twice.chain);
    twice.name = "a unit twice";
    add("declared twice, used once or twice", twice, true,
        [](Script const& s, Batch const& b, bool) {
          return draw(b, 2, true) == 0 ? without(s, 1 + draw(b, 2, true)) : s;
        });
  }
  return ways;
}

/// Visits beyond the schedule. All ranks make them alike.
inline std::vector<Way> ways_to_add() {
  std::vector<Way> ways;
  auto const add = [&](std::string name, ModelSpec model, auto change) {
    Script const script = in_order(model);
    ways.push_back({std::move(name), std::move(model), [=](Batch const& b, bool trains) {
                      Script changed = script;
                      change(changed, b, trains);
                      return changed;
                    }});
  };
  add("a unit used twice, undeclared", ragged_sizes(), [](Script& s, Batch const&, bool) {
    s.chain = {0, 1, 1, 2, 3};
  });
  add("units used again at the end, undeclared", everything(),
      [](Script& s, Batch const&, bool) { s.chain = {0, 1, 2, 3, 4, 5, 6, 0, 2, 4}; });
  add("units in another order", ragged_sizes(), [](Script& s, Batch const&, bool) {
    s.chain = {2, 0, 3, 1};
  });
  add("two forwards before the backward", everything(),
      [](Script& s, Batch const&, bool trains) { s.forwards = trains ? 2 : 1; });
  add("two backwards", everything(),
      [](Script& s, Batch const&, bool trains) { s.backwards = trains ? 2 : 1; });
  add("two forwards and two backwards, in some passes", tied(),
      [](Script& s, Batch const& b, bool trains) {
        s.forwards = s.backwards = trains && draw(b, 2, false) == 0 ? 2 : 1;
      });
  add("some layers' gradients once more, after all were reduced", everything(),
      [](Script& s, Batch const&, bool) {
        s.again = {0, 4, 4, 2};
      });
  add("forward again before each backward", everything(),
      [](Script& s, Batch const&, bool) { s.recomputes = true; });
  add("parameters asked for out of turn", frozen_parts(), [](Script& s, Batch const&, bool) {
    s.extra = {4, 0, 2, 0};
  });
  add("overwritten gradients, late ones too", tied(), [](Script& s, Batch const&, bool) {
    s.overwrites = true;
    s.again = {1, 0};
  });
  return ways;
}

/// Leases that stay open over further visits, which the schedule does not say. All ranks alike.
inline std::vector<Way> ways_to_hold() {
  std::vector<Way> ways;
  for (int held : {1, 2, 100}) {
    for (Ends ends : {Ends::together, Ends::parameters_first, Ends::gradients_first}) {
      for (ModelSpec const& model : {everything(), ragged_sizes()}) {
        Script script = in_order(model);
        script.held = held;
        script.ends = ends;
        ways.push_back({"held over " + std::to_string(held) + ", ends " +
                            std::to_string(static_cast<int>(ends)),
                        model, [script](Batch const&, bool) { return script; }});
      }
    }
    Script script = in_order(everything());
    script.held = held;
    script.again = {4, 0, 4};
    ways.push_back({"held over " + std::to_string(held) + ", and some layers once more",
                    everything(), [script](Batch const&, bool) { return script; }});
  }
  return ways;
}

inline Config of_way(Way const& way) {
  Config config;
  config.model = way.model;
  config.model.name += ", " + way.name;
  config.direct = way.direct;
  config.evaluates = true;
  config.apart = way.apart;
  return config;
}

}  // namespace zero_test
