// SPDX-License-Identifier: Apache-2.0
#pragma once
// What reads and writes the files of state on NVMe: io_uring where liburing was found and the
// kernel gives it, else threads.

#include <zero/tier/thread_transfers.hpp>
#if GPT2_URING
#include <zero/tier/uring.hpp>
#endif

#include <gpt2/flags.hpp>

#include <memory>

namespace gpt2 {

/// Gives the run's options what makes transfers, where there are files.
/// @throws zero::Error where --files-by demands what there is not
inline void take_transfers(Settings& s) {
  if (!s.has_files()) return;
  zero::OffloadOptions& o = s.configured ? s.configured->options.offload : s.offload;
#if GPT2_URING
  if (s.files_by == FilesBy::either) o.transfers = zero::uring_or_threads(o);
  if (s.files_by == FilesBy::io_uring)
    o.transfers = std::make_shared<zero::UringTransfers>(o.io_threads, o.io_block_bytes);
#else
  if (s.files_by == FilesBy::io_uring)
    throw WrongFlag("gpt2: --files-by io_uring needs liburing, which was not found");
#endif
  if (o.transfers == nullptr)
    o.transfers = std::make_shared<zero::ThreadTransfers>(o.io_threads, o.io_block_bytes);
}

/// What makes a run's transfers, in words; empty where it has no files.
inline std::string transfers_name(Settings const& s) {
  auto const& made = (s.configured ? s.configured->options.offload : s.offload).transfers;
  return made == nullptr ? std::string() : made->name();
}

}  // namespace gpt2
