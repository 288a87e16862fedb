// SPDX-License-Identifier: Apache-2.0
#pragma once
// What `accelerate launch` tells the processes that it starts of their DeepSpeed configuration.

#include <zero/launch/environment.hpp>

namespace zero {

/// The path of the DeepSpeed configuration that accelerate names: ACCELERATE_DEEPSPEED_CONFIG_FILE,
/// unless ACCELERATE_USE_DEEPSPEED says that DeepSpeed is not used. Nothing when there is none, so
/// that accelerate's other ACCELERATE_DEEPSPEED_* variables are all there is.
/// @throws InvalidArgument for an empty path, and where ACCELERATE_USE_DEEPSPEED is neither true
/// nor false
inline std::optional<std::string> accelerate_deepspeed_config(Environment const& environment) {
  if (auto const use = environment.find("ACCELERATE_USE_DEEPSPEED")) {
    auto const is_one_of = [&](std::initializer_list<std::string_view> words) {
      std::string lower(*use);
      for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
      for (std::string_view word : words) {
        if (lower == word) return true;
      }
      return false;
    };
    if (is_one_of({"false", "0", "no", "n", "off", "f"})) return std::nullopt;
    if (!is_one_of({"true", "1", "yes", "y", "on", "t"})) {
      throw InvalidArgument("environment: " + environment.quote("ACCELERATE_USE_DEEPSPEED") +
                            " is neither true nor false");
    }
  }
  auto const path = environment.find("ACCELERATE_DEEPSPEED_CONFIG_FILE");
  if (!path || *path == "none") return std::nullopt;
  if (path->empty()) {
    throw InvalidArgument("environment: " + environment.quote("ACCELERATE_DEEPSPEED_CONFIG_FILE") +
                          " is no path");
  }
  return std::string(*path);
}

}  // namespace zero
