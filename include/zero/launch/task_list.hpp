// SPDX-License-Identifier: Apache-2.0
#pragma once
// Slurm's short form of a list of counts: "4(x2),1" stands for 4, 4, 1.

#include <zero/core/size.hpp>

#include <charconv>
#include <limits>
#include <optional>
#include <string_view>

namespace zero {

/// Entry `node`, from 0, of such a list; nothing when the list is not of that form or ends before.
inline std::optional<int> task_count(std::string_view list, int node) {
  auto const number = [&](Index& value) {
    auto const [end, failure] = std::from_chars(list.data(), list.data() + list.size(), value);
    if (failure != std::errc{} || value < 1 || value > std::numeric_limits<int>::max())
      return false;
    list.remove_prefix(static_cast<std::size_t>(end - list.data()));
    return true;
  };
  auto const take = [&](std::string_view text) {
    if (!list.starts_with(text)) return false;
    list.remove_prefix(text.size());
    return true;
  };
  Index before = 0;
  std::optional<int> found;
  for (;;) {
    Index count = 0;
    Index times = 1;
    if (!number(count)) return std::nullopt;
    if (take("(x") && !(number(times) && take(")"))) return std::nullopt;
    if (!found && node < before + times) found = static_cast<int>(count);
    before += times;
    if (list.empty()) return found;
    if (!take(",")) return std::nullopt;
  }
}

}  // namespace zero
