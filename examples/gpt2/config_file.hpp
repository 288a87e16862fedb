// SPDX-License-Identifier: Apache-2.0
#pragma once
// A DeepSpeed configuration in place of flags. Its body is compiled where Boost.JSON is found.

#include <gpt2/settings.hpp>

#include <optional>
#include <string>
#include <vector>

namespace gpt2 {

/// Reads the files of --config and --arguments over the ranks of the settings, and sets what they
/// decide: stage, precision, batch sizes, optimizer, schedule, clipping, loss scale, sizes; of the
/// arguments also the steps and the seed. The arguments' hidden_size is the model's width where
/// they do not say it.
/// @param accelerate the configuration that accelerate names in the environment; it wins over
/// --config, which a warning says
/// @return warnings
/// @throws WrongFlag for a flag beside what the files decide, and where this program cannot read
/// them; zero::ConfigError for what is wrong with them
std::vector<std::string> apply_config(Settings& settings,
                                      std::optional<std::string> const& accelerate);

}  // namespace gpt2
