// SPDX-License-Identifier: Apache-2.0
#pragma once
// Elements in the memory of any device, written and read by a test.

#include <zero/device/host_elementwise.hpp>
#include <zero/device/slot.hpp>

#include <vector>

namespace zero_test {

/// A buffer of one slot. Writing and reading wait.
/// @tparam T element type; @tparam D device
template <class T, zero::Device D>
class DeviceMemory {
 public:
  DeviceMemory(D& device, zero::Index n, std::string_view kind = "test")
      : n_(n),
        buffer_(device.allocate(n * zero::Index{sizeof(T)}, kind)),
        slot_(buffer_.address(), n * zero::Index{sizeof(T)}, device.event()) {}
  DeviceMemory(D& device, typename D::Stream& stream, std::vector<T> const& values)
      : DeviceMemory(device, static_cast<zero::Index>(values.size())) {
    write(stream, values);
  }

  zero::Index size() const { return n_; }
  zero::Slot<D>& slot() { return slot_; }
  zero::Claim<T, D> claim(typename D::Stream& stream) { return slot_.template on<T>(stream); }
  /// All elements, without order: for tests that know what they do.
  zero::View<T, D> view() const { return {reinterpret_cast<T*>(buffer_.address()), n_}; }

  void write(typename D::Stream& stream, std::vector<T> const& values) {
    auto claimed = claim(stream);
    copy_in(stream, claimed.view(), values.data());
    claimed.end();
    stream.synchronize();
  }
  std::vector<T> read(typename D::Stream& stream) {
    std::vector<T> values(zero::at(n_));
    auto claimed = claim(stream);
    copy_out(stream, values.data(), zero::View<T const, D>(claimed.view()));
    claimed.end();
    stream.synchronize();
    return values;
  }

 private:
  zero::Index n_;
  typename D::Buffer buffer_;
  zero::Slot<D> slot_;
};

}  // namespace zero_test
