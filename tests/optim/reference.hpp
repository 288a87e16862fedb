// SPDX-License-Identifier: Apache-2.0
#pragma once
// What each optimizer of the menu does to one element, written from its paper over Bounded numbers:
// in double, with a bound on what float may make of it. None of the library is asked.

#include <zero/optim/adagrad.hpp>
#include <zero/optim/adam.hpp>
#include <zero/optim/adamw.hpp>
#include <zero/optim/lamb.hpp>
#include <zero/optim/lion.hpp>
#include <zero/optim/sgd.hpp>

#include <support/bounded.hpp>

#include <cmath>

namespace reference {

using zero_test::Bounded;

/// 1 - b in float, which is exact for b from 1/2 to 1.
inline Bounded rest(float b) { return {1 - double{b}}; }
/// 1 / (1 - b^t), rounded to float once.
inline Bounded correction(float b, int t) {
  return Bounded::rounded(1 / (1 - std::pow(double{b}, t)), 0);
}

/// m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps), moments moved first.
template <class O>
Bounded adam(O const& o, Bounded c1, Bounded c2, Bounded g, Bounded* s) {
  s[0] = Bounded(double{o.beta1}) * s[0] + rest(o.beta1) * g;
  s[1] = Bounded(double{o.beta2}) * s[1] + rest(o.beta2) * g * g;
  return s[0] * c1 / (root(s[1] * c2) + Bounded(double{o.eps}));
}
template <class O>
Bounded decayed(O const& o, float decay, Bounded w) {
  return Bounded(double{o.weight_decay}) * Bounded(double{decay}) * w;
}

/// The rate of update t, from 1, before a schedule.
template <class O>
double rate(O const& o, int) {
  return double{o.lr};
}
/// lr / (1 + (t - 1) lr_decay), as PyTorch.
inline double rate(zero::Adagrad const& o, int t) {
  return double{o.lr} / (1 + (t - 1) * double{o.lr_decay});
}
/// DeepSpeed's takes the bias out of the rate: sqrt(1 - beta2^t) / (1 - beta1^t).
inline double rate(zero::Lamb const& o, int t) {
  if (o.correction != zero::LambCorrection::rate) return double{o.lr};
  return double{o.lr} * std::sqrt(1 - std::pow(double{o.beta2}, t)) /
         (1 - std::pow(double{o.beta1}, t));
}

/// The direction of update t, from 1; moves the states s.
inline Bounded direction(zero::AdamW const& o, int t, Bounded w, Bounded g, Bounded* s, float d) {
  return adam(o, correction(o.beta1, t), correction(o.beta2, t), g, s) + decayed(o, d, w);
}
inline Bounded direction(zero::Adam const& o, int t, Bounded w, Bounded g, Bounded* s, float d) {
  return adam(o, correction(o.beta1, t), correction(o.beta2, t), g + decayed(o, d, w), s);
}
/// Before the trust ratio, which is the tensor's.
inline Bounded direction(zero::Lamb const& o, int t, Bounded w, Bounded g, Bounded* s, float d) {
  bool const corrects = o.correction == zero::LambCorrection::moments;
  Bounded const c1 = corrects ? correction(o.beta1, t) : Bounded(1.0);
  Bounded const c2 = corrects ? correction(o.beta2, t) : Bounded(1.0);
  return adam(o, c1, c2, g, s) + decayed(o, d, w);
}
inline Bounded direction(zero::Lion const& o, int, Bounded w, Bounded g, Bounded* s, float d) {
  Bounded const c = Bounded(double{o.beta1}) * s[0] + rest(o.beta1) * g;
  s[0] = Bounded(double{o.beta2}) * s[0] + rest(o.beta2) * g;
  return sign(c) + decayed(o, d, w);
}
inline Bounded direction(zero::Adagrad const& o, int, Bounded w, Bounded g, Bounded* s, float d) {
  Bounded const all = g + decayed(o, d, w);
  s[0] = s[0] + all * all;
  return all / (root(s[0]) + Bounded(double{o.eps}));
}
inline Bounded direction(zero::Sgd const& o, int t, Bounded w, Bounded g, Bounded* s, float d) {
  Bounded const all = g + decayed(o, d, w);
  if (o.momentum == 0) return all;
  Bounded const momentum(double{o.momentum});
  s[0] = t == 1 ? all : momentum * s[0] + Bounded::rounded(1 - double{o.dampening}, 0) * all;
  return o.nesterov ? all + momentum * s[0] : s[0];
}

}  // namespace reference
