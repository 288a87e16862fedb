# SPDX-License-Identifier: Apache-2.0
set(libraries gpt2_parts)
set(options ${zero_computes}) # a GPT's own loops
set(sanitized OFF) # OpenBLAS is not instrumented
# GCC 12 warns of std::string's own copies where it has read the library's headers before (its bug 105651).
set_source_files_properties(${dir}/checkpoint_test.cpp PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
set(timeout 300) # a case trains the default model at four stages
if(TARGET gpt2)
  set(definitions ZERO_GPT2_PROGRAM="$<TARGET_FILE:gpt2>") # the program is tested from outside
  set(programs gpt2 gpt2_blas_probe gpt2_removal_probe)
  add_library(gpt2_blas_probe SHARED ${dir}/blas_probe.cpp)
  target_link_libraries(gpt2_blas_probe PRIVATE gpt2_parts ${CMAKE_DL_LIBS})
  list(APPEND definitions ZERO_GPT2_BLAS_PROBE="$<TARGET_FILE:gpt2_blas_probe>")
  add_library(gpt2_removal_probe SHARED ${dir}/removal_probe.cpp)
  list(APPEND definitions ZERO_GPT2_REMOVAL_PROBE="$<TARGET_FILE:gpt2_removal_probe>")
  if(TARGET zero::checkpoint)
    list(APPEND definitions ZERO_GPT2_CHECKPOINTS=1)
  endif()
  if(TARGET zero::mpi)
    list(APPEND definitions ZERO_GPT2_MPI=1)
  endif()
  if(TARGET zero::config)
    list(APPEND definitions ZERO_GPT2_CONFIG_CASES="${zero_tests_dir}/config/cases")
  endif()
endif()
