# SPDX-License-Identifier: Apache-2.0
include(${zero_tests_dir}/support/runner.cmake)
set(sanitized divergence_test.cpp early_updates_test.cpp order_test.cpp passes_test.cpp replay_test.cpp several_trainers_test.cpp
  unchecked_test.cpp)
set(timeout 300)
