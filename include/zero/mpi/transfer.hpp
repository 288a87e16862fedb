// SPDX-License-Identifier: Apache-2.0
#pragma once
// The bytes of a collective on their way: begun, and looked at until they have arrived. MPI counts
// in int, so what is larger goes in pieces.

#include <zero/core/rank_order_sum.hpp>
#include <zero/mpi/session.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

namespace zero::detail {

/// How much MPI is given at once.
struct MpiLimits {
  Index gather_bytes = Index{1} << 30;   ///< most bytes that one MPI call gathers into place
  Index tile_bytes = Index{1} << 20;     ///< most bytes from one rank in a piece that is summed
  Index staging_bytes = Index{8} << 20;  ///< about the bytes of the pieces from all ranks
};

/// all_gather: slices of equal size become one array, in rank order.
class GatherTransfer {
 public:
  GatherTransfer(MPI_Comm communicator, int rank, int size, MpiLimits const& limits)
      : communicator_(communicator), rank_(rank), size_(size), limits_(limits) {}

  /// @param bytes of a slice
  void begin(std::byte const* slice, std::byte* full, Index bytes) {
    slice_ = slice;
    full_ = full;
    bytes_ = bytes;
    direct_ = bytes * size_ <= limits_.gather_bytes;
    piece_ = direct_
                 ? bytes
                 : std::max<Index>(1, std::min(limits_.tile_bytes, limits_.staging_bytes / size_));
    if (!direct_) staging_.resize(at(piece_ * size_));
    done_ = 0;
    if (bytes_ > 0) post();
  }

  /// Whether all is there; `moved` becomes true when something has arrived.
  bool test(bool& moved) {
    while (done_ < bytes_) {
      int finished = 0;
      check_mpi(MPI_Test(&request_, &finished, MPI_STATUS_IGNORE), "MPI_Iallgather");
      if (finished == 0) return false;
      moved = true;
      Index const n = count();
      for (int q = 0; !direct_ && q < size_; ++q) {
        std::byte* const to = full_ + q * bytes_ + done_;
        if (to != slice_ + done_) std::memcpy(to, staging_.data() + q * n, at(n));
      }
      done_ += n;
      if (done_ < bytes_) post();
    }
    return true;
  }

 private:
  Index count() const { return std::min(piece_, bytes_ - done_); }
  void post() {
    int const n = static_cast<int>(count());
    bool const in_place = direct_ && slice_ == full_ + rank_ * bytes_;
    check_mpi(
        MPI_Iallgather(in_place ? MPI_IN_PLACE : slice_ + done_, n, MPI_BYTE,
                       direct_ ? full_ : staging_.data(), n, MPI_BYTE, communicator_, &request_),
        "MPI_Iallgather");
  }

  MPI_Comm communicator_;
  int rank_;
  int size_;
  MpiLimits limits_;
  std::byte const* slice_ = nullptr;
  std::byte* full_ = nullptr;
  Index bytes_ = 0;
  Index piece_ = 0;
  Index done_ = 0;
  bool direct_ = true;
  std::vector<std::byte> staging_;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

/// reduce_scatter: every rank sends each other rank that one's slice, in tiles; a tile is summed in
/// rank order while the next one is on its way.
class ReduceTransfer {
 public:
  ReduceTransfer(MPI_Comm communicator, int rank, int size, MpiLimits const& limits)
      : communicator_(communicator), rank_(rank), size_(size), limits_(limits) {}

  /// @tparam T element type
  /// @param slice may be this rank's own part of full
  /// @param n elements of a slice
  template <class T>
  void begin(T const* full, T* slice, Index n) {
    sum_ = [](ReduceTransfer& self, Index first, Index count, std::byte const* staged) {
      T* const to = reinterpret_cast<T*>(self.slice_) + first;
      auto const input = [&](int q) {
        if (q == self.rank_) {
          return reinterpret_cast<T const*>(self.full_) + self.rank_ * self.n_ + first;
        }
        return reinterpret_cast<T const*>(staged + self.place(q) * self.tile_ * self.width_);
      };
      rank_order_sum<T>(self.size_, count, input, [&](Index i, Index block, T const* values) {
        std::memcpy(static_cast<void*>(to + i), values, at(block) * sizeof(T));
      });
    };
    full_ = reinterpret_cast<std::byte const*>(full);
    slice_ = reinterpret_cast<std::byte*>(slice);
    n_ = n;
    width_ = Index{sizeof(T)};
    Index const tile_bytes = std::min(limits_.tile_bytes, limits_.staging_bytes / size_);
    tile_ = std::max<Index>(1, std::min(n, tile_bytes / width_));
    for (Tile& tile : tiles_) {
      tile.staged.resize(std::max(tile.staged.size(), at((size_ - 1) * tile_ * width_)));
      tile.requests.assign(at(Index{2} * (size_ - 1)), MPI_REQUEST_NULL);
    }
    posted_ = summed_ = 0;
    post();
  }

  /// Whether all is summed; `moved` becomes true when something has arrived.
  bool test(bool& moved) {
    while (summed_ < n_) {
      Tile& tile = tiles_[at(summed_ / tile_ % 2)];
      int finished = 0;
      check_mpi(MPI_Testall(static_cast<int>(tile.requests.size()), tile.requests.data(), &finished,
                            MPI_STATUSES_IGNORE),
                "MPI_Testall of gradients");
      if (finished == 0) return false;
      moved = true;
      post();
      Index const count = std::min(tile_, n_ - summed_);
      sum_(*this, summed_, count, tile.staged.data());
      summed_ += count;
    }
    return true;
  }

 private:
  struct Tile {
    std::vector<std::byte> staged;
    std::vector<MPI_Request> requests;
  };

  /// Where rank q's part of a tile is staged; this rank's own is not.
  Index place(int q) const { return q < rank_ ? q : q - 1; }

  /// Sends the next tile, where one is left; the tile before it is on its way or has arrived.
  void post() {
    if (posted_ >= n_) return;
    Tile& tile = tiles_[at(posted_ / tile_ % 2)];
    int const bytes = static_cast<int>(std::min(tile_, n_ - posted_) * width_);
    MPI_Request* request = tile.requests.data();
    // Each rank begins with its neighbour, so that not all send to one first.
    for (int k = 1; k < size_; ++k) {
      int const q = (rank_ + size_ - k) % size_;
      check_mpi(MPI_Irecv(tile.staged.data() + place(q) * tile_ * width_, bytes, MPI_BYTE, q, 0,
                          communicator_, request++),
                "MPI_Irecv of gradients");
    }
    for (int k = 1; k < size_; ++k) {
      int const q = (rank_ + k) % size_;
      check_mpi(MPI_Isend(full_ + (q * n_ + posted_) * width_, bytes, MPI_BYTE, q, 0, communicator_,
                          request++),
                "MPI_Isend of gradients");
    }
    posted_ += std::min(tile_, n_ - posted_);
  }

  MPI_Comm communicator_;
  int rank_;
  int size_;
  MpiLimits limits_;
  void (*sum_)(ReduceTransfer&, Index, Index, std::byte const*) = nullptr;
  std::byte const* full_ = nullptr;
  std::byte* slice_ = nullptr;
  Index n_ = 0;
  Index width_ = 1;
  Index tile_ = 1;
  Index posted_ = 0;
  Index summed_ = 0;
  Tile tiles_[2];
};

}  // namespace zero::detail
