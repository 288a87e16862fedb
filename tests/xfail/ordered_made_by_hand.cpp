// SPDX-License-Identifier: Apache-2.0
// expected-error: is private within this context

#include <archetypes/communicator.hpp>

using Device = archetype::Device<float, float>;

zero::Ordered<float, Device> order(zero::Claim<float, Device>& claim, Device::Stream& stream) {
#ifdef ZERO_XFAIL_PASS
  (void)stream;
  return claim.target(0, 64);
#else
  return zero::Ordered<float, Device>(claim.view(), stream);
#endif
}
