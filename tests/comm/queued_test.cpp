// SPDX-License-Identifier: Apache-2.0
// What is queued needs nobody else: it holds what it runs with.

#include <zero/comm/threads.hpp>

#include <doctest/doctest.h>
#include <support/device_memory.hpp>
#include <support/late_device.hpp>

#include <chrono>
#include <memory>
#include <vector>

namespace {

using zero::Where;
using zero_test::DeviceMemory;
using zero_test::LateDevice;

TEST_CASE("a queued collective holds its meeting, though nobody else does") {
  LateDevice device;
  auto stream = device.stream();
  DeviceMemory<float, LateDevice> memory(device, stream, std::vector<float>{1, 2, 3});
  std::weak_ptr<zero::Meeting> meeting;
  {
    auto const made = std::make_shared<zero::Meeting>(1, std::chrono::seconds(10));
    meeting = made;
    zero::ThreadCommunicator<LateDevice> communicator(made, 0, device);
    auto claim = memory.claim(stream);
    communicator.all_reduce(claim.target(0, 3), Where{"reduce", "u", 0});
  }
  CHECK(!meeting.expired());
  CHECK(memory.read(stream) == std::vector<float>{1, 2, 3});
  CHECK(meeting.expired());
}

}  // namespace
