// SPDX-License-Identifier: Apache-2.0
#pragma once
// One whole tensor by its name, whatever ranks its elements lie on: weights, gradients and the
// optimizer's numbers, read and written. For looking at a model and for changing it by hand.

#include <zero/checkpoint/trainer_access.hpp>

namespace zero {

namespace detail {

inline FoundTensor find_tensor(TrainerAccess const& x, std::string_view name) {
  for (int u = 0; u < x.layout().size(); ++u) {
    std::vector<Tensor> const& tensors = x.units()[at(u)].tensors;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i].name == name) return {u, static_cast<Index>(i), x.layout()[u].tensors[i]};
    }
  }
  throw InvalidArgument("checkpoint: the model has no tensor '" + std::string(name) + "'");
}

inline NumberOf find_number(TrainerAccess const& x, FoundTensor const& tensor,
                            std::string_view what) {
  if (what == "weight") return {NumberKind::weight};
  std::string const name(what);
  if (!tensor.placed.trainable)
    throw InvalidArgument("checkpoint: a frozen tensor has no '" + name + "'");
  if (what == "gradient") {
    if (!x.has_gradients())
      throw InvalidArgument("checkpoint: the trainer has no gradients() to take 'gradient' from");
    return {NumberKind::gradient};
  }
  std::vector<std::string> const states = x.optimizer().states;
  auto const state = std::ranges::find(states, name);
  if (state == states.end()) {
    std::string all;
    for (std::string const& one : states) all += ", '" + one + "'";
    throw InvalidArgument("checkpoint: a tensor has no '" + name +
                          "'; expected 'weight', 'gradient'" + all);
  }
  return {NumberKind::state, static_cast<int>(state - states.begin())};
}

/// The stretch of elements [first, first + n) of a tensor that stands in a rank's slice.
inline OwnedPiece piece_of_rank(TrainerAccess const& x, FoundTensor const& t, Index rank,
                                Index first, Index n) {
  Index const slice =
      t.placed.trainable ? x.layout().slice(t.unit) : x.layout().frozen_slice(t.unit);
  Index const from = std::max(t.placed.begin + first, rank * slice);
  Index const to = std::min(t.placed.begin + first + n, (rank + 1) * slice);
  return {t.unit, t.index, from - t.placed.begin, std::max<Index>(to - from, 0), from};
}

/// Whether every rank keeps all of the tensor's numbers of this kind.
inline bool keeps_whole(TrainerAccess const& x, FoundTensor const& t) {
  if (x.shares().alone()) return true;
  return t.placed.trainable ? !x.shares().facts().shards_optimizer
                            : !x.shares().sharded_parameters(t.unit);
}

/// Calls take(first, std::span<float const>) on every rank for all elements of a tensor, in order,
/// a tile at a time. Communication: where ranks keep slices, one all_gather of doubles a tile,
/// which carry two floats each.
template <class Take>
void gather_tiles(TrainerAccess& x, FoundTensor const& t, NumberOf number, std::string_view name,
                  Take take) {
  Decision const decision = number.kind == NumberKind::gradient ? x.decision() : Decision{};
  Index const world = keeps_whole(x, t) ? 1 : x.world();
  Index const tile = std::max<Index>(alignment_elements, (Index{1} << 19) / world);
  std::vector<float> whole;
  for (Index first = 0; first < t.placed.elements; first += tile) {
    Index const n = std::min(tile, t.placed.elements - first);
    whole.resize(at(n));
    if (world == 1) {
      x.read(number, t, decision, t.placed.begin + first, n, whole.data());
    } else {
      Index width = 0;  // floats a rank, as many as the longest piece has, in whole doubles
      for (Index r = 0; r < world; ++r)
        width = std::max(width, round_up(piece_of_rank(x, t, r, first, n).elements, 2));
      std::vector<float> row(at(width));
      std::vector<float> rows(at(world * width));
      OwnedPiece const mine = piece_of_rank(x, t, x.rank(), first, n);
      if (mine.elements > 0) x.read(number, t, decision, mine.begin, mine.elements, row.data());
      x.all_gather(row, rows, name);
      for (Index r = 0; r < world; ++r) {
        OwnedPiece const piece = piece_of_rank(x, t, r, first, n);
        if (piece.elements > 0)
          std::copy_n(rows.begin() + r * width, piece.elements,
                      whole.begin() + (piece.first - first));
      }
    }
    take(first, std::span<float const>(whole));
  }
}

