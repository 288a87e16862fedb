// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory as it is planned, as it is allocated, and as it is needed besides: a buffer described by
// the slots it is cut into, the allocation of that, and slots made when a plan was left.

#include <zero/device/slot.hpp>

#include <memory>
#include <string_view>
#include <vector>

namespace zero {

/// One allocation, cut into slots that start at multiples of 256 bytes.
struct PlannedBuffer {
  /// One slot of a buffer.
  struct Slot {
    Index offset_bytes = 0;  ///< from the buffer's start
    Index bytes = 0;         ///< that may be used
  };
  std::string_view kind;      ///< name in the ledger and in messages
  std::vector<Slot> slots{};  ///< in order of address
  Index bytes = 0;            ///< in all, padding included

  /// Appends a slot; the next one starts at a multiple of 256 bytes.
  void add(Index slot_bytes) {
    slots.push_back({bytes, slot_bytes});
    bytes += round_up(slot_bytes, 256);
  }
};

/// A planned buffer and its slots. Allocates once, when made; a buffer of no bytes is not
/// allocated.
template <Device D>
class SlotArray {
 public:
  /// Allocates the plan's bytes.
  /// @throws OutOfMemory
  SlotArray(D& device, PlannedBuffer const& plan)
      : SlotArray(device, plan, [&device](Index bytes, std::string_view kind) {
          return device.allocate(bytes, kind);
        }) {}
  /// The same, of memory that allocate(bytes, kind) brings. Throws as that.
  template <class F>
  SlotArray(D& device, PlannedBuffer const& plan, F allocate) {
    if (plan.bytes > 0) buffer_ = allocate(plan.bytes, plan.kind);
    std::byte* const base = plan.bytes > 0 ? buffer_.address() : nullptr;
    slots_.reserve(plan.slots.size());
    for (PlannedBuffer::Slot const& s : plan.slots)
      slots_.emplace_back(base + s.offset_bytes, s.bytes, device.event());
  }
  Slot<D>& operator[](Index i) { return slots_[at(i)]; }            ///< slot i of the plan
  Index size() const { return static_cast<Index>(slots_.size()); }  ///< slots

 private:
  typename D::Buffer buffer_{};
  std::vector<Slot<D>> slots_;
};

/// Slots beyond the plan, made when a pass leaves the order and kept for the next time. Counted,
/// under "extra slots".
template <Device D>
class ExtraSlots {
 public:
  /// @param device that slots are allocated on; outlives this
  explicit ExtraSlots(D& device) : device_(&device) {}

  /// A slot of at least `bytes` bytes that nobody uses.
  Slot<D>& take(Index bytes) {
    for (auto const& extra : all_) {
      if (extra->busy || extra->slot.bytes() < bytes) continue;
      extra->busy = true;
      return extra->slot;
    }
    auto extra = std::make_unique<Extra>();
    extra->buffer = device_->allocate(bytes, "extra slots");
    extra->slot = Slot<D>(extra->buffer.address(), bytes, device_->event());
    extra->busy = true;
    all_.push_back(std::move(extra));
    return all_.back()->slot;
  }
  /// Keeps a slot for the next take.
  void give(Slot<D>& slot) noexcept {
    for (auto const& extra : all_) {
      if (&extra->slot == &slot) extra->busy = false;
    }
  }
  /// Slots that were ever needed at once.
  Index made() const { return static_cast<Index>(all_.size()); }

 private:
  struct Extra {
    typename D::Buffer buffer{};
    Slot<D> slot{};
    bool busy = false;
  };
  D* device_;
  std::vector<std::unique_ptr<Extra>> all_;
};

}  // namespace zero
