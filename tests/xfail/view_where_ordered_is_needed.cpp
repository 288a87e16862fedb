// SPDX-License-Identifier: Apache-2.0
// expected-error: cannot convert 'zero::View<float, archetype::Device<float, float> >' to
// expected-error: 'zero::Ordered<float, archetype::Device<float, float> >'

#include <archetypes/communicator.hpp>

using Device = archetype::Device<float, float>;

// No collective without the event of what produced its input: only a claim on a slot makes an
// argument.
void reduce(archetype::Communicator<Device, archetype::AllReduces<Device, float>> communicator,
            zero::Slot<Device>& slot, Device::Stream& stream) {
#ifdef ZERO_XFAIL_PASS
  auto claim = slot.on<float>(stream);
  communicator.all_reduce(claim.target(0, 64), zero::Where{});
#else
  zero::View<float, Device> gradients = slot.on<float>(stream).view();
  communicator.all_reduce(gradients, zero::Where{});
#endif
}
