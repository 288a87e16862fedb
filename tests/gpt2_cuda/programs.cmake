# SPDX-License-Identifier: Apache-2.0
# The GPT's kernels and model on a GPU; skipped where there is none. Its plans need none, nor what its kernels call.
if(TARGET cuda_host_tests)
  target_sources(cuda_host_tests PRIVATE ${zero_tests_dir}/gpt2_cuda/plans.cpp)
  target_include_directories(cuda_host_tests PRIVATE ${PROJECT_SOURCE_DIR}/examples)
endif()
if(NOT TARGET gpt2_cuda_parts OR NOT TARGET gpt2_parts OR NOT doctest_FOUND)
  zero_leave_out("tests/gpt2_cuda" "cuDNN, cuBLASLt, OpenBLAS or doctest is not found")
  return()
endif()
file(GLOB gpt2_cuda_tests CONFIGURE_DEPENDS ${zero_tests_dir}/gpt2_cuda/*_test.cu)
add_executable(gpt2_cuda_tests ${gpt2_cuda_tests} ${cuda_dir}/main.cu)
zero_cuda_test_options(gpt2_cuda_tests)
target_link_libraries(gpt2_cuda_tests PRIVATE gpt2_cuda_parts gpt2_parts doctest::doctest)
doctest_discover_tests(gpt2_cuda_tests
  TEST_PREFIX gpt2_cuda/
  ADD_LABELS 0
  PROPERTIES FAIL_REGULAR_EXPRESSION "test cases: +0 [|]" SKIP_RETURN_CODE 77 TIMEOUT 300 LABELS gpu)
# The program itself, at each stage, by threads that share a GPU: the same bits.
if(TARGET gpt2)
  add_test(NAME "gpt2_cuda/the program ends with the same bits at every stage"
    COMMAND ${ZERO_BASH} ${zero_tests_dir}/gpt2_cuda/same_bits.sh $<TARGET_FILE:gpt2>)
  set_tests_properties("gpt2_cuda/the program ends with the same bits at every stage" PROPERTIES
    LABELS gpu SKIP_RETURN_CODE 77 TIMEOUT 300)
  if(ZERO_GPT2_OFFLOAD)
    add_test(NAME "gpt2_cuda/the program ends with the same bits with state below the GPU"
      COMMAND ${ZERO_BASH} ${zero_tests_dir}/gpt2_cuda/offloaded_bits.sh $<TARGET_FILE:gpt2>)
    set_tests_properties("gpt2_cuda/the program ends with the same bits with state below the GPU" PROPERTIES
      LABELS gpu SKIP_RETURN_CODE 77 TIMEOUT 300)
  endif()
  if(TARGET zero::checkpoint)
    add_test(NAME "gpt2_cuda/the program resumes what it has saved, and a host loads it"
      COMMAND ${ZERO_BASH} ${zero_tests_dir}/gpt2_cuda/resumed_bits.sh $<TARGET_FILE:gpt2>)
    set_tests_properties("gpt2_cuda/the program resumes what it has saved, and a host loads it" PROPERTIES
      LABELS gpu SKIP_RETURN_CODE 77 TIMEOUT 300)
  endif()
  add_test(NAME "gpt2_cuda/the program under torchrun"
    COMMAND ${ZERO_BASH} ${zero_tests_dir}/gpt2_cuda/torchrun.sh $<TARGET_FILE:gpt2>)
  add_test(NAME "gpt2_cuda/the program on tokens of a file, at published sizes"
    COMMAND ${ZERO_BASH} ${zero_tests_dir}/gpt2_cuda/sizes_and_tokens.sh $<TARGET_FILE:gpt2>)
  set_tests_properties("gpt2_cuda/the program under torchrun" "gpt2_cuda/the program on tokens of a file, at published sizes" PROPERTIES
    LABELS gpu SKIP_RETURN_CODE 77 TIMEOUT 600 RUN_SERIAL ON)
  foreach(stage RANGE 3)
    set(name "gpt2_cuda/bytes over NCCL are those that the library counts, stage ${stage}")
    add_test(NAME ${name} COMMAND ${ZERO_BASH} ${cuda_dir}/wire.sh $<TARGET_FILE:gpt2> ${stage})
    set_tests_properties(${name} PROPERTIES LABELS gpu SKIP_RETURN_CODE 77 TIMEOUT 300 RUN_SERIAL ON)
  endforeach()
endif()
