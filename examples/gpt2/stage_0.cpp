// SPDX-License-Identifier: Apache-2.0
// The trainers of stage 0, compiled apart from the others to save time.

#include <gpt2/train.hpp>

template gpt2::Outcome gpt2::train<0>(Settings const&, Text const&, zero::Metrics*,
                                      zero::StopSignal const&);
