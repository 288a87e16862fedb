// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a sharded model counts while it trains.

#include <zero/core/size.hpp>

#include <chrono>

namespace zero {

/// How far passes have left the declared order.
struct Deviations {
  Index extra_visits = 0;    ///< visits outside the schedule, gathered on demand
  Index skipped_visits = 0;  ///< visits performed empty
  Index late_gradients = 0;  ///< gradients that came after their unit was reduced
};

/// Host seconds spent in each phase so far. On devices with asynchronous streams this is the time
/// to enqueue.
struct PhaseSeconds {
  double gather = 0;   ///< of parameters, for visits
  double reduce = 0;   ///< of gradients
  double clip = 0;     ///< norm and decision
  double update = 0;   ///< the optimizer
  double publish = 0;  ///< of updated parameters
};

/// Adds the time until it ends to a counter.
class PhaseTimer {
 public:
  /// Starts now.
  /// @param seconds the counter, which outlives this
  explicit PhaseTimer(double& seconds)
      : seconds_(seconds), start_(std::chrono::steady_clock::now()) {}
  PhaseTimer(PhaseTimer const&) = delete;
  PhaseTimer& operator=(PhaseTimer const&) = delete;
  ~PhaseTimer() {
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  double& seconds_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace zero
