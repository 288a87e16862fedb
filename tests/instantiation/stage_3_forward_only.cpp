// SPDX-License-Identifier: Apache-2.0
// A pass without a backward gathers and never reduces: the reduction is not compiled.
//
// symbols-required: U archetype::AllGathers<.*, zero::bf16>::all_gather[(]
// symbols-forbidden: ::(reduce_scatter|all_reduce)[(<]
// symbols-forbidden: zero::Reduce<.*>::(open|close|flush|begin|skip)[(]

#include <archetypes/trainer.hpp>

namespace archetype {

using Precision = zero::Bf16Mixed;

void evaluate(Model& model, Complete<Precision> communicator, Optimizer optimizer,
              Batch const& batch) {
  zero::Context context{model,           communicator,       optimizer,
                        zero::Options{}, zero::Sharded<3>{}, Precision{}};
  zero::Parameters parameters{context};
  zero::Pass pass{parameters};
  model(pass, batch);
  pass.end();
}

}  // namespace archetype
