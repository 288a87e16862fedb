// SPDX-License-Identifier: Apache-2.0
#pragma once
// The text of a progress line, never wider than it may be: where room is short its parts first take
// their brief form, then those that are kept least are left out.

#include <zero/report/number_text.hpp>
#include <zero/report/screen.hpp>
#include <zero/report/step_record.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace zero {

/// One step in words, for a log or for a terminal of any width.
class ProgressLine {
 public:
  /// @param record what is told
  /// @param total the last step, or 0 when it is not known: then there is no bar and no time left
  /// @param tokens_per_s left out unless above 0
  /// @param seconds estimated until the last step; at the last step, what the run took
  /// @param look what the reader can show
  ProgressLine(StepRecord const& record, Index total, double tokens_per_s, double seconds,
               Screen::Look look)
      : look_(look),
        done_(std::clamp<Index>(record.step, 0, std::max<Index>(total, 0))),
        total_(total) {
    std::string const end = total > 0 ? "/" + std::to_string(total) : "";
    std::string step = std::to_string(record.step);
    step.insert(0, std::max(end.size(), step.size() + 1) - step.size() - 1, ' ');
    add(8, "step " + step + end, step + end);
    add_loss(7, "loss ", record.loss);
    if (record.validation_loss) add_loss(2, "val ", *record.validation_loss);
    add(1, "norm " + norm_text(record.gradient_norm, 3),
        "norm " + norm_text(record.gradient_norm, 2));
    add(0, "lr " + scientific_text(record.learning_rate, 3),
        "lr " + scientific_text(record.learning_rate, 2));
    double const scale = record.loss_scale;
    bool const whole = scale == std::floor(scale);
    if (scale != 1) add(0, "scale " + (whole ? fixed_text(scale, 0) : shortest_text(scale)));
    if (tokens_per_s > 0) add(3, human_count(tokens_per_s) + " tok/s");
    if (record.skipped_steps > 0) {
      add(4, "skipped " + std::to_string(record.skipped_steps));
      parts_.back().colour = yellow;
    }
    if (total > 0) {
      std::string const what = record.step < total ? "ETA " : "took ";
      std::string const time = human_seconds(seconds);
      std::string brief = time;  // 1 min 20 s: 1m20s
      std::erase_if(brief, [](char c) { return c == ' ' || c == 'i' || c == 'n'; });
      add(5, what + time, what + brief);
    }
  }

  /// Every part in full, without bar and colours.
  std::string plain() const {
    std::string text;
    for (Part const& part : parts_) text.append(text.empty() ? "" : "  ").append(part.full);
    return text;
  }

  /// With the bar in front, at most `width` (> 0) columns wide.
  std::string fitted(int width) const {
    Form form{.brief = false, .gap = 2, .percent = 5, .bar = 8};
    std::vector<Part> line = parts_;
    if (total_ > 0) line.insert(line.begin(), Part{bar_keep, "", "", {}});
    if (form.width(line) > width) form = {.brief = true, .gap = 1, .percent = 0, .bar = 4};
    auto const lower = [](Part const& a, Part const& b) { return a.keep < b.keep; };
    while (line.size() > 1 && form.width(line) > width) {
      line.erase(std::min_element(line.begin(), line.end(), lower));
    }
    if (form.width(line) > width) return line.front().brief.substr(0, at(width));

    int const bar = std::min(form.bar + width - form.width(line), widest_bar);
    std::string text;
    for (Part const& part : line) {
      if (!text.empty()) text.append(at(form.gap), ' ');
      text += part.keep == bar_keep ? drawn(bar, form.percent > 0)
                                    : painted(form.text(part), part.colour);
    }
    return text;
  }

 private:
  struct Part {
    int keep;
    std::string full;
    std::string brief;
    std::string_view colour;
  };
  /// Which texts are shown, and the columns of what is not text.
  struct Form {
    bool brief;
    int gap;
    int percent;
    int bar;  // the least

    std::string const& text(Part const& part) const { return brief ? part.brief : part.full; }
    int width(std::vector<Part> const& line) const {
      int sum = -gap;
      for (Part const& part : line) {
        bool const is_bar = part.keep == bar_keep;
        sum += gap + (is_bar ? percent + bar : static_cast<int>(text(part).size()));
      }
      return sum;
    }
  };
  static constexpr int bar_keep = 6;
  static constexpr int widest_bar = 30;
  static constexpr std::string_view green = "32", yellow = "33", dim = "2";

  void add(int keep, std::string const& full, std::string const& brief) {
    parts_.push_back({keep, full, brief, {}});
  }
  void add(int keep, std::string const& text) { add(keep, text, text); }
  void add_loss(int keep, std::string const& name, double loss) {
    bool const plain = std::abs(loss) < 1e4;
    add(keep, name + (plain ? fixed_text(loss, 4) : scientific_text(loss, 4)),
        name + (plain ? fixed_text(loss, 3) : scientific_text(loss, 3)));
  }
  static std::string norm_text(double norm, int digits) {
    bool const plain = norm == 0 || (norm >= 0.01 && norm < 1e4);
    return plain ? fixed_text(norm, digits) : scientific_text(norm, digits);
  }

  /// " 37% " and a bar of so many columns, or the bar alone.
  std::string drawn(int columns, bool with_percent) const {
    std::string percent = std::to_string(100 * done_ / total_) + "% ";
    percent.insert(0, 5 - percent.size(), ' ');
    int const full = static_cast<int>(columns * done_ / total_);
    return (with_percent ? percent : "") +
           painted(repeated(full, look_.line_art ? "\u2501" : "#"), green) +
           painted(repeated(columns - full, look_.line_art ? "\u2500" : "-"), dim);
  }
  std::string painted(std::string const& text, std::string_view colour) const {
    if (text.empty() || colour.empty() || !look_.colours) return text;
    return "\x1b[" + std::string(colour) + "m" + text + "\x1b[0m";
  }
  static std::string repeated(int count, std::string_view piece) {
    std::string text;
    for (int i = 0; i < count; ++i) text += piece;
    return text;
  }

  Screen::Look look_;
  Index done_;
  Index total_;
  std::vector<Part> parts_;
};

}  // namespace zero
