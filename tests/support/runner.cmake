# SPDX-License-Identifier: Apache-2.0
# zero_test_runner: every kind of trainer that support/runner.hpp can run, compiled once for all
# folders of tests that link it.
if(NOT TARGET zero_test_runner)
  add_library(zero_test_runner STATIC ${zero_tests_dir}/support/runner.cpp
                                      ${zero_tests_dir}/support/result.cpp)
  set(runner_parts zero_test_runner)
  set(devices Host LateDevice GuardedDevice)
  if(ZERO_TESTS_LANE STREQUAL "sanitized")
    list(REMOVE_ITEM devices GuardedDevice) # as runner.cpp says
  endif()
  foreach(device IN LISTS devices)
    foreach(stage RANGE 3)
      set(part zero_test_run_${device}_${stage})
      add_library(${part} OBJECT ${zero_tests_dir}/support/run_as.cpp)
      target_compile_definitions(${part} PRIVATE ZERO_TEST_DEVICE=${device} ZERO_TEST_STAGE=${stage})
      target_sources(zero_test_runner PRIVATE $<TARGET_OBJECTS:${part}>)
      list(APPEND runner_parts ${part})
    endforeach()
  endforeach()
  foreach(part IN LISTS runner_parts)
    zero_test_options(${part} OPTIONS ${zero_computes})
  endforeach()
endif()
list(APPEND libraries zero_test_runner)
