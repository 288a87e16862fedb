// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ranges of NVTX, in the domain "zero": "forward h.3". Profilers show what the host enqueues within
// them, and what of it the GPU runs. Where no profiler listens, none is opened.

#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>

namespace zero::cuda {

/// Owner of one range of NVTX, as zero::NamesRanges wants it. It belongs to the process, not to a
/// thread, so that it may overlap others; see nvtxDomainRangeStartEx.
class Range {
 public:
  Range() = default;
  /// Opens "phase unit", or "phase" where the unit is empty; names are cut at 127 bytes.
  Range(std::string_view phase, std::string_view unit) noexcept {
    if (domain() == nullptr) return;
    std::array<char, 128> text{};
    std::size_t size = append(text, 0, phase);
    if (!unit.empty()) size = append(text, append(text, size, " "), unit);
    nvtxEventAttributes_t attributes{};
    attributes.version = NVTX_VERSION;
    attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
    attributes.message.ascii = text.data();
    id_ = nvtxDomainRangeStartEx(domain(), &attributes);
    open_ = true;
  }
  /// Takes over the range; the other is none.
  Range(Range&& other) noexcept
      : id_(std::exchange(other.id_, 0)), open_(std::exchange(other.open_, false)) {}
  /// Ends this range and takes over the other.
  Range& operator=(Range&& other) noexcept {
    if (this == &other) return *this;
    end();
    id_ = std::exchange(other.id_, 0);
    open_ = std::exchange(other.open_, false);
    return *this;
  }
  ~Range() { end(); }

 private:
  /// Null where no profiler listens, which is so from the start or not at all.
  static nvtxDomainHandle_t domain() noexcept {
    static nvtxDomainHandle_t const handle = nvtxDomainCreateA("zero");
    return handle;
  }
  /// @return where the text ends, before its last byte, which stays 0
  static std::size_t append(std::array<char, 128>& text, std::size_t size,
                            std::string_view more) noexcept {
    std::size_t const count = std::min(more.size(), text.size() - 1 - size);
    std::memcpy(text.data() + size, more.data(), count);
    return size + count;
  }
  void end() noexcept {
    if (open_) nvtxDomainRangeEnd(domain(), id_);
    open_ = false;
  }

  nvtxRangeId_t id_ = 0;
  bool open_ = false;
};

}  // namespace zero::cuda
