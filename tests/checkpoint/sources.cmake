# SPDX-License-Identifier: Apache-2.0
set(sources trainers.cpp ../support/heap.cpp) # heap.cpp: operator new and delete of the whole program
set(libraries zero::checkpoint)
if(TARGET zero-checkpoint)
  set(definitions ZERO_CHECKPOINT_PROGRAM="$<TARGET_FILE:zero-checkpoint>") # tested from outside
  set(programs zero-checkpoint)
endif()
foreach(stage RANGE 3)
  set(part zero_test_checkpoint_${stage})
  if(TARGET zero::checkpoint)
    add_library(${part} OBJECT ${zero_tests_dir}/checkpoint/trainer_as.cpp)
    target_compile_definitions(${part} PRIVATE ZERO_TEST_STAGE=${stage})
    zero_test_options(${part} LIBRARIES zero::checkpoint)
  endif()
  list(APPEND libraries ${part})
endforeach()
set(timeout 300) # a case saves and loads six hundred trainers
set(includes ../../examples/tools) # zero_checkpoint/bar.hpp
# What reads anything, for AddressSanitizer; all threads at once, for ThreadSanitizer. tests/fuzz has more.
set(sanitized safetensors_test.cpp manifest_test.cpp round_trip_test.cpp blocks_test.cpp)
