// SPDX-License-Identifier: Apache-2.0
#pragma once
// A few words from every rank to every rank, outside the step, by the collectives that the stage
// needs anyway: so a communicator owes nothing more for it.

#include <zero/comm/communicator.hpp>
#include <zero/step/memory_plan.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace zero {

/// Every rank's words, in rank order: [world, words.size()]. Waits.
/// Communication: where the optimizer is sharded, one all_gather of 2 doubles a word; else one
/// all_reduce of a zeroed row with one entry a rank, 8 gradient elements a word, each a byte, which
/// every type holds exactly.
/// @tparam P a Policies<...>
/// @param communicator,stream that carry the collective
/// @param rows a slot of the size that MemoryPlan gives it
/// @param words,where at most max_exchanged_words, as many on every rank; what they are for
/// @throws InvalidArgument for more words; CommunicationError
template <class P, Communicator C>
std::vector<std::uint64_t> exchange_words(C& communicator, Slot<typename C::Device>& rows,
                                          typename C::Device::Stream& stream,
                                          std::span<std::uint64_t const> words, Where where) {
  constexpr bool gathers = P::Sharding::shards_optimizer;
  constexpr Index bits = gathers ? 32 : 8;
  using T = std::conditional_t<gathers, double, typename P::Precision::Gradient>;
  using Value = std::conditional_t<gathers, double, float>;
  if (words.size() > max_exchanged_words)
    throw InvalidArgument("exchange: at most 16 words, not " + std::to_string(words.size()));
  Index const width = static_cast<Index>(words.size()) * (64 / bits);
  Index const full = communicator.size() * width;
  Index const own = communicator.rank() * width;
  auto const shift = [](Index i) { return static_cast<int>(i * bits % 64); };
  std::vector<T> host(at(full), T(0.0f));
  for (Index i = 0; i < width; ++i) {
    std::uint64_t const part = (words[at(i * bits / 64)] >> shift(i)) & ((1ull << bits) - 1);
    host[at(own + i)] = T(static_cast<Value>(part));
  }
  auto claim = rows.template on<T>(stream);
  copy_in(stream, claim.view(0, full), host.data());
  if constexpr (gathers) {
    communicator.all_gather(claim.source(own, width), claim.target(0, full), where);
  } else {
    communicator.all_reduce(claim.target(0, full), where);
  }
  stream.synchronize();
  copy_out(stream, host.data(), View<T const, typename C::Device>(claim.view(0, full)));
  claim.end();
  stream.synchronize();
  std::vector<std::uint64_t> all(at(full * bits / 64), 0);
  for (Index i = 0; i < full; ++i)
    all[at(i * bits / 64)] |= static_cast<std::uint64_t>(static_cast<Value>(host[at(i)]))
                              << shift(i);
  return all;
}

}  // namespace zero
