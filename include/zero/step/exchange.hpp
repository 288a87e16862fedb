// SPDX-License-Identifier: Apache-2.0
#pragma once
// A few words from every rank to every rank, outside the step, by the collectives that the stage
// needs anyway: so a communicator owes nothing more for it.

#include <zero/comm/communicator.hpp>
#include <zero/step/memory_plan.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace zero {

/// Every rank's words, in rank order: [world, words.size()]. Waits.
/// Communication: where the optimizer is sharded, one all_gather of 2 doubles a word; else one
/// all_reduce of a zeroed row with one entry a rank, 8 gradient elements a word, each a byte, which
/// every type holds exactly.
/// @tparam P a Policies<...>
/// @param rows a slot of the size that MemoryPlan gives it
template <class P, Communicator C>
std::vector<std::uint64_t> exchange_words(C& communicator, Slot<typename C::Device>& rows,
                                          typename C::Device::Stream& stream,
                                          std::span<std::uint64_t const> words, Where where) {
  using D = typename C::Device;
  Index const count = static_cast<Index>(words.size());
  if (count > max_exchanged_words)
    throw InvalidArgument("exchange: at most 16 words, not " + std::to_string(count));
  Index const world = communicator.size();
  Index const rank = communicator.rank();
  std::vector<std::uint64_t> all(at(world * count), 0);
  if constexpr (P::Sharding::shards_optimizer) {
    Index const width = 2 * count;
    std::vector<double> host(at(world * width), 0.0);
    for (Index i = 0; i < count; ++i) {
      host[at(2 * i)] = static_cast<double>(words[at(i)] >> 32);
      host[at(2 * i + 1)] = static_cast<double>(words[at(i)] & 0xffffffffu);
    }
    auto claim = rows.template on<double>(stream);
    copy_in(stream, claim.view(rank * width, width), host.data());
    communicator.all_gather(claim.source(rank * width, width), claim.target(0, world * width),
                            where);
    stream.synchronize();
    copy_out(stream, host.data(), View<double const, D>(claim.view(0, world * width)));
    claim.end();
    stream.synchronize();
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i] = (static_cast<std::uint64_t>(host[2 * i]) << 32) |
               static_cast<std::uint64_t>(host[2 * i + 1]);
    }
  } else {
    using G = typename P::Precision::Gradient;
    Index const width = 8 * count;
    std::vector<G> host(at(world * width), G(0.0f));
    for (Index i = 0; i < width; ++i) {
      host[at(rank * width + i)] =
          G(static_cast<float>((words[at(i / 8)] >> (8 * (i % 8))) & 0xffu));
    }
    auto claim = rows.template on<G>(stream);
    copy_in(stream, claim.view(0, world * width), host.data());
    communicator.all_reduce(claim.target(0, world * width), where);
    stream.synchronize();
    copy_out(stream, host.data(), View<G const, D>(claim.view(0, world * width)));
    claim.end();
    stream.synchronize();
    for (std::size_t i = 0; i < host.size(); ++i) {
      all[i / 8] |= static_cast<std::uint64_t>(static_cast<float>(host[i])) << (8 * (i % 8));
    }
  }
  return all;
}

}  // namespace zero
