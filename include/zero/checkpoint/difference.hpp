// SPDX-License-Identifier: Apache-2.0
#pragma once
// Two checkpoints side by side: how far they had come, and their tensors bit by bit, whatever
// stages and worlds they were saved at.

#include <zero/checkpoint/convert.hpp>

#include <bit>
#include <functional>
#include <numeric>

namespace zero {

/// What differs between two checkpoints.
struct CheckpointDifference {
  std::string what;   ///< "step", or "state.exp_avg of h.0.weight"
  std::string left;   ///< what the first has
  std::string right;  ///< what the second has
};

/// All that differs: step, counts, optimizer and loss scale, and tensors that one has not, that are
/// of other shapes, or of other bits.
/// @param a, b as find_checkpoint has them
/// @param files where both are
/// @param progress told of bytes, of the first's
/// @throws CheckpointError for what cannot be read
inline std::vector<CheckpointDifference> diff_checkpoints(FoundCheckpoint const& a,
                                                          FoundCheckpoint const& b,
                                                          Files& files = PosixFiles::of_system(),
                                                          CheckpointProgress const& progress = {}) {
  std::vector<CheckpointDifference> all;
  auto const compare = [&](char const* what, boost::json::value const& left,
                           boost::json::value const& right) {
    if (left != right) all.push_back({what, detail::exact_json(left), detail::exact_json(right)});
  };
  compare("step", a.manifest.step, b.manifest.step);
  compare("updates", a.manifest.updates, b.manifest.updates);
  compare("skipped", a.manifest.skipped, b.manifest.skipped);
  compare("optimizer", boost::json::value(a.manifest.optimizer.name),
          boost::json::value(b.manifest.optimizer.name));
  compare("loss scale", static_cast<double>(a.manifest.loss_scale.scale),
          static_cast<double>(b.manifest.loss_scale.scale));
  std::map<std::string, WholeTensor> theirs;
  auto const key = [](WholeTensor const& t) { return t.kind + " of " + t.name; };
  for (WholeTensor const& t : whole_tensors(b.manifest)) theirs.emplace(key(t), t);
  SliceReader left(files, a);
  SliceReader right(files, b);
  std::vector<WholeTensor> const ours = whole_tensors(a.manifest);
  Index const total = detail::bytes_as_floats(ours);
  for (WholeTensor const& t : ours) {
    auto const other = theirs.find(key(t));
    if (other == theirs.end() || other->second.shape != t.shape) {
      all.push_back({key(t), detail::shape_text(t.shape),
                     other == theirs.end() ? "nothing" : detail::shape_text(other->second.shape)});
    } else {
      Index unequal = 0;
      Index first = 0;
      detail::read_in_order(
          left, t.kind, t.name, 0, t.elements, [&](std::span<float const> values) {
            detail::read_in_order(
                right, t.kind, t.name, first, std::ssize(values), [&](std::span<float const> x) {
                  unequal +=
                      std::transform_reduce(x.begin(), x.end(), values.begin(), Index{0},
                                            std::plus<>(), [](float one, float other_one) {
                                              return Index{std::bit_cast<std::uint32_t>(one) !=
                                                           std::bit_cast<std::uint32_t>(other_one)};
                                            });
                });
            first += std::ssize(values);
            detail::tell(progress, std::ssize(values) * 4, total);
          });
      if (unequal > 0) {
        all.push_back({key(t), std::to_string(t.elements) + " elements",
                       std::to_string(unequal) + " of them differ"});
      }
    }
    if (other != theirs.end()) theirs.erase(other);
  }
  for (auto const& [name, t] : theirs)
    all.push_back({name, "nothing", detail::shape_text(t.shape)});
  return all;
}

}  // namespace zero
