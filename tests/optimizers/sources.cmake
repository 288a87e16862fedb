# SPDX-License-Identifier: Apache-2.0
set(threads OFF) # ranks on threads, as in equivalence/ and order/
if(CMAKE_CXX_FLAGS MATCHES "fsanitize=thread")
  return()
endif()
set(sources run.cpp)
foreach(device RANGE 2)
  if(device GREATER 0 AND ZERO_TESTS_LANE STREQUAL "sanitized")
    continue() # their tenth: late streams are equivalence/'s, and what a guarded device shows AddressSanitizer sees
  endif()
  foreach(stage RANGE 3)
    set(part zero_test_optimizers_${device}_${stage})
    add_library(${part} OBJECT ${zero_tests_dir}/optimizers/run_as.cpp)
    target_compile_definitions(${part} PRIVATE ZERO_TEST_DEVICE=${device} ZERO_TEST_STAGE=${stage})
    zero_test_options(${part})
    list(APPEND libraries ${part})
  endforeach()
endforeach()
