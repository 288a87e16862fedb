// SPDX-License-Identifier: Apache-2.0
#pragma once
// zero-config check and zero-config keys.

#include <zero_config/load.hpp>

namespace zero_config {

/// Prints the resolved configuration as JSON. With --explain an object `explain` says of each key
/// what its value came from.
inline int check(std::span<char const* const> arguments) {
  CommandLine const line("check", arguments, true, loading_options({{"explain", ""}}));
  zero::ResolvedConfig config = load(line);
  if (line.has("explain")) {
    boost::json::object explain;
    for (auto const& [path, origin] : config.origins) explain[path] = origin;
    config.json["explain"] = std::move(explain);
  }
  std::cout << zero::json_text(config.json) << "\n";
  return 0;
}

/// Prints the table of all keys: key, status, default, what it drives.
inline int keys(std::span<char const* const> arguments) {
  CommandLine const line("keys", arguments, false, {});
  std::cout << "key\tstatus\tdefault\tdrives\n";
  for (zero::Key const& k : zero::all_keys()) {
    std::string_view const status = k.status == zero::KeyStatus::honoured   ? "honoured"
                                    : k.status == zero::KeyStatus::accepted ? "accepted"
                                                                            : "refused";
    std::cout << k.path << "\t" << status << "\t" << (k.fallback.empty() ? "-" : k.fallback)
              << "\t";
    if (!k.translated.empty()) {
      std::cout << (k.deprecated ? "deprecated spelling of " : "spelling of ") << k.translated;
    } else {
      std::cout << k.what;
    }
    if (!k.of.empty()) std::cout << " (" << k.of << ")";
    std::cout << "\n";
  }
  return 0;
}

}  // namespace zero_config
