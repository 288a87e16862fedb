// SPDX-License-Identifier: Apache-2.0
// expected-error: Trainer: the communicator needs Device, rank(), size(), device(), channel(i) and
// expected-error: abort(text) noexcept

#include <archetypes/trainer.hpp>

using Device = archetype::Device<float, float>;

struct Ranks : archetype::AllReduces<Device, float> {
  using Device = ::Device;
  int rank() const;
  int size() const;
  Device& device() const;
  Ranks channel(int i) const;
#ifdef ZERO_XFAIL_PASS
  void abort(std::string_view text) const noexcept;
#endif
};

using Trainer = archetype::Deduced<archetype::Model, Ranks, archetype::Optimizer>;
