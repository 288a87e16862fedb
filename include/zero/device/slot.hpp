// SPDX-License-Identifier: Apache-2.0
#pragma once
// Bytes that several streams use in turn. A slot knows the event of the last work on its bytes and
// gives them out only as a claim, so that no work can be enqueued on them without waiting for what
// produced them: the order belongs to the bytes, not to the places in the code that use them.

#include <zero/device/device.hpp>

#include <type_traits>
#include <utility>

namespace zero {

template <Device D>
class Slot;
template <class T, Device D>
class Claim;

/// A view and the stream on which everything earlier has been awaited. Only a Claim makes one;
/// collectives take nothing else.
template <class T, Device D>
class Ordered {
 public:
  View<T, D> view() const { return view_; }                ///< the elements
  typename D::Stream& stream() const { return *stream_; }  ///< on which they were awaited

 private:
  friend class Claim<std::remove_const_t<T>, D>;
  Ordered(View<T, D> view, typename D::Stream& stream) : view_(view), stream_(&stream) {}

  View<T, D> view_;
  typename D::Stream* stream_;
};

/// One stream's use of a slot, as elements of type T. Made, it has enqueued a wait for the slot's
/// last work; ended, it records itself as the slot's last work. Movable; ending never throws.
template <class T, Device D>
class Claim {
 public:
  Claim() = default;
  /// Takes over the use; the other claims nothing.
  Claim(Claim&& other) noexcept
      : slot_(std::exchange(other.slot_, nullptr)), stream_(other.stream_), view_(other.view_) {}
  /// Ends this use and takes over the other.
  Claim& operator=(Claim&& other) noexcept {
    end();
    slot_ = std::exchange(other.slot_, nullptr);
    stream_ = other.stream_;
    view_ = other.view_;
    return *this;
  }
  ~Claim() { end(); }

  /// Gives the bytes back: whoever claims them next waits for the work enqueued so far.
  void end() noexcept {
    if (Slot<D>* slot = std::exchange(slot_, nullptr)) slot->release(*stream_);
  }

  View<T, D> view() const { return view_; }  ///< all elements
  /// [begin, begin + count).
  View<T, D> view(Index begin, Index count) const { return view_.sub(begin, count); }
  /// What a collective reads.
  Ordered<T const, D> source(Index begin, Index count) const {
    return {View<T const, D>(view_.sub(begin, count)), *stream_};
  }
  /// What a collective writes.
  Ordered<T, D> target(Index begin, Index count) const {
    return {view_.sub(begin, count), *stream_};
  }

 private:
  friend class Slot<D>;
  Claim(Slot<D>& slot, typename D::Stream& stream, View<T, D> view)
      : slot_(&slot), stream_(&stream), view_(view) {}

  Slot<D>* slot_ = nullptr;
  typename D::Stream* stream_ = nullptr;
  View<T, D> view_;
};

/// Bytes, not owned, and the event of the last work on them. Used from one host thread. Must not
/// move while claimed.
template <Device D>
class Slot {
 public:
  Slot() = default;
  /// @param address first byte, in device memory, which outlives this
  /// @param bytes of the slot
  /// @param event of this slot alone
  Slot(std::byte* address, Index bytes, typename D::Event event)
      : address_(address), bytes_(bytes), last_(std::move(event)) {}

  /// Claims all bytes for work on `stream`, as elements of type T.
  /// @throws Error when work on another stream still claims them
  template <class T>
  Claim<T, D> on(typename D::Stream& stream) {
    if (claims_ > 0 && user_ != &stream)
      throw Error("a slot was claimed on one stream while another still uses it");
    stream.wait(last_);
    user_ = &stream;
    ++claims_;
    return {*this, stream, View<T, D>(reinterpret_cast<T*>(address_), bytes_ / Index{sizeof(T)})};
  }

  Index bytes() const { return bytes_; }        ///< of the slot
  bool claimed() const { return claims_ > 0; }  ///< a claim of it has not ended

 private:
  template <class, Device>
  friend class Claim;
  void release(typename D::Stream& stream) noexcept {
    stream.record(last_);
    --claims_;
  }

  std::byte* address_ = nullptr;
  Index bytes_ = 0;
  typename D::Event last_;
  typename D::Stream* user_ = nullptr;
  int claims_ = 0;
};

}  // namespace zero
