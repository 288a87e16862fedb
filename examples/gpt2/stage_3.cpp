// SPDX-License-Identifier: Apache-2.0
// The trainers of stage 3, compiled apart from the others to save time.

#include <gpt2/train.hpp>

template gpt2::Outcome gpt2::train<3>(Settings const&, Text const&, zero::Metrics*,
                                      zero::StopSignal const&);
