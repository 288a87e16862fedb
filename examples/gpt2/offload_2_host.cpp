// SPDX-License-Identifier: Apache-2.0
// The trainers of stage 2 with optimizer state in the tier host, compiled apart from the others.

#include <gpt2/train.hpp>

template gpt2::Outcome gpt2::train_offloaded<2, zero::Tier::host>(gpt2::Settings const&,
                                                                  gpt2::Text const&, zero::Metrics*,
                                                                  zero::StopSignal const&);
