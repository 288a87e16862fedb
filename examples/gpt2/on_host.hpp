// SPDX-License-Identifier: Apache-2.0
#pragma once
// A run on the host: its ranks, and the model of each.

#include <gpt2/backend.hpp>
#include <gpt2/model.hpp>
#include <gpt2/settings.hpp>

namespace gpt2 {

/// Where a run computes: how it becomes ranks, and what model a rank trains at a precision.
struct OnHost {
  using Backend = gpt2::Backend;
  template <class Precision>
  using Model = Gpt2;

  template <class Precision, class Device>
  static Gpt2 model(Device&, Settings const& settings) {
    return Gpt2(settings.size);
  }
};

}  // namespace gpt2
