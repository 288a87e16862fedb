# SPDX-License-Identifier: Apache-2.0
include(${zero_tests_dir}/support/runner.cmake)
set(timeout 300)
