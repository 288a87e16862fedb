# SPDX-License-Identifier: Apache-2.0
include(${zero_tests_dir}/support/runner.cmake)
set(sanitized given_gradients_test.cpp options_test.cpp stages_test.cpp)
