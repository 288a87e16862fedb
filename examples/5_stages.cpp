// SPDX-License-Identifier: Apache-2.0
// What each ZeRO stage keeps on a rank and sends from it: who owns what, drawn from the layout that
// the trainer uses, and the table of memory and wire, by formula and as measured in training. Fails
// where a formula and what was measured differ.
//
//     5_stages [ranks, 2 to 16]
#include <zero/zero.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using zero::Index;

template <int Stage>
using Policies = zero::Policies<zero::Sharded<Stage>, zero::Bf16Mixed>;

// Calls f with each stage as a constant.
template <class F>
void each_stage(F f) {
  [&]<int... Stage>(std::integer_sequence<int, Stage...>) {
    (f(std::integral_constant<int, Stage>{}), ...);
  }
  (std::make_integer_sequence<int, 4>{});
}

// A stretch of a unit's elements.
struct Range {
  Index begin, end;
};

// "███░░░░░░░": a cell is full where the range holds the last of its elements.
std::string bar(Range range, Index elements, Index cells) {
  std::string text;
  for (Index c = 1; c <= cells; ++c) {
    Index const last = c * elements / cells - 1;
    text += range.begin <= last && last < range.end ? "█" : "░";
  }
  return text;
}

void draw(Index ranks) {
  zero::Units const units{
      {"block", {{"block.weight", {60, 50}}, {"block.bias", {50}}, {"block.scale", {50}}}}};
  zero::Layout const layout(units, ranks);
  Index const elements = layout[0].trainable;
  Index const cells = std::max<Index>(10, ranks);
  std::string line;
  for (Index c = 0; c < cells; ++c) line += "─";

  std::printf("who keeps what of a unit between steps, %d ranks\n\n", static_cast<int>(ranks));
  std::printf("        %-*s %-*s %s\n", static_cast<int>(cells) + 2, " parameters",
              static_cast<int>(cells) + 2, " gradients", " optimizer state");
  each_stage([&](auto stage) {
    zero::Shares const shares(layout, zero::Facts::of<Policies<stage>>(2), {});
    std::printf("        ┌%s┐ ┌%s┐ ┌%s┐\n", line.c_str(), line.c_str(), line.c_str());
    for (Index rank = 0; rank < ranks; ++rank) {
      auto const kept = [&](Index count) {  // the whole, or this rank's slice
        Index const begin = count == elements ? 0 : layout.slice_begin(0, rank);
        return bar({begin, begin + count}, elements, cells);
      };
      std::printf("%-7s │%s│ │%s│ │%s│  rank %d\n",
                  rank == 0 ? ("stage " + std::to_string(stage)).c_str() : "",
                  kept(shares.parameters(0)).c_str(), kept(shares.gradients(0)).c_str(),
                  kept(shares.owned(0)).c_str(), static_cast<int>(rank));
    }
    std::printf("        └%s┘ └%s┘ └%s┘\n", line.c_str(), line.c_str(), line.c_str());
  });
  std::printf("        █ here  ░ on another rank\n\n");

  std::printf("the slices, the same at every stage: %s elements each\n",
              zero::grouped_text(layout.slice(0)).c_str());
  for (Index rank = 0; rank < ranks; ++rank) {
    std::string text;
    Index real = 0;
    layout.pieces(0, true, layout.slice_begin(0, rank), layout.slice(0),
                  [&](zero::PlacedTensor const&, zero::Piece const& piece) {
                    auto const& tensor = units[0].tensors[zero::at(piece.tensor_index)];
                    text += tensor.name + " [" + std::to_string(piece.first) + ", " +
                            std::to_string(piece.first + piece.elements) + "), ";
                    real += piece.elements;
                  });
    std::printf("rank %d  %s%d of padding\n", static_cast<int>(rank), text.c_str(),
                static_cast<int>(layout.slice(0) - real));
  }
}

// Pulls all its weights to zero: just enough of a model to see what a step keeps and sends.
struct Weights {
  using Batch = int;
  static constexpr int num_units = 16;
  static constexpr Index unit_elements = 3 * 16384;

