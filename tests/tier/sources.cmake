# SPDX-License-Identifier: Apache-2.0
set(sources run.cpp io_faults.cpp)
set(tier_parts product floats hostile_late hostile_guarded)
foreach(part IN LISTS tier_parts)
  string(REGEX REPLACE "_.*" "" file ${part})
  if(part STREQUAL "hostile_guarded" AND ZERO_TESTS_LANE STREQUAL "sanitized")
    continue() # AddressSanitizer already sees what the guarded device shows
  endif()
  add_library(zero_test_tier_${part} OBJECT ${zero_tests_dir}/tier/${file}.cpp)
  target_compile_definitions(zero_test_tier_${part} PRIVATE ZERO_TEST_LATE=$<STREQUAL:${part},hostile_late>)
  zero_test_options(zero_test_tier_${part})
  target_compile_options(zero_test_tier_${part} PRIVATE -O0) # each holds many trainers that run for moments
  list(APPEND libraries zero_test_tier_${part})
endforeach()
