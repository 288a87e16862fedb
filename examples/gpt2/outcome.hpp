// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a run leaves, for people and for programs.

#include <zero/report/json.hpp>
#include <zero/report/memory_table.hpp>
#include <zero/report/number_text.hpp>

#include <gpt2/settings.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gpt2 {

/// Losses are means over ranks, added in rank order. Bytes and elements are those of one rank.
struct Outcome {
  Index steps = 0;
  int stopped_by = 0;                  ///< the signal that ended the run, if one did
  std::optional<double> first_loss{};  ///< none where no step was made
  std::optional<double> last_loss{};
  std::optional<double> validation_loss{};  ///< the last one, where there was one
  std::optional<double> tokens_per_s{};     ///< of all ranks, in training steps
  Index planned_bytes = 0;
  Index measured_bytes = 0;              ///< peak, of the rank with the largest
  Index host_bytes = 0;                  ///< peak of host memory below the device, of rank 0
  Index locked_bytes = 0;                ///< of these, locked at the end
  Index nvme_bytes = 0;                  ///< of files of rank 0
  std::array<Index, 3> planned_below{};  ///< the plan of these three
  Index wire_elements_per_step =
      0;  ///< parameters and gradients that a rank sends, without norm records
  Index skipped_steps = 0;
  std::uint64_t parameters_hash = 0;
  std::string sample;  ///< text that the model wrote
  std::vector<std::pair<std::string, std::vector<Index>>>
      memory;  ///< kind, planned and peak bytes of rank 0
};

/// The line that --json ends with.
inline std::string json_text(Outcome const& o, Settings const& s) {
  return zero::JsonLine()
      .add("stage", s.stage)
      .add("world", s.ranks)
      .add("steps", o.steps)
      .add("first_loss", o.first_loss)
      .add("last_loss", o.last_loss)
      .add("validation_loss", o.validation_loss)
      .add("tokens_per_s", o.tokens_per_s)
      .add("planned_bytes", o.planned_bytes)
      .add("measured_bytes", o.measured_bytes)
      .add("host_bytes", o.host_bytes)
      .add("nvme_bytes", o.nvme_bytes)
      .add("wire_elements_per_step", o.wire_elements_per_step)
      .add("skipped_steps", o.skipped_steps)
      .add("parameters_hash", zero::hexadecimal_text(o.parameters_hash))
      .text();
}

}  // namespace gpt2
