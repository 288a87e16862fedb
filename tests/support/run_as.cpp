// SPDX-License-Identifier: Apache-2.0
// Compiled once a device and stage; runner.cmake defines the two macros.
#include <support/guarded_device.hpp>
#include <support/late_device.hpp>
#include <support/run_as.hpp>

namespace zero_test {

using zero::Host;

template void run_as<ZERO_TEST_DEVICE, ZERO_TEST_STAGE>(Config const&, Result&);

}  // namespace zero_test
