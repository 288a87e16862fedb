// SPDX-License-Identifier: Apache-2.0
#pragma once
// Bytes by kind in columns side by side, such as the plans of four stages, or what was planned and
// what was measured.

#include <zero/core/error.hpp>
#include <zero/core/size.hpp>
#include <zero/report/number_text.hpp>

#include <algorithm>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace zero {

/// A table to print: kinds in units for people, then the totals twice, so and to the byte.
///
///     os << MemoryTable{"a rank", {"stage 0", "stage 1"}, {{"optimizer state", {4096, 1024}}}};
struct MemoryTable {
  std::string title;                                             ///< stands above the kinds
  std::vector<std::string> columns;                              ///< heads of the columns
  std::vector<std::pair<std::string, std::vector<Index>>> rows;  ///< kind, and bytes in each column

  /// Sum of each column.
  /// @throws InvalidArgument when a row has not one number a column.
  std::vector<Index> totals() const {
    std::vector<Index> sums(columns.size(), 0);
    for (auto const& [kind, bytes] : rows) {
      if (bytes.size() != columns.size()) {
        throw InvalidArgument("memory table: the row '" + kind + "' has " +
                              std::to_string(bytes.size()) + " numbers for " +
                              std::to_string(columns.size()) + " columns");
      }
      for (std::size_t c = 0; c < sums.size(); ++c) sums[c] += bytes[c];
    }
    return sums;
  }

  /// The lines, each with its end of line.
  std::string text() const {
    std::vector<Index> const sums = totals();
    std::vector<std::vector<std::string>> lines;
    lines.push_back(line(title, columns, [](std::string const& name) { return name; }));
    // A kind that a column does not have is a dash: a zero among the numbers is easily read over.
    auto const amount = [](Index bytes) {
      return bytes == 0 ? std::string("-") : human_bytes(bytes);
    };
    for (auto const& [kind, bytes] : rows) lines.push_back(line(kind, bytes, amount));
    lines.push_back(line("total", sums, amount));
    lines.push_back(line("total bytes", sums, grouped_text));

    std::vector<std::size_t> widths(columns.size() + 1, 0);
    for (auto const& cells : lines) {
      for (std::size_t c = 0; c < cells.size(); ++c)
        widths[c] = std::max(widths[c], cells[c].size());
    }
    std::size_t all = widths[0];
    for (std::size_t c = 1; c < widths.size(); ++c) all += gap.size() + widths[c];
    std::string out;
    for (std::size_t l = 0; l < lines.size(); ++l) {
      if (l == 1 || l + 2 == lines.size()) out += std::string(all, '-') + "\n";
      std::string row = lines[l][0];
      std::size_t end = widths[0];
      for (std::size_t c = 1; c < widths.size(); ++c) {
        end += gap.size() + widths[c];
        row += std::string(end - row.size() - lines[l][c].size(), ' ') + lines[l][c];
      }
      out += row + "\n";
    }
    return out;
  }

  /// Writes the table, a line a buffer.
  friend std::ostream& operator<<(std::ostream& os, MemoryTable const& table) {
    return os << table.text();
  }

 private:
  static constexpr std::string_view gap = "  ";

  template <class T, class Text>
  static std::vector<std::string> line(std::string const& name, std::vector<T> const& values,
                                       Text text) {
    std::vector<std::string> cells{name};
    for (T const& value : values) cells.push_back(text(value));
    return cells;
  }
};

}  // namespace zero
