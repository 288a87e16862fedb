// SPDX-License-Identifier: Apache-2.0
#include <zero/tier/thread_transfers.hpp>

#include <tier/io_faults.hpp>

namespace tier_test {

std::shared_ptr<zero::Transfers> make_transfers(int requests, zero::Index block_bytes) {
  return std::make_shared<zero::ThreadTransfers>(requests, block_bytes);
}
std::shared_ptr<zero::Transfers> transfers_for(zero::OffloadOptions const&) { return nullptr; }

}  // namespace tier_test
