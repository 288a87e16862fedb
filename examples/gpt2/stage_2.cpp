// SPDX-License-Identifier: Apache-2.0
// The trainers of stage 2 on the host, compiled apart from the others to save time.

#include <gpt2/on_host.hpp>

template gpt2::Outcome gpt2::train_on_host<2>(Settings const&, Corpus const&, zero::Metrics*,
                                              zero::StopSignal const&);
