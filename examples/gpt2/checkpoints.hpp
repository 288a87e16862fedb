// SPDX-License-Identifier: Apache-2.0
#pragma once
// The checkpoints of a run: what it begins with, when one is written, and what it ends with.

#include <gpt2/flags.hpp>

namespace gpt2 {

/// The checkpoints of a run; here of one that has none. Every rank calls the same members.
class Checkpoints {
 public:
  virtual ~Checkpoints() = default;
  /// Loads what the run begins with. @return steps that were made before
  virtual Index begin() { return 0; }
  /// Whether the run evaluates after this step, for a checkpoint.
  virtual bool evaluates(Index) const { return false; }
  /// Whether a run that ends after this step evaluates before: a model is kept with its metric.
  virtual bool evaluates_at_end(Index) const { return false; }
  /// A checkpoint with what an evaluation has measured.
  virtual void keep(Index /*step*/, double /*validation_loss*/) {}
  /// A checkpoint where one is due.
  virtual void save(Index /*step*/, bool /*ends: this was the last one*/) {}
  /// Takes the best checkpoint and writes the model, where the settings ask for it.
  virtual void end(bool /*stopped by a signal, which may come before anything was evaluated*/) {}
};

/// @throws WrongFlag where the settings ask for what this program was built without
inline void require_checkpoints(Settings const& s) {
#if !GPT2_CHECKPOINT
  if (!s.save.empty() || !s.resume.empty() || !s.from_model.empty() || !s.write_model.empty())
    throw WrongFlag("gpt2: checkpoints need Boost.JSON and xxHash, which were not found");
#else
  static_cast<void>(s);
#endif
}

}  // namespace gpt2
