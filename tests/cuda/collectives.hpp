// SPDX-License-Identifier: Apache-2.0
#pragma once
// The collectives of a communicator against sums that are known.

#include <zero/comm/communicator.hpp>
#include <zero/core/error.hpp>

#include <support/device_memory.hpp>

#include <string>
#include <vector>

namespace zero_test {

using zero::Index;

inline void demand(bool good, std::string const& what) {
  if (!good) throw zero::Error("wrong: " + what);
}

/// Small integers: every type holds their sums, in whatever order they are made.
template <class T>
T value(int rank, Index i) {
  return static_cast<T>(static_cast<float>((rank * 7 + i * 3) % 11 - 5));
}

/// Gathers, reduces and adds numbers whose results are known, slices of `slice` elements.
/// @throws zero::Error saying which went wrong
template <class T, class C>
void check_collectives(C& communicator, Index slice) {
  auto stream = communicator.device().stream();
  int const world = communicator.size();
  Index const full = slice * world;
  std::vector<T> mine;
  std::vector<T> sums;
  std::vector<T> gathered;
  for (Index i = 0; i < full; ++i) {
    mine.push_back(value<T>(communicator.rank(), i));
    float sum = 0;
    for (int r = 0; r < world; ++r) sum += static_cast<float>(value<T>(r, i));
    sums.push_back(static_cast<T>(sum));
    gathered.push_back(value<T>(static_cast<int>(i / slice), i));
  }
  auto const begin = communicator.rank() * slice;
  auto const equal = [](std::vector<T> const& a, std::vector<T> const& b) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (static_cast<float>(a[i]) != static_cast<float>(b[i])) return false;
    }
    return a.size() == b.size();
  };
  std::string const size = " of " + std::to_string(slice) + " x " + std::to_string(sizeof(T));
  DeviceMemory<T, typename C::Device> memory(communicator.device(), stream, mine);
  auto const with_claim = [&](auto f) {
    auto claim = memory.claim(stream);
    f(claim);
  };
  zero::Where const where{"test", "unit", 1};
  with_claim(
      [&](auto& c) { communicator.all_gather(c.source(begin, slice), c.target(0, full), where); });
  demand(equal(memory.read(stream), gathered), "all_gather" + size);
  memory.write(stream, mine);
  with_claim([&](auto& c) {
    communicator.reduce_scatter(c.source(0, full), c.target(begin, slice), where);
    communicator.all_gather(c.source(begin, slice), c.target(0, full), where);
  });
  demand(equal(memory.read(stream), sums), "reduce_scatter" + size);
  memory.write(stream, mine);
  with_claim([&](auto& c) {
    zero::Group group(communicator);
    communicator.all_reduce(c.target(0, full), where);
    group.end();
  });
  demand(equal(memory.read(stream), sums), "all_reduce" + size);
}

}  // namespace zero_test
