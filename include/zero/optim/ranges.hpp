// SPDX-License-Identifier: Apache-2.0
#pragma once
// What an optimizer's settings may be, and how others are refused.

#include <zero/core/argument.hpp>

#include <cmath>
#include <string>

namespace zero {

/// Checks the settings of one optimizer, each by its member's name.
class SettingsOf {
 public:
  /// @param optimizer "AdamW"
  explicit SettingsOf(std::string optimizer) : optimizer_(std::move(optimizer)) {}

  /// A rate or a decay `x`, member `name`: finite and not negative. @throws InvalidArgument
  void not_negative(char const* name, float x) const {
    require(std::isfinite(x) && x >= 0, name, x, "a number from 0");
  }
  /// The decay `x`, member `name`, of a running mean: in [0, 1), since at 1 it forgets nothing and
  /// starts with nothing.
  /// @throws InvalidArgument
  void below_one(char const* name, float x) const {
    require(x >= 0 && x < 1, name, x, "0 to below 1");
  }
  /// What is divided by where all gradients were 0, `x`, member `name`. @throws InvalidArgument
  void positive(char const* name, float x) const {
    require(std::isfinite(x) && x > 0, name, x,
            "a number above 0, which keeps elements without a gradient finite");
  }
  /// lr, both betas, eps and weight_decay of `o`, AdamW or one like it. @throws InvalidArgument
  template <class O>
  void adam_family(O const& o) const {
    not_negative("lr", o.lr);
    below_one("beta1", o.beta1);
    below_one("beta2", o.beta2);
    positive("eps", o.eps);
    not_negative("weight_decay", o.weight_decay);
  }
  /// @throws InvalidArgument unless `good`: that member `name` was `found` and what was `expected`
  void require(bool good, char const* name, float found, std::string_view expected) const {
    require_argument(good, optimizer_ + "::" + name, static_cast<double>(found), expected);
  }

 private:
  std::string optimizer_;
};

}  // namespace zero
