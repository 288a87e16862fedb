// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory that all ranks' GPUs reach under equal offsets (NCCL's symmetric windows), from which its
// gathers need no thread blocks.

#include <zero/cuda/nccl_world.hpp>

#include <memory>
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
    Piece piece;
    std::size_t const size = at(std::max(bytes, Index{1}));
    ncclResult_t const status = ncclMemAlloc(&piece.address, size);
    if (status != ncclSuccess)
      throw OutOfMemory(describe(status, nullptr, "ncclMemAlloc", std::source_location::current()));
    try {
      check(cudaMemset(piece.address, 0xff, size), "cudaMemset");
      check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
      piece.window = world_->open_window(piece.address, size);
      pieces_.push_back(piece);
    } catch (...) {
      ncclMemFree(piece.address);
      throw;
    }
    return static_cast<std::byte*>(piece.address);
  }
  void give(std::byte* address) noexcept override {
    for (Piece const& piece : pieces_) {
      if (piece.address != address) continue;
      world_->close_window(piece.window);
      ncclMemFree(piece.address);
    }
    std::erase_if(pieces_, [&](Piece const& piece) { return piece.address == address; });
  }

 private:
  struct Piece {
    void* address = nullptr;
    ncclWindow_t window = nullptr;
  };

  std::shared_ptr<NcclWorld> world_;
  int ordinal_;
  std::vector<Piece> pieces_;
};

}  // namespace zero::cuda::detail
