# SPDX-License-Identifier: Apache-2.0
set(includes ../../examples/tools)
if(TARGET zero-environment)
  include(${zero_tests_dir}/environment/fakes.cmake)
  set(definitions ${zero_environment_definitions}) # tested from outside
endif()
set(sanitized faults_test.cpp)
set(threads OFF)
