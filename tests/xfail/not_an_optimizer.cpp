// SPDX-License-Identifier: Apache-2.0
// expected-error: Trainer: the optimizer needs num_states, learning_rate(t), constants(t) and
// expected-error: direction(constants, weight, gradient, states, decay), and must be trivially
// expected-error: copyable

#include <archetypes/trainer.hpp>

struct Descent {
  struct Constants {};
  static constexpr int num_states = 0;
  float learning_rate(zero::Index update) const;
  Constants constants(zero::Index update) const;
#ifdef ZERO_XFAIL_PASS
  float direction(Constants, float weight, float gradient, float* states, float decay) const;
#else
  float direction(float weight, float gradient) const;
#endif
};

using Trainer = archetype::Deduced<archetype::Model, archetype::Complete<zero::Fp32>, Descent,
                                   zero::Sharded<3>>;
