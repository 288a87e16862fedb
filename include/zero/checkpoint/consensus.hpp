// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ranks that do a piece of work together, or none of them: what fails on one is thrown on all, with
// its rank's name, and the trainer goes on as before. By the exchange that every stage has.

#include <zero/checkpoint/files.hpp>
#include <zero/step/context.hpp>

#include <xxhash.h>

#include <cstring>
#include <exception>
#include <functional>

namespace zero::detail {

/// What work() threw, as a text; empty where it did not.
template <class F>
std::string failure_of(F const& work) {
  try {
    work();
  } catch (CommunicationError const&) {
    throw;  // there is nobody left to tell
  } catch (std::exception const& e) {
    return *e.what() == '\0' ? "an exception without a text" : e.what();
  }
  return {};
}

/// Every rank's words, which may be of different number, in rank order. Waits.
/// @param exchange (words of this rank) -> those of all ranks, of equal number
/// @param guarded (f): a failure in f ends the work of all
template <class Exchange, class Guarded>
std::vector<std::vector<std::uint64_t>> gather_words(Exchange exchange, Guarded guarded, int world,
                                                     std::span<std::uint64_t const> mine) {
  constexpr std::size_t most = max_exchanged_words - 1;
  std::vector<std::vector<std::uint64_t>> all(at(world));
  guarded([&] {
    std::uint64_t const size = mine.size();
    std::vector<std::uint64_t> const sizes = exchange(std::span(&size, 1));
    std::size_t const longest = *std::ranges::max_element(sizes);
    std::vector<std::uint64_t> row(most);
    for (std::size_t begin = 0; begin < longest; begin += most) {
      row.resize(std::min(most, longest - begin));
      for (std::size_t i = 0; i < row.size(); ++i)
        row[i] = begin + i < mine.size() ? mine[begin + i] : 0;
      std::vector<std::uint64_t> const rows = exchange(row);
      for (std::size_t r = 0; r < all.size(); ++r) {
        auto const from = rows.begin() + static_cast<Index>(r * row.size());
        all[r].insert(all[r].end(), from, from + static_cast<Index>(row.size()));
      }
    }
    for (std::size_t r = 0; r < all.size(); ++r) all[r].resize(sizes[r]);
  });
  return all;
}

/// The ranks of a trainer, of whatever type it is.
class Ranks {
 public:
  using Words = std::span<std::uint64_t const>;
  using AllWords = std::vector<std::vector<std::uint64_t>>;

  /// @param gather (words of this rank) -> those of all, in rank order
  Ranks(int rank, int world, std::function<AllWords(Words)> gather)
      : rank_(rank), world_(world), gather_(std::move(gather)) {}

  int rank() const { return rank_; }
  int world() const { return world_; }

  /// Every rank's words, which may be of different number, in rank order. Waits.
  AllWords words(Words mine) const { return gather_(mine); }
  /// Every rank's text, in rank order.
  std::vector<std::string> texts(std::string_view mine) const {
    std::vector<std::uint64_t> row(1 + (mine.size() + 7) / 8);
    row[0] = mine.size();
    if (!mine.empty()) std::memcpy(row.data() + 1, mine.data(), mine.size());
    std::vector<std::string> result;
    for (std::vector<std::uint64_t> const& words : gather_(row))
      result.emplace_back(reinterpret_cast<char const*>(words.data() + 1), words[0]);
    return result;
  }
  /// @throws E on every rank, with the text of the first one that has failed
  template <class E = CheckpointError>
  void require_all(std::string const& failure) const {
    std::vector<std::string> const all = texts(failure);
    for (std::size_t r = 0; r < all.size(); ++r) {
      if (!all[r].empty())
        throw E(world_ == 1 ? all[r] : "rank " + std::to_string(r) + ": " + all[r]);
    }
  }
  /// @param text that all ranks must have alike
  /// @param what differs where they do not: "different checkpoints in 'runs'"
  void require_same(std::string_view text, std::string const& what) const {
    require_same(XXH3_64bits(text.data(), text.size()), what);
  }
  void require_same(std::uint64_t mine, std::string const& what) const {
    for (auto const& other : gather_(std::span(&mine, 1))) {
      if (other[0] != mine) throw CheckpointError("checkpoint: the ranks found " + what);
    }
  }
  /// Does the work on every rank; throws on all what the first rank to fail has thrown.
  template <class F>
  void together(F&& work) const {
    require_all(failure_of(std::forward<F>(work)));
  }

 private:
  int rank_;
  int world_;
  std::function<AllWords(Words)> gather_;
};

}  // namespace zero::detail
