// SPDX-License-Identifier: Apache-2.0
#pragma once
// A view of elements in a device's memory: a number and a count. Only where the host can read that
// memory does it turn into something that can be dereferenced.

#include <zero/core/size.hpp>

#include <concepts>
#include <span>
#include <type_traits>

namespace zero {

/// `size()` elements of type T in the memory of a device D, not owned. Copying one costs two words.
/// @tparam T element type, const where the elements may only be read
/// @tparam D the device whose memory it is; D::host_memory says whether the host may dereference it
template <class T, class D>
class View {
 public:
  using Element = T;  ///< const where it may only be read

  View() = default;
  /// Elements [address, address + size), in the device's memory.
  View(T* address, Index size) : address_(address), size_(size) {}
  /// A view to write through is a view to read through.
  template <class U>
  requires(std::same_as<T, U const>)
      View(View<U, D> other)  // NOLINT(google-explicit-constructor): as T const* from T*
      : address_(other.address()), size_(other.size()) {}

  /// Elements.
  Index size() const { return size_; }
  /// Where the elements lie; dereferencing it is the device's business.
  T* address() const { return address_; }
  /// Elements [begin, begin + count) of this view.
  View sub(Index begin, Index count) const { return {address_ + begin, count}; }
  /// The elements themselves, on devices whose memory the host may read.
  std::span<T> span() const requires(D::host_memory) { return {address_, at(size_)}; }
  /// The same, wherever a span is asked for.
  // NOLINTNEXTLINE(google-explicit-constructor): a view is a span where it can be one
  operator std::span<T>() const requires(D::host_memory) { return span(); }

 private:
  T* address_ = nullptr;
  Index size_ = 0;
};

}  // namespace zero
