// SPDX-License-Identifier: Apache-2.0
// Compiled once a stage; ranks.cmake defines the macros.
#include <mpi/ranks/training.hpp>

namespace ranks {

template <int Stage>
Trace trace_at(Ranks communicator, Training const& training) {
  return trace<zero::Sharded<Stage>, zero::Fp32>(communicator, training);
}
template Trace trace_at<ZERO_TEST_STAGE>(Ranks, Training const&);

namespace {

Add const training("training-" ZERO_TEST_STAGE_NAME,
                   [](Arguments const&) { compare_all<ZERO_TEST_STAGE>(); });

}  // namespace

}  // namespace ranks
