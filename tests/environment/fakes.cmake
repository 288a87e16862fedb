# SPDX-License-Identifier: Apache-2.0
# The libraries of fake_libraries.cpp, in a folder for LD_LIBRARY_PATH, and what tests of the program are told.
set(zero_environment_fakes ${CMAKE_CURRENT_BINARY_DIR}/environment_fakes)
set(major 13)
if(TARGET zero::cuda)
  set(major ${CUDAToolkit_VERSION_MAJOR})
endif()
foreach(library IN ITEMS cuda.1 cudart.${major} nccl.2)
  string(REGEX MATCH "^(.*)[.](.*)$" _ ${library})
  set(target zero_test_fake_${CMAKE_MATCH_1})
  add_library(${target} SHARED ${zero_tests_dir}/environment/fake_libraries.cpp)
  set_target_properties(${target} PROPERTIES
    OUTPUT_NAME ${CMAKE_MATCH_1} SOVERSION ${CMAKE_MATCH_2} LIBRARY_OUTPUT_DIRECTORY ${zero_environment_fakes})
  add_dependencies(zero-environment ${target})
endforeach()
set(zero_environment_definitions
  ZERO_ENVIRONMENT_PROGRAM="$<TARGET_FILE:zero-environment>" ZERO_ENVIRONMENT_FAKES="${zero_environment_fakes}")
