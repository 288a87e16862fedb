// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ten weights, their gradients in five steps, and AdamW over them in double: the figures of "table
// adam" of the collected cases. Each element meets one thing: a sign that turns, a gradient 50
// times larger in one step, weights near and at 0, gradients of 0.

#include <zero/core/size.hpp>

#include <array>
#include <cmath>
#include <vector>

namespace adam_table {

inline constexpr int num_elements = 10;
inline constexpr int num_steps = 5;

/// AdamW's numbers; at first the table's.
struct Rates {
  double lr = 1e-2;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
};
inline constexpr Rates rates{};

inline constexpr std::array<double, num_elements> initial = {0.5,  -1.25, 2.0, -0.03125, 0.001,
                                                             -3.0, 0.75,  0.0, -0.6,     1.5};

inline constexpr std::array<std::array<double, num_elements>, num_steps> gradients = {{
    {0.1, -0.2, 0.3, -0.4, 0.05, 0.25, -0.15, 0.6, -0.35, 0.0},
    {0.2, 0.1, -0.1, -0.3, 0.0001, 0.5, 0.05, -0.2, 0.4, 0.0},
    {5.0, -4.0, 3.0, 2.0, -1.0, 6.0, -7.0, 0.5, 8.0, 0.0},
    {0.001, 0.002, -0.003, 0.0004, -5e-05, 0.0, 0.007, -0.008, 0.01, 0.0},
    {-0.3, 0.2, 0.1, 0.0, 0.4, -0.5, 0.6, -0.7, 0.05, 0.0},
}};

// Of step 3, the one with large gradients (number 2, from 0): the norm, and what clips it to 1.
inline constexpr double step_3_norm = 14.291605927956452;
inline constexpr double step_3_clip_factor = 0.06997113795817148;

/// One element under AdamW, in double.
struct Element {
  double weight = 0;
  double m = 0;
  double v = 0;

  /// Update number t, from 1.
  void update(int t, double gradient, Rates const& r = rates) {
    m = r.beta1 * m + (1 - r.beta1) * gradient;
    v = r.beta2 * v + (1 - r.beta2) * gradient * gradient;
    double const m_hat = m / (1 - std::pow(r.beta1, t));
    double const v_hat = v / (1 - std::pow(r.beta2, t));
    weight -= r.lr * (m_hat / (std::sqrt(v_hat) + r.eps) + r.weight_decay * weight);
  }
};

/// `size` elements: number i has the weights and gradients of row i mod 10.
class Reference {
 public:
  explicit Reference(int size = num_elements) {
    for (int i = 0; i < size; ++i) elements_.push_back({initial[zero::at(i % num_elements)]});
  }

  /// Step number `step`, from 0; its gradients clipped to the norm `clip`, 0: not.
  void step(int step, double clip = 0) {
    auto const& row = gradients[zero::at(step)];
    double sum = 0;
    for (std::size_t i = 0; i < elements_.size(); ++i)
      sum += row[i % num_elements] * row[i % num_elements];
    double const norm = std::sqrt(sum);
    double const factor = clip > 0 && norm + 1e-6 > clip ? clip / (norm + 1e-6) : 1.0;
    for (std::size_t i = 0; i < elements_.size(); ++i)
      elements_[i].update(step + 1, factor * row[i % num_elements]);
  }

  std::vector<Element> const& elements() const { return elements_; }

 private:
  std::vector<Element> elements_;
};

}  // namespace adam_table
