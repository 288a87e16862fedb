// SPDX-License-Identifier: Apache-2.0
#include <zero/core/noise.hpp>

#include <tier/run.hpp>
#include <unistd.h>

#include <bit>
#include <filesystem>

namespace tier_test {

zero::Units const& units() {
  static zero::Units const all = zero_test::everything().units;
  return all;
}

float gradient(int step, Index micro_batch, int rank, Index element) {
  Index const key = (Index{step} * 8 + micro_batch) * 64 + rank;
  return static_cast<float>(zero::noise_normal(5, key, element) * (element % 5 == 0 ? 1e-3 : 1.0));
}

std::string const& folder() {
  struct Folder {
    std::string path =
        (std::filesystem::temp_directory_path() / ("zero_tier_tests_" + std::to_string(getpid())))
            .string();
    Folder() { std::filesystem::create_directories(path); }
    ~Folder() { std::filesystem::remove_all(path); }
  };
  static Folder const made;
  return made.path;
}

Index entries(std::string const& path) {
  Index n = 0;
  for ([[maybe_unused]] auto const& entry : std::filesystem::directory_iterator(path)) ++n;
  return n;
}

namespace {

std::string difference(Tensors const& a, Tensors const& b) {
  if (a.size() != b.size()) return "numbers of tensors";
  for (std::size_t t = 0; t < a.size(); ++t) {
    if (a[t].size() != b[t].size()) return "sizes of tensor " + std::to_string(t);
    for (std::size_t i = 0; i < a[t].size(); ++i) {
      if (std::bit_cast<std::uint32_t>(a[t][i]) != std::bit_cast<std::uint32_t>(b[t][i]))
        return "tensor " + std::to_string(t) + " element " + std::to_string(i) + ": " +
               std::to_string(a[t][i]) + " and " + std::to_string(b[t][i]);
    }
  }
  return {};
}

}  // namespace

std::string difference(Outcome const& a, Outcome const& b) {
  auto const named = [](std::string const& what, std::string const& found) {
    return found.empty() ? found : what + ": " + found;
  };
  for (std::size_t s = 0; s < a.steps.size(); ++s) {
    std::string const step = "step " + std::to_string(s);
    std::string d = named(step + " weights", difference(a.steps[s].weights, b.steps[s].weights));
    for (std::size_t k = 0; k < 2 && d.empty(); ++k)
      d = named(step + " states", difference(a.steps[s].states[k], b.steps[s].states[k]));
    for (std::size_t r = 0; r < a.steps[s].decisions.size() && d.empty(); ++r) {
      zero::Decision const& x = a.steps[s].decisions[r];
      zero::Decision const& y = b.steps[s].decisions[r];
      if (std::bit_cast<std::uint64_t>(x.norm) != std::bit_cast<std::uint64_t>(y.norm) ||
          x.skip != y.skip || x.bad_unit != y.bad_unit || x.updates != y.updates)
        d = step + " decisions: norms " + std::to_string(x.norm) + " and " + std::to_string(y.norm);
    }
    if (!d.empty()) return d;
  }
  for (std::size_t r = 0; r < a.ranks.size(); ++r) {
    if (a.ranks[r].hash != b.ranks[r].hash) return "hashes";
    std::string const d = named("parameters", difference(a.parameters[r], b.parameters[r]));
    if (!d.empty()) return d;
  }
  return {};
}

std::string fault(Outcome const& outcome) {
  for (std::size_t r = 0; r < outcome.ranks.size(); ++r) {
    Numbers const& n = outcome.ranks[r];
    std::string const rank = "rank " + std::to_string(r) + ": ";
    if (n.hash != outcome.ranks[0].hash) return rank + "hash";
    std::string const d = difference(outcome.parameters[r], outcome.parameters[0]);
    if (!d.empty()) return rank + "parameters: " + d;
    if (n.late_allocations != 0)
      return rank + std::to_string(n.late_allocations) + " late allocations";
    if (n.padding != 0) return rank + std::to_string(n.padding) + " elements of padding are not 0";
    auto const unplanned = [](Bytes const& b) { return b.planned != b.peak || b.now != b.peak; };
    auto const text = [](Bytes const& b) {
      return " planned " + std::to_string(b.planned) + ", peak " + std::to_string(b.peak) +
             ", now " + std::to_string(b.now);
    };
    if (unplanned(n.device)) return rank + "device" + text(n.device);
    if (unplanned(n.host)) return rank + "host" + text(n.host);
    if (unplanned(n.nvme)) return rank + "files" + text(n.nvme);
  }
  return {};
}

}  // namespace tier_test
