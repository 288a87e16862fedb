// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory that all ranks' GPUs reach under equal offsets (NCCL's symmetric windows), from which its
// gathers need no thread blocks.

#include <zero/cuda/nccl_world.hpp>

#include <memory>
#include <string_view>
#include <vector>

namespace zero::cuda::detail {

/// Memory of one GPU, each piece a window of channel 1. Taking is collective, with equal sizes in
/// one order; giving back is not.
class NcclWindows final : public MemorySource {
 public:
  /// @param world of this rank, whose channel 1 gathers by copy engines
  /// @param ordinal of its GPU
  NcclWindows(std::shared_ptr<NcclWorld> world, int ordinal)
      : world_(std::move(world)), ordinal_(ordinal) {}

  std::byte* take(Index bytes) override {
    activate(ordinal_);
    pieces_.reserve(pieces_.size() + 1);
    Piece piece;
    std::size_t const size = at(std::max(bytes, Index{1}));
    ncclResult_t const status = ncclMemAlloc(&piece.address, size);
    if (status != ncclSuccess) refuse(status);
    try {
      check(cudaMemset(piece.address, 0xff, size), "cudaMemset");
      check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
      piece.window = world_->open_window(piece.address, size);
    } catch (...) {
      world_->keep(ncclMemFree(piece.address), "ncclMemFree");
      throw;
    }
    pieces_.push_back(piece);
    return static_cast<std::byte*>(piece.address);
  }
  void give(std::byte* address) noexcept override {
    for (Piece const& piece : pieces_) {
      if (piece.address != address) continue;
      world_->close_window(piece.window);
      world_->keep(ncclMemFree(piece.address), "ncclMemFree");
    }
    std::erase_if(pieces_, [&](Piece const& piece) { return piece.address == address; });
  }

 private:
  struct Piece {
    void* address = nullptr;
    ncclWindow_t window = nullptr;
  };

  /// NCCL has no status for memory that is refused: it hands on CUDA's words for error 2.
  [[noreturn]] static void refuse(ncclResult_t status) {
    char const* const last = ncclGetLastError(nullptr);
    std::string_view const words = last == nullptr ? "" : last;
    std::string const text =
        describe(status, nullptr, "ncclMemAlloc", std::source_location::current());
    if (status == ncclUnhandledCudaError && words.find("out of memory") != words.npos)
      throw OutOfMemory(text);
    throw NcclFailure(text);
  }

  std::shared_ptr<NcclWorld> world_;
  int ordinal_;
  std::vector<Piece> pieces_;
};

}  // namespace zero::cuda::detail
