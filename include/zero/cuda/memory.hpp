// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory of one GPU, from one stream-ordered pool, and pinned memory of the host; both counted
// exactly.

#include <zero/core/ledger.hpp>
#include <zero/cuda/status.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

namespace zero::cuda {

/// Makes a GPU the one that the calling thread's CUDA calls mean.
inline void activate(int ordinal) { check(cudaSetDevice(ordinal), "cudaSetDevice"); }

/// Where memory of a GPU comes from.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  /// Filled with 0xff; waits until it is there. @throws OutOfMemory, Failure
  virtual std::byte* take(Index bytes) = 0;
  /// All work on the memory is done.
  virtual void give(std::byte* address) noexcept = 0;
};

/// The pool of one device object and the ledgers of what it has given out. Shared by the buffers,
/// which keep it alive. What is given back stays in the pool until the pool goes.
class Pool : public MemorySource {
 public:
  /// @param ordinal of the GPU
  explicit Pool(int ordinal) : ordinal_(ordinal) {
    activate(ordinal);
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.location.id = ordinal;
    check(cudaMemPoolCreate(&pool_, &properties), "cudaMemPoolCreate");
    std::uint64_t keep = ~std::uint64_t{0};
    cudaError_t status = cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep);
    if (status == cudaSuccess) status = cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking);
    if (status != cudaSuccess) {
      ignore(cudaMemPoolDestroy(pool_));
      check(status, "cudaStreamCreateWithFlags");
    }
  }
  Pool(Pool const&) = delete;
  Pool& operator=(Pool const&) = delete;
  ~Pool() override {
    ignore(cudaStreamSynchronize(stream_));
    ignore(cudaStreamDestroy(stream_));
    ignore(cudaMemPoolDestroy(pool_));
  }

  int ordinal() const { return ordinal_; }            ///< of the GPU, as CUDA counts them
  cudaMemPool_t native() const { return pool_; }      ///< stays this object's
  Ledger& ledger() { return ledger_; }                ///< bytes of GPU memory given out
  Ledger& pinned_ledger() { return pinned_ledger_; }  ///< bytes of pinned host memory given out

  /// Waits until the memory is there. Filled with 0xff: NaN as float, bf16, fp16 and double, so
  /// that a value read before it was written is seen.
  /// @throws OutOfMemory
  std::byte* take(Index bytes) override {
    activate(ordinal_);
    void* address = nullptr;
    std::size_t const size = at(std::max(bytes, Index{1}));
    check(cudaMallocFromPoolAsync(&address, size, pool_, stream_), "cudaMallocFromPoolAsync");
    cudaError_t status = cudaMemsetAsync(address, 0xff, size, stream_);
    if (status == cudaSuccess) status = cudaStreamSynchronize(stream_);
    if (status != cudaSuccess) ignore(cudaFreeAsync(address, stream_));
    check(status, "cudaMemsetAsync");
    return static_cast<std::byte*>(address);
  }
  /// All work on the memory is done.
  void give(std::byte* address) noexcept override { ignore(cudaFreeAsync(address, stream_)); }

  /// Lets kernels on another GPU of this process use all memory of this pool.
  /// @throws Failure where the GPUs cannot reach each other
  void share_with(int other) {
    if (other == ordinal_) return;
    cudaMemAccessDesc access{};
    access.location.type = cudaMemLocationTypeDevice;
    access.location.id = other;
    access.flags = cudaMemAccessFlagsProtReadWrite;
    check(cudaMemPoolSetAccess(pool_, &access, 1), "cudaMemPoolSetAccess");
  }

 private:
  int ordinal_;
  cudaMemPool_t pool_ = nullptr;
  cudaStream_t stream_ = nullptr;
  Ledger ledger_;
  Ledger pinned_ledger_;
};

