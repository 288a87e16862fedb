// SPDX-License-Identifier: Apache-2.0
// The trainers of stage 2, compiled apart from the others to save time.

#include <gpt2/train.hpp>

template gpt2::Outcome gpt2::train<2>(Settings const&, Text const&, zero::Metrics*,
                                      zero::StopSignal const&);
