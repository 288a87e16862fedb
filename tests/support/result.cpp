// SPDX-License-Identifier: Apache-2.0
#include <support/result.hpp>
#include <support/rounding.hpp>

#include <bit>
#include <cmath>
#include <sstream>

namespace zero_test {

namespace {

/// Equal bits; every NaN is as good as another.
bool same(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}
bool same(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

/// Says where things differ; keeps what it was told first.
class Finding {
 public:
  template <class... T>
  void say(T const&... parts) {
    if (!text_.empty()) return;
    std::ostringstream out;
    out.precision(17);
    (out << ... << parts);
    text_ = out.str();
  }
  std::string const& text() const { return text_; }
  bool found() const { return !text_.empty(); }

  template <class T>
  void compare(std::vector<T> const& a, std::vector<T> const& b, std::string const& what) {
    if (a.size() != b.size()) return say(what, ": ", a.size(), " against ", b.size(), " numbers");
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (!same(a[i], b[i])) return say(what, ", number ", i, ": ", a[i], " against ", b[i]);
    }
  }
  void compare(Tensors const& a, Tensors const& b, std::string const& what) {
    if (a.size() != b.size()) return say(what, ": ", a.size(), " against ", b.size(), " tensors");
    for (std::size_t t = 0; t < a.size(); ++t)
      compare(a[t], b[t], what + ", tensor " + std::to_string(t));
  }
  void compare(zero::Decision const& a, zero::Decision const& b, std::string const& what) {
    auto const number = [&](char const* name, auto x, auto y) {
      if (!same(static_cast<double>(x), static_cast<double>(y)))
        say(what, ", ", name, ": ", x, " against ", y);
    };
    number("norm", a.norm, b.norm);
    number("clip factor", a.clip_factor, b.clip_factor);
    number("factor", a.factor, b.factor);
    number("learning rate", a.learning_rate, b.learning_rate);
    number("loss scale", a.loss_scale, b.loss_scale);
    number("used scale", a.used_scale, b.used_scale);
    number("skip", a.skip, b.skip);
    number("cause", static_cast<int>(a.cause), static_cast<int>(b.cause));
    number("failed", a.failed, b.failed);
    number("updates", a.updates, b.updates);
    number("skipped", a.skipped, b.skipped);
    number("bad unit", a.bad_unit, b.bad_unit);
    number("rank of a bad loss", a.bad_loss_rank, b.bad_loss_rank);
    number("diverged rank", a.diverged_rank, b.diverged_rank);
    number("bad losses", a.bad_losses, b.bad_losses);
    number("steps of the scale", a.scale_state.steps, b.scale_state.steps);
    number("last overflow", a.scale_state.last_overflow, b.scale_state.last_overflow);
    number("hysteresis", a.scale_state.hysteresis, b.scale_state.hysteresis);
  }

 private:
  std::string text_;
};

}  // namespace

std::string difference(Result const& a, Result const& b) {
  Finding f;
  if (a.steps.size() != b.steps.size())
    f.say(a.steps.size(), " against ", b.steps.size(), " steps");
  for (std::size_t s = 0; s < a.steps.size() && !f.found(); ++s) {
    std::string const step = "step " + std::to_string(s + 1);
    StepResult const& x = a.steps[s];
    StepResult const& y = b.steps[s];
    f.compare(x.losses, y.losses, step + ", losses");
    f.compare(x.evaluations, y.evaluations, step + ", evaluations");
    f.compare(x.generations, y.generations, step + ", generations");
    if (x.decisions.size() != y.decisions.size()) f.say(step, ": worlds differ");
    for (std::size_t r = 0; r < x.decisions.size() && !f.found(); ++r)
      f.compare(x.decisions[r], y.decisions[r], step + ", rank " + std::to_string(r));
  }
  if (a.snapshots.size() != b.snapshots.size())
    f.say(a.snapshots.size(), " against ", b.snapshots.size(), " snapshots");
  for (std::size_t s = 0; s < a.snapshots.size() && !f.found(); ++s) {
    Snapshot const& x = a.snapshots[s];
    Snapshot const& y = b.snapshots[s];
    std::string const after = "after step " + std::to_string(x.step);
    f.compare(x.gradients, y.gradients, after + ", gradients");
    f.compare(x.weights, y.weights, after + ", weights");
    for (std::size_t k = 0; k < x.moments.size(); ++k)
      f.compare(x.moments[k], y.moments[k], after + ", moment " + std::to_string(k + 1));
  }
  f.compare(a.frozen, b.frozen, "frozen");
  if (!a.replicas.empty() && !b.replicas.empty())
    f.compare(a.replicas.front(), b.replicas.front(), "replicas");
  return f.text();
}

float OfType::stored(float weight) const {
  if (type == Type::bf16) return zero_test::stored<zero::bf16>(weight);
  if (type == Type::fp16) return zero_test::stored<zero::fp16>(weight);
  return weight;
}

std::uint64_t hash_of(Result const& result, OfType type) {
  std::uint64_t sum = 0;
  auto const add = [&sum](Tensors const& tensors, Type as) {
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      for (std::size_t i = 0; i < tensors[t].size(); ++i) {
        std::uint64_t bits = std::bit_cast<std::uint32_t>(tensors[t][i]);
        if (as == Type::bf16) bits = zero::bf16(tensors[t][i]).bits;
        if (as == Type::fp16) bits = zero::fp16(tensors[t][i]).bits;
        sum += zero::mix(zero::mix(t, i), bits);
      }
    }
  };
  add(result.snapshots.back().weights, Type::fp32);
  add(result.frozen, type.type);
  return sum;
}