/// Owner of GPU memory that is entered in its device's ledger. Work on it is done when it ends.
class Buffer {
 public:
  Buffer() = default;
  /// @throws OutOfMemory when the ledger's limit or the GPU forbids it: names the kind and the
  /// bytes
  Buffer(Index bytes, std::string_view kind, std::shared_ptr<Pool> pool)
      : Buffer(bytes, kind, pool, pool) {}
  /// The same, of memory from another source; it is entered in the pool's ledger.
  Buffer(Index bytes, std::string_view kind, std::shared_ptr<Pool> pool,
         std::shared_ptr<MemorySource> source)
      : pool_(std::move(pool)), source_(std::move(source)), kind_(kind), bytes_(bytes) {
    pool_->ledger().take(kind_, bytes_);
    try {
      address_ = source_->take(bytes_);
    } catch (OutOfMemory const& e) {
      pool_->ledger().give(kind_, bytes_);
      throw OutOfMemory("device memory: GPU " + std::to_string(pool_->ordinal()) + " has no " +
                        std::to_string(bytes_) + " bytes for " + kind_ + ": " + e.what());
    } catch (...) {
      pool_->ledger().give(kind_, bytes_);
      throw;
    }
  }
  /// Takes over the memory; the other owns none.
  Buffer(Buffer&& other) noexcept
      : pool_(std::move(other.pool_)),
        source_(std::move(other.source_)),
        kind_(std::move(other.kind_)),
        bytes_(other.bytes_),
        address_(std::exchange(other.address_, nullptr)) {}
  /// Exchanges the memory of the two.
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(source_, other.source_);
    std::swap(kind_, other.kind_);
    std::swap(bytes_, other.bytes_);
    std::swap(address_, other.address_);
    return *this;
  }
  ~Buffer() {
    if (address_ == nullptr) return;
    source_->give(address_);
    pool_->ledger().give(kind_, bytes_);
  }

  /// GPU memory, 256-byte aligned; null where it owns none.
  std::byte* address() const { return address_; }

 private:
  std::shared_ptr<Pool> pool_;
  std::shared_ptr<MemorySource> source_;
  std::string kind_;
  Index bytes_ = 0;
  std::byte* address_ = nullptr;
};

/// Owner of host memory that the GPU reads and writes directly: whole pages, registered at exactly
/// the bytes asked for, where an allocator of pinned memory may round up to a power of two.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  /// @throws OutOfMemory when the ledger's limit or the system forbids it
  PinnedBuffer(Index bytes, std::string_view kind, std::shared_ptr<Pool> pool)
      : pool_(std::move(pool)), kind_(kind), bytes_(bytes) {
    pool_->pinned_ledger().take(kind_, bytes_);
    activate(pool_->ordinal());
    void* const address = std::aligned_alloc(4096, at(round_up(bytes + 1, 4096)));
    cudaError_t status = cudaErrorMemoryAllocation;
    if (address != nullptr) {
      status =
          bytes == 0 ? cudaSuccess : cudaHostRegister(address, at(bytes), cudaHostRegisterPortable);
    }
    if (status != cudaSuccess) {
      std::free(address);
      pool_->pinned_ledger().give(kind_, bytes_);
      ignore(status);
      throw OutOfMemory("pinned memory: the system has no " + std::to_string(bytes) +
                        " bytes for " + kind_ + ": " + cudaGetErrorString(status));
    }
    address_ = static_cast<std::byte*>(address);
  }
  /// Takes over the memory; the other owns none.
  PinnedBuffer(PinnedBuffer&& other) noexcept
      : pool_(std::move(other.pool_)),
        kind_(std::move(other.kind_)),
        bytes_(other.bytes_),
        address_(std::exchange(other.address_, nullptr)) {}
  /// Exchanges the memory of the two.
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(kind_, other.kind_);
    std::swap(bytes_, other.bytes_);
    std::swap(address_, other.address_);
    return *this;
  }
  ~PinnedBuffer() {
    if (address_ == nullptr) return;
    if (bytes_ > 0) ignore(cudaHostUnregister(address_));
    std::free(address_);
    pool_->pinned_ledger().give(kind_, bytes_);
  }

  /// Host memory, 4096-byte aligned; null where it owns none.
  std::byte* address() const { return address_; }

 private:
  std::shared_ptr<Pool> pool_;
  std::string kind_;
  Index bytes_ = 0;
  std::byte* address_ = nullptr;
};

}  // namespace zero::cuda
