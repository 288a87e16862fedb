// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a trainer may be told of state that does not lie on the device. Which state that is, and
// where it lies, are facts of Offload<OptimizerTier, ParameterTier>.

#include <zero/core/hash.hpp>
#include <zero/core/size.hpp>

#include <bit>
#include <memory>
#include <string>

namespace zero {

/// Whether host memory is locked, so that no page of it is moved or swapped out.
enum class MemoryLock {
  none,      ///< it is not
  attempt,   ///< where the system allows it; the ledger of locked bytes says what was
  required,  ///< what cannot be locked is an error
};

class Transfers;  // tier/transfers.hpp

/// Run-time options of the tiers OnHost and OnNvme. What hash() adds is the same on every rank and
/// compared before step 1; folder, locks, limits and requests are each rank's own.
struct OffloadOptions {
  std::string nvme_path{};  ///< OnNvme: a folder of this machine, which exists
  Index tile_elements = 0;  ///< that are updated at once; 0: as TierPlan::tile_elements says
  double ratio = 1;         ///< share of optimizer state that is offloaded
  MemoryLock pin_memory = MemoryLock::none;  ///< of all host memory of the tiers
  int buffer_count = 4;                      ///< OnNvme: tiles in host memory at once, at least 3
  Index max_in_cpu_elements = 0;  ///< OnNvme: parameters a rank that host memory keeps nevertheless
  Index host_limit_bytes = 0;     ///< most host memory of a rank; 0: what is there
  Index io_block_bytes = Index{1} << 20;   ///< of one request, a multiple of 4096
  int io_threads = 4;                      ///< requests under way at once
  std::shared_ptr<Transfers> transfers{};  ///< what makes them; null: threads

  /// Of tile_elements, ratio, buffer_count and max_in_cpu_elements, which ranks compare.
  std::uint64_t hash() const {
    return Hash()
        .add(tile_elements)
        .add(std::bit_cast<std::uint64_t>(ratio))
        .add(Index{buffer_count})
        .add(max_in_cpu_elements)
        .value();
  }
};

}  // namespace zero