  zero::Units units() const {
    zero::Units all;
    for (int u = 0; u < num_units; ++u) {
      std::string const name = "unit." + std::to_string(u);
      all.push_back({name, {{name + ".weight", {unit_elements}, zero::Initial::normal(1)}}});
    }
    return all;
  }
  template <class Pass>
  void operator()(Pass& pass, Batch const&) {
    for (int u = 0; u < num_units; ++u) auto const weights = pass.forward(u);
    if constexpr (Pass::trains) {
      for (int u = num_units; u-- > 0;) {
        auto const [parameters, gradients] = pass.backward(u);
        std::span<typename Pass::Parameter const> const weight = parameters[0];
        std::span<typename Pass::Gradient> const gradient = gradients[0];
        std::copy(weight.begin(), weight.end(), gradient.begin());
      }
    }
  }
};

// What rank 0 kept at most and sent in one step.
struct Measured {
  Index planned_bytes = 0;
  Index table_bytes = 0;
  Index peak_bytes = 0;
  Index wire_elements = 0;
};

template <int Stage>
Measured measure(int ranks) {
  Measured found;
  zero::launch<zero::Threads>(ranks, [&](auto communicator) {
    zero::CollectiveLog log;
    zero::Trainer trainer{Weights{}, zero::Recording(communicator, log), zero::AdamW{},
                          zero::Sharded<Stage>{}, zero::Bf16Mixed{}};
    trainer.step(0);
    log.clear();
    trainer.step(1);
    trainer.synchronize();
    if (communicator.rank() > 0) return;
    found = {trainer.plan().total_bytes(), trainer.plan().tables.bytes,
             communicator.device().ledger().peak_bytes(), log.wire_elements()};
  });
  return found;
}

// P elements in all, U in the largest unit, N ranks; bf16 parameters and gradients of 2 bytes each,
// float master weights and two Adam states of 12; one micro-batch a step, prefetch 1.
bool table(Index ranks) {
  Index const u = zero::round_up(Weights::unit_elements, ranks * zero::alignment_elements);
  Index const p = Weights::num_units * u;
  Index const n = ranks;
  struct Row {
    char const* memory;
    Index bytes;
    char const* wire;
    Index elements;
  };
  std::array<Row, 4> const rows{{
      {"16 P", 16 * p, "2 P (N-1)/N", 2 * p / n * (n - 1)},
      {"4 P + 12 P/N", 4 * p + 12 * p / n, "2 P (N-1)/N", 2 * p / n * (n - 1)},
      {"2 P + 14 P/N + 4 U", 2 * p + 14 * p / n + 4 * u, "2 P (N-1)/N", 2 * p / n * (n - 1)},
      {"16 P/N + 8 U", 16 * p / n + 8 * u, "(3 P - U) (N-1)/N", (3 * p - u) / n * (n - 1)},
  }};
  std::printf("\nmemory and wire of one rank, N = %d ranks, P = %s elements in units of U = %s\n\n",
              static_cast<int>(n), zero::grouped_text(p).c_str(), zero::grouped_text(u).c_str());
  std::printf(
      "stage  bytes               by formula    tables  measured peak   "
      "elements sent a step   by formula   measured\n");
  bool holds = true;
  each_stage([&](auto stage) {
    Measured const m = measure<stage>(static_cast<int>(ranks));
    Row const& row = rows[zero::at(stage)];
    std::printf("%-6d %-18s %11s %9s %14s   %-20s %12s %10s\n", int{stage}, row.memory,
                zero::grouped_text(row.bytes).c_str(), zero::grouped_text(m.table_bytes).c_str(),
                zero::grouped_text(m.peak_bytes).c_str(), row.wire,
                zero::grouped_text(row.elements).c_str(),
                zero::grouped_text(m.wire_elements).c_str());
    holds = holds && m.peak_bytes == m.planned_bytes && m.peak_bytes == row.bytes + m.table_bytes &&
            m.wire_elements == row.elements;
  });
  std::printf(holds ? "formula and measurement agree to the byte and to the element\n"
                    : "formula and measurement DIFFER\n");
  return holds;
}

}  // namespace

int main(int argc, char** argv) {
  int ranks = 0;  // not said: three for the picture, four for the table
  if (argc > 1) {
    std::string_view const text = argv[1];
    auto const read = std::from_chars(text.data(), text.data() + text.size(), ranks);
    if (read.ec != std::errc{} || read.ptr != text.data() + text.size() || ranks < 2 ||
        ranks > 16) {
      std::fprintf(stderr, "5_stages takes a number of ranks from 2 to 16\n");
      return 2;
    }
  }
  draw(ranks > 0 ? ranks : 3);
  return table(ranks > 0 ? ranks : 4) ? 0 : 1;
}
