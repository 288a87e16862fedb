# SPDX-License-Identifier: Apache-2.0
# Tests that need nvcc to be built and a GPU to be run: where there is none, each says so and is skipped.
set(zero_cuda_warnings -Werror=all-warnings -Xcompiler=-Wall,-Wextra,-Wshadow,-Werror)

set(cuda_dir ${zero_tests_dir}/cuda)
function(zero_cuda_test_options target)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:${zero_cuda_warnings}>)
  target_compile_definitions(${target} PRIVATE DOCTEST_CONFIG_SUPER_FAST_ASSERTS)
  target_include_directories(${target} PRIVATE ${zero_tests_dir})
  target_link_libraries(${target} PRIVATE zero::cuda ${CMAKE_DL_LIBS})
endfunction()

# calls.cpp counts what the target's objects call of CUDA and, as their waits, of the system.
function(zero_count_calls target)
  target_sources(${target} PRIVATE ${cuda_dir}/calls.cpp)
  foreach(name IN ITEMS sched_yield nanosleep clock_nanosleep pthread_cond_wait pthread_cond_timedwait pthread_cond_clockwait
      _ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE)
    target_link_options(${target} PRIVATE LINKER:--wrap=${name})
  endforeach()
endfunction()

set(cuda_hpp ${zero_cuda_headers})
list(FILTER cuda_hpp INCLUDE REGEX "[.]hpp$")
zero_header_tests(headers.cuda_host HEADERS ${cuda_hpp} LIBRARIES zero::cuda)
zero_header_tests(headers.cuda NVCC HEADERS ${zero_cuda_headers} LIBRARIES zero::cuda)

