// SPDX-License-Identifier: Apache-2.0
#pragma once
// A ledger against a plan, kind by kind.

#include <zero/core/ledger.hpp>
#include <zero/step/memory_plan.hpp>

#include <map>
#include <ostream>
#include <string>

namespace memory {

using zero::Index;

/// Bytes by kind of buffer; kinds of no bytes are left out.
using Bytes = std::map<std::string, Index>;

inline Bytes planned(zero::MemoryPlan const& plan) {
  Bytes bytes;
  for (zero::PlannedBuffer const* buffer : plan.buffers()) {
    if (buffer->bytes > 0) bytes[std::string(buffer->kind)] += buffer->bytes;
  }
  return bytes;
}

/// The most bytes of each kind that there were at once.
inline Bytes peak(zero::Ledger const& ledger) {
  Bytes bytes;
  for (zero::Ledger::Kind const& kind : ledger.kinds()) bytes[kind.name] = kind.peak_bytes;
  return bytes;
}

inline std::string text(Bytes const& bytes) {
  std::string s;
  for (auto const& [kind, n] : bytes) s += kind + " " + std::to_string(n) + "; ";
  return s;
}

}  // namespace memory
