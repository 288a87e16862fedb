// SPDX-License-Identifier: Apache-2.0
// What every device promises of its memory.

#include <doctest/doctest.h>
#include <support/device_memory.hpp>
#include <support/guarded_device.hpp>
#include <support/late_device.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace {

using zero::Host;
using zero::Index;
using zero_test::DeviceMemory;
using zero_test::GuardedDevice;
using zero_test::LateDevice;

TEST_CASE_TEMPLATE("a buffer's address is a multiple of 256", D, Host, LateDevice, GuardedDevice) {
  D device;
  std::vector<typename D::Buffer> kept;
  for (Index bytes : {1, 2, 63, 64, 255, 256, 257, 4095, 4096, 4097, 100000}) {
    kept.push_back(device.allocate(bytes, "test"));
    CHECK(reinterpret_cast<std::uintptr_t>(kept.back().address()) % 256 == 0);
  }
}

TEST_CASE_TEMPLATE("buffers do not overlap", D, Host, LateDevice, GuardedDevice) {
  D device;
  std::vector<Index> const sizes = {1, 256, 4096, 5000, 64, 100000, 3};
  std::vector<typename D::Buffer> kept;
  std::vector<std::pair<std::uintptr_t, std::uintptr_t>> ranges;
  for (Index bytes : sizes) {
    kept.push_back(device.allocate(bytes, "test"));
    auto const begin = reinterpret_cast<std::uintptr_t>(kept.back().address());
    ranges.emplace_back(begin, begin + static_cast<std::uintptr_t>(bytes));
  }
  std::sort(ranges.begin(), ranges.end());
  for (std::size_t i = 1; i < ranges.size(); ++i) CHECK(ranges[i - 1].second <= ranges[i].first);
}

TEST_CASE_TEMPLATE("memory that was not written reads as NaN in every type", D, Host, LateDevice,
                   GuardedDevice) {
  D device;
  auto stream = device.stream();
  DeviceMemory<std::uint8_t, D> bytes(device, 1000);
  for (std::uint8_t byte : bytes.read(stream)) CHECK(byte == 0xff);
  for (float x : DeviceMemory<float, D>(device, 64).read(stream)) CHECK(std::isnan(x));
  for (double x : DeviceMemory<double, D>(device, 64).read(stream)) CHECK(std::isnan(x));
  for (zero::bf16 x : DeviceMemory<zero::bf16, D>(device, 64).read(stream))
    CHECK(std::isnan(static_cast<float>(x)));
  for (zero::fp16 x : DeviceMemory<zero::fp16, D>(device, 64).read(stream))
    CHECK(std::isnan(static_cast<float>(x)));
}

TEST_CASE_TEMPLATE("what is written is read back, to the last byte of a buffer", D, Host,
                   LateDevice, GuardedDevice) {
  D device;
  auto stream = device.stream();
  for (Index n : {1, 255, 256, 257, 4096, 10001}) {
    std::vector<std::uint8_t> values(zero::at(n));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint8_t>(i * 7);
    DeviceMemory<std::uint8_t, D> buffer(device, stream, values);
    CHECK(buffer.read(stream) == values);
  }
}

TEST_CASE_TEMPLATE("the ledger counts bytes, peaks and allocations, in all and by kind", D, Host,
                   LateDevice, GuardedDevice) {
  D device;
  zero::Ledger& ledger = device.ledger();
  CHECK(ledger.bytes() == 0);
  {
    auto const a = device.allocate(1000, "a");
    auto const b = device.allocate(24, "b");
    {
      auto const more = device.allocate(500, "a");
      CHECK(ledger.bytes() == 1524);
    }
    CHECK(ledger.bytes() == 1024);
    auto const least = device.allocate(100, "a");
    CHECK(ledger.bytes() == 1124);
  }
  CHECK(ledger.bytes() == 0);
  CHECK(ledger.peak_bytes() == 1524);
  CHECK(ledger.allocations() == 4);
  auto const kinds = ledger.kinds();
  REQUIRE(kinds.size() == 2);
  CHECK(kinds[0].name == "a");
  CHECK(kinds[0].bytes == 0);
  CHECK(kinds[0].peak_bytes == 1500);
  CHECK(kinds[1].name == "b");
  CHECK(kinds[1].peak_bytes == 24);
}

TEST_CASE_TEMPLATE("a buffer that is moved is given back once", D, Host, LateDevice,
                   GuardedDevice) {
  D device;
  {
    auto a = device.allocate(1000, "a");
    auto* const address = a.address();
    auto b = std::move(a);
    CHECK(b.address() == address);
    CHECK(device.ledger().bytes() == 1000);
    typename D::Buffer c;
    CHECK(c.address() == nullptr);
    c = std::move(b);
    CHECK(c.address() == address);
    c = device.allocate(10, "b");
    CHECK(device.ledger().bytes() == 10);
  }
  CHECK(device.ledger().bytes() == 0);
  for (auto const& kind : device.ledger().kinds()) CHECK(kind.bytes == 0);
}

TEST_CASE_TEMPLATE("an allocation beyond the limit is refused with both sizes, and nothing stays",
                   D, Host, LateDevice, GuardedDevice) {
  D device;
  device.ledger().limit_bytes(1000);
  auto const a = device.allocate(600, "parameters");
  std::string text;
  try {
    auto const b = device.allocate(401, "gather slots");
  } catch (zero::OutOfMemory const& e) {
    text = e.what();
  }
  for (auto const* part : {"401", "gather slots", "1000", "600"})
    CHECK_MESSAGE(text.find(part) != std::string::npos, text);
  CHECK(device.ledger().bytes() == 600);
  CHECK(device.ledger().peak_bytes() == 600);
  CHECK(device.ledger().allocations() == 1);
  CHECK(device.ledger().kinds().size() == 1);
  auto const fits = device.allocate(400, "gather slots");
  CHECK(device.ledger().bytes() == 1000);
}

TEST_CASE_TEMPLATE("a size below zero is refused, and nothing is counted", D, Host, LateDevice,
                   GuardedDevice) {
  D device;
  CHECK_THROWS_AS(device.ledger().take("test", -1), zero::InvalidArgument);
  CHECK(device.ledger().bytes() == 0);
  CHECK(device.ledger().allocations() == 0);
}

TEST_CASE_TEMPLATE("a size that no sum can hold is beyond any limit", D, Host, LateDevice,
                   GuardedDevice) {
  D device;
  device.ledger().limit_bytes(1000);
  auto const a = device.allocate(600, "test");
  Index const most = std::numeric_limits<Index>::max();
  CHECK_THROWS_AS(device.ledger().take("test", most), zero::OutOfMemory);
  CHECK(device.ledger().bytes() == 600);
}

TEST_CASE_TEMPLATE("devices keep ledgers of their own", D, Host, LateDevice, GuardedDevice) {
  D one;
  D other;
  auto const a = one.allocate(100, "a");
  CHECK(one.ledger().bytes() == 100);
  CHECK(other.ledger().bytes() == 0);
}

TEST_CASE_TEMPLATE("a buffer may outlive its device", D, Host, LateDevice, GuardedDevice) {
  typename D::Buffer buffer;
  {
    D device;
    buffer = device.allocate(100, "a");
  }
  CHECK(buffer.address() != nullptr);
}

}  // namespace
