// SPDX-License-Identifier: Apache-2.0
#pragma once
// All keys of a DeepSpeed configuration in one table, and how a key that is not there finds the one
// that was meant.

#include <zero/config/menu_keys.hpp>
#include <zero/config/training_keys.hpp>
#include <zero/config/zero_keys.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace zero {

/// Every key, section by section.
inline std::vector<Key> const& all_keys() {
  static std::vector<Key> const all = [] {
    std::vector<Key> keys;
    auto const take = [&](auto const& table) {  // insert() makes GCC 12 warn, at -O3, of nothing
      for (Key const& key : table) keys.push_back(key);
    };
    take(keys::training);
    take(keys::sharding);
    take(keys::optimizer);
    take(keys::scheduler);
    take(keys::argument_scheduler);
    take(keys::reporting);
    take(keys::foreign);
    return keys;
  }();
  return all;
}

/// The row of a key.
/// @param path from the top
/// @param type of the optimizer or scheduler that a key in its params belongs to
/// @return null where there is none
inline Key const* find_key(std::string_view path, std::string_view type = {}) {
  for (Key const& k : all_keys()) {
    if (k.path == path && (k.of.empty() || k.belongs_to(type))) return &k;
  }
  return nullptr;
}

/// Fewest insertions, deletions, replacements and exchanges of neighbours from one word to the
/// other (Damerau; optimal string alignment).
inline std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> two_ago, ago, row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    two_ago = std::move(ago);
    ago = row;
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] =
          std::min({ago[j] + 1, row[j - 1] + 1, ago[j - 1] + (a[i - 1] == b[j - 1] ? 0u : 1u)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], two_ago[j - 2] + 1);
    }
  }
  return row[b.size()];
}

namespace detail {

/// A key that is longer resembles none.
inline constexpr std::size_t longest_name = 100;

/// Edits from which on a word no longer resembles another: a third of its letters, at least two,
/// and never all of them.
constexpr std::size_t too_many_edits(std::string_view word) {
  return std::min(std::max<std::size_t>(2, word.size() / 3) + 1,
                  std::max<std::size_t>(1, word.size()));
}

}  // namespace detail

/// The word of the list, separated by blanks, that is nearest to `word`; "" where none is near.
/// Refers to the list.
inline std::string_view nearest_word(std::string_view word, std::string_view list) {
  std::string_view best;
  if (word.size() > detail::longest_name) return best;
  std::size_t distance = detail::too_many_edits(word);
  while (!list.empty()) {
    std::size_t const end = list.find(' ');
    std::string_view const candidate = list.substr(0, end);
    std::size_t const d = edit_distance(word, candidate);
    if (d < distance) {
      best = candidate;
      distance = d;
    }
    list = end == std::string_view::npos ? std::string_view() : list.substr(end + 1);
  }
  return best;
}

namespace detail {

/// "the top level", or the section.
inline std::string section_text(std::string_view path) {
  return path.empty() ? "the top level" : "section " + std::string(path);
}

}  // namespace detail

/// What was probably meant by a key that is in no table.
/// @param path of the unknown key
/// @param type of the optimizer or scheduler that it stands in
inline std::string expected_instead(std::string_view path, std::string_view type = {}) {
  std::size_t const point = path.rfind('.');
  std::string_view const section =
      point == std::string_view::npos ? std::string_view() : path.substr(0, point);
  std::string_view const name = path.substr(point == std::string_view::npos ? 0 : point + 1);
  if (name.size() > detail::longest_name) return "a key of " + detail::section_text(section);
  if (name == "max_grad_norm") return "gradient_clipping, at the top level";
  std::string belongs;
  std::string others;
  Key const* nearest = nullptr;
  Key const* elsewhere = nullptr;
  std::size_t distance = detail::too_many_edits(name);
  std::size_t far = distance;
  for (Key const& k : all_keys()) {
    if (k.name() == name && (k.parent() != section || !k.belongs_to(type))) {
      if (k.parent() == section) {
        others += (others.empty() ? "" : " ") + std::string(k.of);
      } else if (belongs.empty() && !k.switched) {
        belongs = detail::section_text(k.parent());
      }
    }
    std::size_t const d = edit_distance(name, k.name());
    if (k.parent() == section && k.belongs_to(type) && d < distance) {
      nearest = &k;
      distance = d;
    } else if (d < far) {
      elsewhere = &k;
      far = d;
    }
  }
  if (!others.empty()) return "a key of " + std::string(type) + "; it belongs to " + others;
  if (find_key(name) != nullptr && !section.empty())
    return std::string(name) + " at the top level, not in section " + std::string(section);
  if (nearest != nullptr && distance <= 1)
    return "a known key; nearest is " + std::string(nearest->path);
  if (!belongs.empty()) return "a known key; " + std::string(name) + " belongs to " + belongs;
  if (nearest == nullptr) nearest = elsewhere;
  if (nearest != nullptr) return "a known key; nearest is " + std::string(nearest->path);
  return "a key of " + detail::section_text(section) + " (zero-config keys lists them)";
}

}  // namespace zero