std::string fault(Result const& result, OfType type) {
  Finding f;
  for (std::size_t s = 0; s < result.steps.size(); ++s) {
    StepResult const& step = result.steps[s];
    for (std::size_t r = 1; r < step.decisions.size(); ++r) {
      f.compare(step.decisions[0], step.decisions[r],
                "step " + std::to_string(s + 1) + ", rank 0 and rank " + std::to_string(r));
    }
  }
  Tensors const& weights = result.snapshots.back().weights;
  Tensors parameters = result.frozen;
  for (std::size_t t = 0; t < weights.size(); ++t) {
    for (float w : weights[t]) parameters[t].push_back(type.stored(w));
  }
  double loss = 0;
  for (double x : result.steps.back().losses) loss += x;
  loss /= static_cast<double>(result.steps.back().losses.size());
  for (std::size_t r = 0; r < result.ranks.size(); ++r) {
    RankNumbers const& n = result.ranks[r];
    std::string const rank = "rank " + std::to_string(r);
    f.compare(parameters, result.replicas[r], rank + ": weights and what leases show");
    if (!n.padding_is_zero) f.say(rank, ": padding is not zero");
    if (!n.readers_agree) f.say(rank, ": the trainer reads other values than its slots hold");
    if (n.parameters_hash != 0 && n.parameters_hash != hash_of(result, type))
      f.say(rank, ": parameters_hash is not the hash of the parameters");
    if (n.parameters_hash != 0 && !same(n.mean_loss, loss))
      f.say(rank, ": mean loss ", n.mean_loss, " against ", loss);
    if (n.extra_slots > 0) continue;
    if (n.peak_bytes != n.planned_bytes)
      f.say(rank, ": peak of ", n.peak_bytes, " bytes, ", n.planned_bytes, " planned");
    if (n.late_allocations > 0) f.say(rank, ": ", n.late_allocations, " allocations after step 1");
    if (n.planned_wire_elements < 0 || n.deviations.extra_visits > 0) continue;
    if (n.wire_elements != n.planned_wire_elements)
      f.say(rank, ": ", n.wire_elements, " elements sent, ", n.planned_wire_elements, " planned");
  }
  return f.text();
}

}  // namespace zero_test
