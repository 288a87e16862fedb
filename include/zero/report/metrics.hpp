// SPDX-License-Identifier: Apache-2.0
#pragma once
// A file with a row a step, for plots and for comparing runs: JSON lines or CSV, by its ending.
//
// - The columns are those of the first row: a later row may lack one and never adds one.
// - A number reads back as the same bits. What is absent is null, in CSV empty. What is not finite
//   is the string "NaN", "Infinity" or "-Infinity" in JSON, which has no such numbers, and nan, inf
//   or -inf in CSV.
// - Each row reaches the operating system before write() returns, so a killed run keeps every row
//   that it wrote. A row that does not fit is taken back: what stays in the file are whole rows.

#include <zero/core/error.hpp>
#include <zero/report/json.hpp>
#include <zero/report/number_text.hpp>
#include <zero/report/step_record.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace zero {

/// Writes one row a step to a file of its own. One rank holds it; not for several threads at once.
class Metrics {
 public:
  /// How a row is written.
  enum class Format {
    json_lines,  ///< an object a line
    csv          ///< a line of names, then a line of values a row
  };

  /// What the ending of a path asks for.
  /// @throws InvalidArgument when it is neither .jsonl nor .csv.
  static Format format(std::string_view path) {
    if (path.ends_with(".jsonl")) return Format::json_lines;
    if (path.ends_with(".csv")) return Format::csv;
    throw InvalidArgument("metrics: the file '" + std::string(path) +
                          "' ends in neither .jsonl nor .csv");
  }

  /// Opens the file; one that exists is emptied.
  /// @throws InvalidArgument for another ending, before any file is touched.
  /// @throws Error with the system's reason when the file cannot be opened.
  explicit Metrics(std::string path) : path_(std::move(path)), format_(format(path_)) {
    file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file_ < 0) fail("cannot open", errno);
  }
  Metrics(Metrics const&) = delete;
  Metrics& operator=(Metrics const&) = delete;
  ~Metrics() { ::close(file_); }

  /// Appends one row.
  /// @throws InvalidArgument when the row has a column that the first one had not, or two of one
  /// name.
  /// @throws Error with the system's reason when the row cannot be written; the file then ends with
  /// the row before.
  void write(StepRecord const& record) {
    std::vector<Cell> cells = cells_of(record);
    check_names(cells);
    bool const first = columns_.empty();
    if (!first) cells = in_columns(std::move(cells));
    if (format_ == Format::json_lines) {
      append(json_row(cells));
    } else {
      append((first ? csv_row(cells, [](Cell const& cell) { return cell.column; }) : "") +
             csv_row(cells, value_text));
    }
    if (first) {
      for (Cell& cell : cells) columns_.push_back(std::move(cell.column));
    }
  }

 private:
  struct Cell {
    std::string column;
    std::variant<std::monostate, Index, double> value;
  };

  static std::vector<Cell> cells_of(StepRecord const& record) {
    std::vector<Cell> cells{{"step", record.step}, {"loss", record.loss}, {"validation_loss", {}}};
    if (record.validation_loss) cells.back().value = *record.validation_loss;
    cells.push_back({"lr", record.learning_rate});
    cells.push_back({"gradient_norm", record.gradient_norm});
    cells.push_back({"loss_scale", record.loss_scale});
    cells.push_back({"skipped_steps", record.skipped_steps});
    cells.push_back({"tokens_per_s", record.tokens_per_s});
    for (auto const& [phase, seconds] : record.phase_seconds)
      cells.push_back({name(phase, "_seconds"), seconds});
    cells.push_back({"wire_elements", record.wire_elements});
    for (auto const& [kind, bytes] : record.memory_bytes)
      cells.push_back({name(kind, "_bytes"), bytes});
    return cells;
  }

  /// "optimizer state" becomes optimizer_state_bytes: a name that needs no quotes anywhere.
  static std::string name(std::string words, std::string_view unit) {
    for (char& c : words) {
      bool const kept = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
      if (!kept) c = '_';
    }
    return words.append(unit);
  }

  void check_names(std::vector<Cell> const& cells) const {
    for (auto cell = cells.begin(); cell != cells.end(); ++cell) {
      auto const same = [&](Cell const& other) { return other.column == cell->column; };
      if (std::any_of(cells.begin(), cell, same)) {
        throw InvalidArgument("metrics: two columns are named '" + cell->column + "'");
      }
      if (!columns_.empty() &&
          std::find(columns_.begin(), columns_.end(), cell->column) == columns_.end()) {
        throw InvalidArgument("metrics: the first row of '" + path_ + "' has no column '" +
                              cell->column + "'");
      }
    }
  }

  std::vector<Cell> in_columns(std::vector<Cell> cells) const {
    std::vector<Cell> ordered;
    for (std::string const& column : columns_) {
      auto const found = std::find_if(cells.begin(), cells.end(),
                                      [&](Cell const& c) { return c.column == column; });
      ordered.push_back(found != cells.end() ? std::move(*found) : Cell{column, {}});
    }
    return ordered;
  }

  static std::string json_row(std::vector<Cell> const& cells) {
    JsonLine line;
    for (Cell const& cell : cells) {
      if (auto const* whole = std::get_if<Index>(&cell.value)) {
        line.add(cell.column, *whole);
      } else if (auto const* number = std::get_if<double>(&cell.value)) {
        line.add(cell.column, *number);
      } else {
        line.add(cell.column, nullptr);
      }
    }
    return line.text() + "\n";
  }

  static std::string value_text(Cell const& cell) {
    if (auto const* whole = std::get_if<Index>(&cell.value)) return std::to_string(*whole);
    if (auto const* number = std::get_if<double>(&cell.value)) return shortest_text(*number);
    return "";
  }

  template <class Text>
  static std::string csv_row(std::vector<Cell> const& cells, Text text) {
    std::string row;
    for (Cell const& cell : cells)
      row += (row.empty() ? "" : ",") + text(cell);  // the first cell is never empty
    return row + "\n";
  }

  void append(std::string_view row) {
    for (std::string_view rest = row; !rest.empty();) {
      ssize_t const count = ::write(file_, rest.data(), rest.size());
      if (count > 0) {
        rest.remove_prefix(static_cast<std::size_t>(count));
      } else if (count == 0 || errno != EINTR) {
        int const reason = count == 0 ? EIO : errno;
        // Takes back the part that was written; where that fails too (a pipe, a device), nothing is
        // left to do.
        if (::ftruncate(file_, size_) == 0) ::lseek(file_, size_, SEEK_SET);
        fail("cannot write", reason);
      }
    }
    size_ += static_cast<off_t>(row.size());
  }

  [[noreturn]] void fail(char const* what, int reason) const {
    throw Error("metrics: " + std::string(what) + " '" + path_ +
                "': " + detail::system_text(reason));
  }

  std::string path_;
  Format format_;
  int file_ = -1;
  off_t size_ = 0;
  std::vector<std::string> columns_;
};

}  // namespace zero