inline std::vector<float> gather_from(TrainerAccess& x, std::string_view name,
                                      std::string_view what) {
  x.synchronize();
  FoundTensor const tensor = find_tensor(x, name);
  NumberOf const number = find_number(x, tensor, what);
  std::vector<float> whole;
  x.guarded([&] {
    gather_tiles(x, tensor, number, name, [&](Index, std::span<float const> tile) {
      whole.insert(whole.end(), tile.begin(), tile.end());
    });
  });
  return whole;
}

inline void assign_to(TrainerAccess& x, std::string_view name, std::span<float const> values,
                      std::string_view what) {
  x.synchronize();
  Ranks const ranks = ranks_of(x, "assign");
  FoundTensor tensor;
  NumberOf number;
  ranks.require_all<InvalidArgument>(failure_of([&] {
    tensor = find_tensor(x, name);
    number = find_number(x, tensor, what);
    if (std::ssize(values) != tensor.placed.elements) {
      throw InvalidArgument("checkpoint: assign: " + std::to_string(values.size()) +
                            " values for tensor '" + std::string(name) + "'; expected " +
                            std::to_string(tensor.placed.elements));
    }
  }));
  std::string const asked = std::string(what) + " of tensor '" + std::string(name) + "'";
  ranks.require_same(XXH3_64bits_withSeed(values.data(), values.size_bytes(),
                                          XXH3_64bits(asked.data(), asked.size())),
                     "different values to assign to the " + asked);
  Decision const decision = x.decision();
  x.guarded([&] {
    auto const [kept, count] = x.kept(tensor.unit, tensor.placed.trainable);
    Index const begin = std::max(kept, tensor.placed.begin);
    Index const end = std::min(kept + count, tensor.placed.begin + tensor.placed.elements);
    if (begin < end) {
      x.write(number, tensor.unit, tensor.placed.trainable, decision, begin,
              values.subspan(at(begin - tensor.placed.begin), at(end - begin)));
    }
    if (number.kind == NumberKind::weight) x.publish();
  });
  x.synchronize();
}

}  // namespace detail

/// One whole tensor on every rank, row-major, as floats. Every rank calls it, between steps. Waits.
/// @param trainer a Trainer
/// @param name of the tensor
/// @param what "weight": the float weights, or a frozen tensor's parameters; "gradient": the mean
/// over ranks and micro-batches of the last step, before clipping; else the optimizer's name of one
/// of its numbers, such as "exp_avg"
/// @throws InvalidArgument for another name, and for a gradient of a trainer without gradients()
/// Communication: where ranks keep slices, one all_gather of doubles for every 2^19 elements.
inline std::vector<float> gather(AnyTrainer const& trainer, std::string_view name,
                                 std::string_view what = "weight") {
  return detail::gather_from(*trainer.access(), name, what);
}

/// Sets one whole tensor, as gather reads it. Every rank calls it with the same values, between
/// steps. Parameters are rounded from the float weights; a gradient is what the next
/// OptimizerState::update would see. Waits.
/// @param trainer, name, what as gather
/// @param values as many as the tensor has elements
/// @throws InvalidArgument on every rank, for another name or number of values; CheckpointError
/// where ranks bring different ones
/// Communication: exchanges of words; of weights, one publication as after an update.
inline void assign(AnyTrainer const& trainer, std::string_view name, std::span<float const> values,
                   std::string_view what = "weight") {
  detail::assign_to(*trainer.access(), name, values, what);
}

}  // namespace zero