# A project that finds the installed library and its component cuda.
list(GET CMAKE_CUDA_ARCHITECTURES 0 architecture)
get_filename_component(nccl_folder ${NCCL_LIBRARY} DIRECTORY)
add_test(NAME install/find_package_cuda
  COMMAND ${ZERO_BASH} ${zero_tests_dir}/install/run.sh find_package_cuda ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
set_tests_properties(install/find_package_cuda PROPERTIES TIMEOUT 600 LABELS cuda ENVIRONMENT
  "CXX=${CMAKE_CXX_COMPILER};CUDACXX=${CMAKE_CUDA_COMPILER};CUDAARCHS=${architecture};CMAKE_GENERATOR=${CMAKE_GENERATOR};CMAKE_INCLUDE_PATH=${NCCL_INCLUDE_DIR};CMAKE_LIBRARY_PATH=${nccl_folder}")

find_package(doctest CONFIG QUIET)
if(NOT doctest_FOUND)
  zero_leave_out("tests/cuda" "doctest is not found (package doctest-dev)")
  return()
endif()
include(doctest)

# What needs CUDA's and NCCL's libraries, but no GPU.
zero_test_main()
add_executable(cuda_host_tests ${cuda_dir}/bootstrap.cpp ${cuda_dir}/range.cpp ${cuda_dir}/counted.cpp)
zero_test_options(cuda_host_tests LIBRARIES zero_test_main zero::cuda ${CMAKE_DL_LIBS})
zero_count_calls(cuda_host_tests)
add_library(zero_test_nvtx_listener MODULE ${cuda_dir}/nvtx_listener.cpp)
target_link_libraries(zero_test_nvtx_listener PRIVATE zero::cuda)
add_dependencies(cuda_host_tests zero_test_nvtx_listener)
target_compile_definitions(cuda_host_tests PRIVATE ZERO_TEST_NVTX_LISTENER="$<TARGET_FILE:zero_test_nvtx_listener>")
doctest_discover_tests(cuda_host_tests
  TEST_PREFIX cuda/
  ADD_LABELS 0
  PROPERTIES FAIL_REGULAR_EXPRESSION "test cases: +0 [|]" TIMEOUT 60 LABELS cuda)

# tests/environment beside CUDA's and NCCL's headers; where everything is built, its own folder is it.
if(ZERO_TESTS_LANE STREQUAL "cuda" AND TARGET zero-environment)
  include(environment/fakes.cmake)
  add_executable(environment_tests
    ${zero_tests_dir}/environment/faults_test.cpp ${zero_tests_dir}/environment/program_test.cpp)
  zero_test_options(environment_tests LIBRARIES zero_test_main)
  target_include_directories(environment_tests PRIVATE ${PROJECT_SOURCE_DIR}/examples/tools)
  target_compile_definitions(environment_tests PRIVATE ${zero_environment_definitions})
  doctest_discover_tests(environment_tests
    TEST_PREFIX environment/
    ADD_LABELS 0
    PROPERTIES FAIL_REGULAR_EXPRESSION "test cases: +0 [|]" TIMEOUT 60 LABELS environment)
endif()
if(TARGET zero-environment)
  add_test(NAME "cuda/zero-environment beside a GPU" COMMAND ${ZERO_BASH} ${cuda_dir}/environment.sh $<TARGET_FILE:zero-environment>)
  set_tests_properties("cuda/zero-environment beside a GPU" PROPERTIES LABELS gpu SKIP_RETURN_CODE 77 TIMEOUT 60)
endif()

file(GLOB cuda_tests CONFIGURE_DEPENDS ${cuda_dir}/*_test.cu)
add_executable(cuda_tests ${cuda_tests} ${cuda_dir}/main.cu)
zero_count_calls(cuda_tests)
# The matrix of trainers, one stage an object: nvcc takes its time. Above 3: state below the device, or unchecked gradients.
foreach(stage RANGE 10)
  add_library(cuda_stage_${stage} OBJECT ${cuda_dir}/stage.cu)
  target_compile_definitions(cuda_stage_${stage} PRIVATE ZERO_TEST_STAGE=${stage})
  zero_cuda_test_options(cuda_stage_${stage})
  target_sources(cuda_tests PRIVATE $<TARGET_OBJECTS:cuda_stage_${stage}>)
endforeach()
zero_cuda_test_options(cuda_tests)
target_link_libraries(cuda_tests PRIVATE doctest::doctest)
doctest_discover_tests(cuda_tests
  TEST_PREFIX cuda/
  ADD_LABELS 0
  PROPERTIES FAIL_REGULAR_EXPRESSION "test cases: +0 [|]" SKIP_RETURN_CODE 77 TIMEOUT 300 LABELS gpu)

# What a profiler is told, in a program of its own: its own profiler is linked in.
add_executable(cuda_range_tests ${cuda_dir}/ranges.cu ${cuda_dir}/main.cu ${cuda_dir}/nvtx_listener.cpp
  $<TARGET_OBJECTS:cuda_stage_0> $<TARGET_OBJECTS:cuda_stage_1> $<TARGET_OBJECTS:cuda_stage_2> $<TARGET_OBJECTS:cuda_stage_3>)
zero_count_calls(cuda_range_tests)
zero_cuda_test_options(cuda_range_tests)
target_link_libraries(cuda_range_tests PRIVATE doctest::doctest)
doctest_discover_tests(cuda_range_tests
  TEST_PREFIX cuda/
  ADD_LABELS 0
  PROPERTIES FAIL_REGULAR_EXPRESSION "test cases: +0 [|]" SKIP_RETURN_CODE 77 TIMEOUT 300 LABELS gpu)

# Checkpoints between GPUs and the host, in a program of its own: it links Boost.JSON and xxHash.
if(TARGET zero::checkpoint)
  add_executable(cuda_checkpoint_tests ${cuda_dir}/checkpoint.cu ${cuda_dir}/main.cu)
  zero_cuda_test_options(cuda_checkpoint_tests)
  target_link_libraries(cuda_checkpoint_tests PRIVATE zero::checkpoint doctest::doctest)
  doctest_discover_tests(cuda_checkpoint_tests
    TEST_PREFIX cuda/
    ADD_LABELS 0
    PROPERTIES FAIL_REGULAR_EXPRESSION "test cases: +0 [|]" SKIP_RETURN_CODE 77 TIMEOUT 300 LABELS gpu)
else()
  zero_leave_out("cuda_checkpoint_tests" "there is no zero::checkpoint")
endif()

# Several processes over NCCL, on one GPU if need be.
add_executable(cuda_ranks ${cuda_dir}/ranks.cu)
zero_count_calls(cuda_ranks)
foreach(stage RANGE 3)
  target_sources(cuda_ranks PRIVATE $<TARGET_OBJECTS:cuda_stage_${stage}>)
endforeach()
zero_cuda_test_options(cuda_ranks)
function(zero_cuda_ranks_test name)
  add_test(NAME "cuda/${name}" COMMAND ${ARGN})
  set_tests_properties("cuda/${name}" PROPERTIES LABELS gpu SKIP_RETURN_CODE 77 TIMEOUT 300 RUN_SERIAL ON)
endfunction()
foreach(world IN ITEMS 2 4)
  foreach(scenario IN ITEMS collectives training-0 training-1 training-2 training-3 counted-waits copy-engines late-choice
      lone-choice)
    zero_cuda_ranks_test("${scenario} of ${world} ranks over NCCL"
      ${ZERO_BASH} ${cuda_dir}/several_ranks.sh ${world} $<TARGET_FILE:cuda_ranks> ${scenario})
  endforeach()
endforeach()
zero_cuda_ranks_test("ranks over NCCL meet through a file" ${ZERO_BASH} ${cuda_dir}/id_file.sh $<TARGET_FILE:cuda_ranks>)
if(TARGET zero::mpi)
  add_executable(cuda_mpi_ranks ${cuda_dir}/mpi_ranks.cu)
  zero_cuda_test_options(cuda_mpi_ranks)
  target_link_libraries(cuda_mpi_ranks PRIVATE MPI::MPI_CXX)
  zero_cuda_ranks_test("ranks over NCCL meet by MPI_Bcast"
    ${ZERO_BASH} ${cuda_dir}/mpi_ranks.sh $<TARGET_FILE:cuda_mpi_ranks> ${MPIEXEC_EXECUTABLE})
else()
  zero_leave_out("cuda_mpi_ranks" "there is no zero::mpi")
endif()
foreach(scenario IN ITEMS late dies
    late-stage-1 late-stage-3 late-stage-1-replay late-stage-3-replay
    dies-stage-1 dies-stage-3 dies-stage-1-replay dies-stage-3-replay
    late-stage-3-ahead late-stage-3-replay-ahead)
  zero_cuda_ranks_test("a rank of four over NCCL: ${scenario}"
    ${ZERO_BASH} ${cuda_dir}/failing_ranks.sh $<TARGET_FILE:cuda_ranks> ${scenario})
endforeach()
# Ranks with a GPU each, between which NCCL takes its own ways.
foreach(scenario IN ITEMS collectives training-1 training-3 copy-engines lone-choice)
  set(name "${scenario} of 2 ranks over NCCL, a GPU each")
  zero_cuda_ranks_test(${name} ${ZERO_BASH} ${cuda_dir}/several_ranks.sh --own-gpus 2 $<TARGET_FILE:cuda_ranks> ${scenario})
  set_tests_properties("cuda/${name}" PROPERTIES LABELS gpu2)
endforeach()

# What compute-sanitizer finds in kernels.
add_test(NAME "cuda/compute-sanitizer finds nothing"
  COMMAND ${CMAKE_COMMAND} -E env SECONDS_EACH=900 ${ZERO_BASH} ${cuda_dir}/sanitize.sh $<TARGET_FILE_DIR:cuda_tests>)
set_tests_properties("cuda/compute-sanitizer finds nothing" PROPERTIES LABELS gpu SKIP_RETURN_CODE 77 TIMEOUT 7200 RUN_SERIAL ON)

# What each stage's object calls of NCCL, without optimisation.
foreach(stage RANGE 3)
  set(target cuda.symbols.stage_${stage})
  add_library(${target} OBJECT ${cuda_dir}/symbols/stage_${stage}.cu)
  zero_cuda_test_options(${target})
  target_compile_options(${target} PRIVATE -Xcompiler=-O0)
  set_target_properties(${target} PROPERTIES CUDA_ARCHITECTURES 90-real)
  add_test(NAME "cuda/symbols of stage ${stage}"
    COMMAND ${ZERO_BASH} ${zero_tests_dir}/cmake/symbols.sh ${CMAKE_NM} $<TARGET_OBJECTS:${target}>
            ${cuda_dir}/symbols/stage_${stage}.cu)
  set_tests_properties("cuda/symbols of stage ${stage}" PROPERTIES LABELS instantiation TIMEOUT 60)
endforeach()
