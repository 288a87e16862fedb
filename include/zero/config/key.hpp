// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the library knows of one key of a DeepSpeed configuration: its type, its default and what
// becomes of it. The tables are made of these; nothing else in the room decides about a key.

#include <zero/core/argument.hpp>

#include <limits>
#include <string>
#include <string_view>

namespace zero {

/// Most updates that a number may count: as many as a double tells apart.
inline constexpr double most_updates = static_cast<double>(max_count);

/// What a key may hold.
enum class KeyType {
  boolean,  ///< true or false
  whole,    ///< a whole number
  number,   ///< any number
  text,     ///< a string
  choice,   ///< one of some strings
  pair,     ///< two numbers
  list,     ///< an array
  section,  ///< an object
  anything  ///< any value: it is not looked at
};

/// What becomes of a key that is given.
enum class KeyStatus {
  honoured,  ///< it drives what the table says
  accepted,  ///< nothing depends on it here; one warning says why that is harmless
  refused    ///< any value but the neutral one would change results, or belongs to another system
};

/// Where the value of a key comes from that says "auto".
enum class Auto {
  none,            ///< no rule: "auto" is refused
  micro_batch,     ///< samples of one micro-batch on one rank
  accumulation,    ///< micro-batches of a step
  train_batch,     ///< samples of a step on all ranks
  max_grad_norm,   ///< the arguments' norm to clip at
  learning_rate,   ///< the arguments'
  betas,           ///< the arguments' adam_beta1 and adam_beta2
  epsilon,         ///< the arguments' adam_epsilon
  weight_decay,    ///< the arguments'
  nothing,         ///< 0
  total_steps,     ///< of the whole run
  warmup_steps,    ///< the arguments', in steps or as a share of all
  fp16,            ///< whether the arguments ask for it
  bf16,            ///< whether the arguments ask for it
  hidden_squared,  ///< the model's hidden size squared
  prefetch,        ///< 0.9 of that
  persistence,     ///< 10 hidden sizes
  no_gather        ///< false
};

/// A row of the tables. Built as whole("a.b", "5").at_least(1).drives("...").
// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): in the order in which a row is read
struct Key {
  std::string_view path;      ///< from the top, joined by points
  KeyType type;               ///< what it may hold
  std::string_view fallback;  ///< DeepSpeed's default as JSON; "null": none; "": must be given
  KeyStatus status = KeyStatus::honoured;  ///< what becomes of it
  std::string_view what{};     ///< what it drives, why it is harmless, or why it is refused
  std::string_view choices{};  ///< of a choice: words with blanks between them
  double low = -std::numeric_limits<double>::infinity();  ///< of numbers
  double high = std::numeric_limits<double>::infinity();  ///< of numbers
  bool above_low = false;                                 ///< low itself is out
  bool below_high = false;                                ///< high itself is out
  std::string_view unit{};                                ///< what a number counts
  Auto automatic = Auto::none;                            ///< the rule for "auto"
  std::string_view of{};  ///< types of optimizer or scheduler that have it, with blanks between
  bool switched = false;  ///< a section of another system: its inside counts only while `enabled`
  std::string_view translated{};  ///< the key's other spelling leads here
  bool deprecated = false;        ///< and using it is worth a warning

  /// With a lowest value.
  constexpr Key at_least(double value) const {
    Key k = *this;
    k.low = value;
    return k;
  }
  /// With a value below the lowest.
  constexpr Key above(double value) const {
    Key k = at_least(value);
    k.above_low = true;
    return k;
  }
  /// With a highest value.
  constexpr Key at_most(double value) const {
    Key k = *this;
    k.high = value;
    return k;
  }
  /// With a value above the highest.
  constexpr Key below(double value) const {
    Key k = at_most(value);
    k.below_high = true;
    return k;
  }
  /// With what a number counts.
  constexpr Key counts(std::string_view name) const {
    Key k = *this;
    k.unit = name;
    return k;
  }
  /// With a rule for "auto".
  constexpr Key filled(Auto rule) const {
    Key k = *this;
    k.automatic = rule;
    return k;
  }
  /// For these types of optimizer or scheduler alone.
  constexpr Key only(std::string_view types) const {
    Key k = *this;
    k.of = types;
    return k;
  }
  /// Honoured.
  constexpr Key drives(std::string_view text) const { return state(KeyStatus::honoured, text); }
  /// Accepted.
  constexpr Key harmless(std::string_view text) const { return state(KeyStatus::accepted, text); }
  /// Refused.
  constexpr Key refused(std::string_view text) const { return state(KeyStatus::refused, text); }
  /// Another system's section.
  constexpr Key only_if_enabled() const {
    Key k = *this;
    k.switched = true;
    return k;
  }

  /// Whether an absent key has a value.
  constexpr bool has_default() const { return !fallback.empty(); }
  /// Whether null means not given.
  constexpr bool may_be_null() const { return fallback == "null"; }
  /// The last part of the path.
  constexpr std::string_view name() const {
    std::size_t const point = path.rfind('.');
    return point == std::string_view::npos ? path : path.substr(point + 1);
  }
  /// The path without its last part; "" at the top.
  constexpr std::string_view parent() const {
    std::size_t const point = path.rfind('.');
    return point == std::string_view::npos ? std::string_view() : path.substr(0, point);
  }
  /// Whether an optimizer or scheduler of this type has the key.
  constexpr bool belongs_to(std::string_view type_name) const {
    std::string_view rest = of;
    while (!rest.empty()) {
      std::size_t const end = rest.find(' ');
      if (rest.substr(0, end) == type_name) return true;
      rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    }
    return of.empty();
  }

 private:
  constexpr Key state(KeyStatus s, std::string_view text) const {
    Key k = *this;
    k.status = s;
    k.what = text;
    return k;
  }
};

namespace keys {

/// A row of true or false.
constexpr Key boolean(std::string_view path, std::string_view fallback) {
  return {path, KeyType::boolean, fallback};
}
/// A row of a whole number.
constexpr Key whole(std::string_view path, std::string_view fallback) {
  return {path, KeyType::whole, fallback};
}
/// A row of any number.
constexpr Key number(std::string_view path, std::string_view fallback) {
  return {path, KeyType::number, fallback};
}
/// A row of a string.
constexpr Key text(std::string_view path, std::string_view fallback) {
  return {path, KeyType::text, fallback};
}
/// A row of one of `words`, with blanks between them.
constexpr Key choice(std::string_view path, std::string_view fallback, std::string_view words) {
  Key k{path, KeyType::choice, fallback};
  k.choices = words;
  return k;
}
/// Two numbers, such as betas.
constexpr Key pair(std::string_view path, std::string_view fallback) {
  return {path, KeyType::pair, fallback};
}
/// A row of an array.
constexpr Key list(std::string_view path, std::string_view fallback) {
  return {path, KeyType::list, fallback};
}
/// A row of an object, whose own keys have rows of theirs.
constexpr Key section(std::string_view path) { return {path, KeyType::section, "{}"}; }
/// A row of a value that is not looked at.
constexpr Key anything(std::string_view path, std::string_view fallback) {
  return {path, KeyType::anything, fallback};
}
/// Another spelling of `to`.
constexpr Key alias(std::string_view path, std::string_view to, bool deprecated) {
  Key k{path, KeyType::anything, "null"};
  k.what = "another spelling";
  k.translated = to;
  k.deprecated = deprecated;
  return k;
}

}  // namespace keys

}  // namespace zero
