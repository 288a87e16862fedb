// SPDX-License-Identifier: Apache-2.0
// The trainers of stage 2 with optimizer state in the tier nvme, compiled apart from the others.

#include <gpt2/on_host.hpp>

template gpt2::Outcome gpt2::train_offloaded<2, zero::Tier::nvme>(Settings const&, Corpus const&,
                                                                  zero::Metrics*,
                                                                  zero::StopSignal const&);
