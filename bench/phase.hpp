// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the benches of single phases share: a model that computes nothing, the parts that it is
// made into on each rank, and a copy of as many bytes as a ceiling.

#include <zero/zero.hpp>

#include <bench/harness.hpp>

#include <cstring>
#include <string>
#include <vector>

namespace bench {

/// `count` units of one tensor of `elements` elements.
struct EqualUnits {
  using Batch = int;
  Index count;
  Index elements;

  /// "8 units of 1048576"
  std::string text() const {
    return std::to_string(count) + " units of " + std::to_string(elements);
  }
  zero::Units units() const {
    zero::Units all;
    for (Index u = 0; u < count; ++u) {
      std::string const name = "unit." + std::to_string(u);
      all.push_back({name, {{name + ".weight", {elements}}}});
    }
    return all;
  }
};

/// What a trainer is made of, for a phase to be run alone.
/// @tparam C the communicator; @tparam P Policies<...>
template <class C, class P>
struct Parts {
  using Context = zero::Context<C, P>;

  Parts(EqualUnits const& model, C const& communicator, zero::Options const& options)
      : context(zero::describe(model), communicator, zero::Facts::of<P>(zero::AdamW::num_states),
                options),
        parameters(context),
        gradients(context),
        state(context, zero::AdamW{}) {}

  /// Every unit forward and, where there are gradients, backward, which the model leaves as they
  /// are: 0 with Fill::add.
  template <class Pass>
  void visit(Pass& pass, zero::Fill fill = zero::Fill::overwrite) {
    int const n = context.layout.size();
    for (int u = 0; u < n; ++u) auto const lease = pass.forward(u);
    if constexpr (Pass::trains) {
      for (int u = n; u-- > 0;) auto const lease = pass.backward(u, fill);
    }
    pass.end();
  }
  void synchronize() {
    context.gathering.synchronize();
    context.reducing.synchronize();
    context.compute.synchronize();
  }

  Context context;
  zero::Parameters<Context> parameters;
  zero::Gradients<Context> gradients;
  zero::OptimizerState<Context, zero::AdamW> state;
};

/// Adds a phase for units of one size and, as its ceiling, each rank's copy of memory that moves as
/// many bytes as the phase reads and writes.
class Phase {
 public:
  /// Reads the flags that all these benches have.
  Phase(int argc, char** argv, std::string const& name, std::string about)
      : harness_(argc, argv, name, std::move(about)),
        ranks_(static_cast<int>(harness_.number("ranks", 2, "ranks", 2))),
        large_{harness_.number("units", 8, "units, of the large ones"),
               harness_.number("elements", 1 << 20, "elements of a large unit")},
        small_{harness_.number("small-units", 256, "units, of the small ones"), 1024} {}

  /// @param name of what is done
  /// @param moved (elements of all units, ranks) -> bytes that one rank reads and writes
  /// @param sends times all elements x (ranks - 1) / ranks, which a rank sends
  /// @param iteration (parts) performs the phase once
  template <class Sharding, class Moved, class Iteration>
  void add(std::string const& name, Sharding, Index sends, Moved moved, Iteration iteration,
           zero::Options const& options = {}) {
    for (EqualUnits const& units : {large_, small_}) {
      Index const bytes = moved(units.count * units.elements, Index{ranks_});
      std::string const copy = "copy, " + std::to_string(bytes) + " bytes moved";
      if (std::find(copies_.begin(), copies_.end(), copy) == copies_.end()) {
        copies_.push_back(copy);
        harness_.add({.name = copy, .ranks = ranks_}, [bytes](auto, Measure measure) {
          std::vector<std::byte> const from(zero::at(bytes / 2), std::byte{1});
          std::vector<std::byte> to(from.size());
          measure([&] {
            std::memcpy(to.data(), from.data(), from.size());
            // The compiler is not to see that nobody reads the copy.
            asm volatile("" : : "r"(to.data()) : "memory");
          });
        });
      }
      harness_.add({.name = name + ", " + units.text(), .ranks = ranks_, .against = copy},
                   [=](auto communicator, Measure measure) {
                     using P = zero::Policies<Sharding, zero::Bf16Mixed>;
                     Parts<decltype(communicator), P> parts(units, communicator, options);
                     {  // a step has begun, and its gradients are there
                       zero::Pass pass{parts.parameters, parts.gradients, zero::MicroBatch{0, 1}};
                       parts.visit(pass, zero::Fill::add);
                     }
                     measure([&] {
                       iteration(parts);
                       parts.synchronize();
                     });
                     measure.fact("moved_bytes", bytes);
                     Index const ranks = communicator.size();
                     measure.fact("wire_elements",
                                  sends * parts.context.layout.trainable() / ranks * (ranks - 1));
                   });
    }
  }

  int run() { return harness_.run(); }

 private:
  Harness harness_;
  int ranks_;
  EqualUnits large_;
  EqualUnits small_;
  std::vector<std::string> copies_;
};

}  // namespace bench
