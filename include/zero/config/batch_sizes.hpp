// SPDX-License-Identifier: Apache-2.0
#pragma once
// The three batch sizes and the world: what is missing follows, and the equality always holds.

#include <zero/config/training_arguments.hpp>
#include <zero/config/values.hpp>

#include <limits>

namespace zero::detail {

/// T = M x G x world: samples of an update, of a micro-batch, micro-batches, ranks. What is missing
/// follows as DeepSpeed infers it; the equality is checked whatever was given, so that no
/// truncation passes.
class BatchSizes {
 public:
  BatchSizes(Findings& findings, ConfigValues& values, Index world)
      : findings_(findings), values_(values), world_(world) {}

  /// Micro-batches where the file does not say them.
  Index inferred_accumulation() const {
    auto const t = size(paths[0]);
    auto const m = size(paths[1]);
    return t && m ? *t / *m / world_ : 1;
  }

  /// Fills the sizes that are missing, or refuses.
  /// @param asked micro-batch that the arguments say, for a warning where another one follows
  void resolve(std::optional<Index> asked) {
    for (char const* path : paths) {
      if (values_.wrong(path) || values_.automatic(path)) return;
    }
    auto const t = size(paths[0]);
    auto const m = size(paths[1]);
    auto const g = size(paths[2]);
    auto const text = [](std::optional<Index> n) {
      return n ? std::to_string(*n) : std::string("none");
    };
    std::string const found = std::string(paths[0]) + " " + text(t) + ", " + paths[1] + " " +
                              text(m) + ", " + paths[2] + " " + text(g) + ", world " +
                              std::to_string(world_);
    if (!t && !m) {
      findings_.refuse(paths[0], found, std::string(paths[0]) + " or " + paths[1]);
      return;
    }
    Index const accumulation = g ? *g : t && m ? *t / *m / world_ : 1;
    Index const micro = m ? *m : *t / world_ / accumulation;
    Index const most = std::numeric_limits<Index>::max();
    if (micro < 1 || accumulation < 1) {
      findings_.refuse(
          paths[0], found,
          std::string("at least one sample in each micro-batch and one micro-batch; ") +
              (micro < 1 ? paths[1] : paths[2]) + " would be 0");
      return;
    }
    if (micro > most / accumulation / world_) {
      findings_.refuse(paths[0], found, "sizes whose product is below 2^63");
      return;
    }
    Index const total = micro * accumulation * world_;
    if (t && *t != total) {
      findings_.refuse(paths[0], found,
                       "train_batch_size = micro-batch x accumulation x world = " +
                           std::to_string(micro) + " x " + std::to_string(accumulation) + " x " +
                           std::to_string(world_) + " = " + std::to_string(total));
      return;
    }
    if (!t) values_.set(paths[0], total, "inferred: micro-batch x accumulation x world");
    if (!m) values_.set(paths[1], micro, "inferred: train_batch_size / world / accumulation");
    if (!g)
      values_.set(paths[2], accumulation,
                  t && m ? "inferred: train_batch_size / micro-batch / world" : "default");
    if (!m && asked.value_or(micro) != micro)
      findings_.warn(
          std::string(paths[1]) + ": not in the file, so " + std::to_string(micro) +
          " follows from the others; the arguments say otherwise: per_device_train_batch_size " +
          std::to_string(*asked));
  }

 private:
  static constexpr char const* paths[] = {"train_batch_size", "train_micro_batch_size_per_gpu",
                                          "gradient_accumulation_steps"};

  std::optional<Index> size(char const* path) const {
    if (!values_.given(path) || !values_.known(path) || values_.is_null(path)) return std::nullopt;
    return values_.whole(path);
  }

  Findings& findings_;
  ConfigValues& values_;
  Index world_;
};

}  // namespace zero::detail
