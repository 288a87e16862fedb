# SPDX-License-Identifier: Apache-2.0
# Tests that run as several processes under the launcher of the MPI that was found.
if(NOT ZERO_TESTS_LANE STREQUAL "mpi") # the lane of a second MPI: what its programs include is enough
  zero_header_tests(headers.mpi WITHOUT_CUDA HEADERS ${zero_mpi_headers} LIBRARIES zero::mpi)
endif()

set(dir ${zero_tests_dir}/mpi)
set(ranks_parts mpi_ranks)
add_executable(mpi_ranks ${dir}/ranks/main.cpp ${dir}/ranks/collectives.cpp ${dir}/ranks/failing.cpp
                         ${zero_tests_dir}/support/heap.cpp)
foreach(stage RANGE 3)
  set(part mpi_ranks_stage_${stage})
  add_library(${part} OBJECT ${dir}/ranks/training.cpp)
  target_compile_definitions(${part} PRIVATE ZERO_TEST_STAGE=${stage} ZERO_TEST_STAGE_NAME="${stage}")
  target_sources(mpi_ranks PRIVATE $<TARGET_OBJECTS:${part}>)
  list(APPEND ranks_parts ${part})
endforeach()
# Of another version of the library, to run beside mpi_ranks: its version.hpp stands before ours.
file(READ ${PROJECT_SOURCE_DIR}/include/zero/core/version.hpp version)
string(REGEX REPLACE "[0-9]+[.][0-9]+[.][0-9]+" "9.9.9" version "${version}")
file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/other_version/zero/core/version.hpp CONTENT "${version}" @ONLY)
add_executable(mpi_ranks_of_another_version ${dir}/ranks/version.cpp)
target_include_directories(mpi_ranks_of_another_version
  BEFORE PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/other_version)
add_executable(mpi_ranks_of_this_version ${dir}/ranks/version.cpp)
list(APPEND ranks_parts mpi_ranks_of_another_version mpi_ranks_of_this_version)
foreach(part IN LISTS ranks_parts)
  zero_test_options(${part})
  target_compile_definitions(${part} PRIVATE ZERO_TESTS_SANITIZED=0)
  target_include_directories(${part} PRIVATE ${zero_tests_dir})
  target_link_libraries(${part} PRIVATE zero::mpi)
endforeach()

# zero_ranks_test(<name> <seconds> <processors> <command>...), where the command starts the ranks
function(zero_ranks_test name timeout processors)
  add_test(NAME "mpi/${name}" COMMAND ${ARGN})
  # More ranks than cores, and as root in a container, are what people's first tries look like. Where munge is installed and does
  # not run, PMIx asks for it two seconds long at every start: native is what it falls back to.
  set_tests_properties("mpi/${name}" PROPERTIES TIMEOUT ${timeout} PROCESSORS ${processors} LABELS mpi ENVIRONMENT
    "OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1;OMPI_MCA_rmaps_base_oversubscribe=1;PMIX_MCA_psec=native;PRTE_ALLOW_RUN_AS_ROOT=1;PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1;PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe")
endfunction()
# Ranks that wait for each other's failures need little of a machine.
function(zero_failure_test name)
  zero_ranks_test("${name}" 150 1 ${ZERO_BASH} ${dir}/failing.sh ${MPIEXEC_EXECUTABLE} $<TARGET_FILE:mpi_ranks> ${ARGN})
endfunction()

foreach(world RANGE 2 4)
  foreach(scenario IN ITEMS collectives no-allocation again own-session training-0 training-1 training-2 training-3)
    zero_ranks_test("${scenario} of ${world} ranks" 300 ${world}
      ${MPIEXEC_EXECUTABLE} -n ${world} $<TARGET_FILE:mpi_ranks> ${scenario})
  endforeach()
endforeach()
zero_ranks_test("more bytes than an int counts" 300 2
  ${MPIEXEC_EXECUTABLE} -n 2 $<TARGET_FILE:mpi_ranks> large)

foreach(failure IN ITEMS "model-throws 0" "model-throws 3" "loop-throws 2" "loop-throws-a-number 1" "another-visit 3" "stops 0"
                         "stops 3" "is-killed 3" "exits 3" "late 3" joins-late "differs layout" "differs schedule" "differs policy"
                         "differs clip" "differs seed" "differs prefetch")
  separate_arguments(arguments UNIX_COMMAND "${failure}")
  zero_failure_test("a rank ${failure}" ${arguments})
endforeach()
zero_failure_test("G01 a rank makes no step" no-step 3)
foreach(failure IN ITEMS "runs-out 0" "runs-out 3" "returns 0" "returns 3")
  separate_arguments(arguments UNIX_COMMAND "${failure}")
  zero_failure_test("G04 a rank ${failure}" ${arguments})
endforeach()
zero_ranks_test("G04 ranks with uneven data agree" 60 3 ${MPIEXEC_EXECUTABLE} -n 3 $<TARGET_FILE:mpi_ranks> agrees)
zero_ranks_test("R04 a master port that is in use or none" 60 2
  ${ZERO_BASH} ${dir}/master_port.sh ${MPIEXEC_EXECUTABLE} $<TARGET_FILE:mpi_ranks>)
zero_ranks_test("R01 a launcher that the program cannot join" 60 2
  ${ZERO_BASH} ${dir}/other_launcher.sh $<TARGET_FILE:mpi_ranks>)
zero_ranks_test("a rank of another version" 60 3
  ${ZERO_BASH} ${dir}/other_version.sh ${MPIEXEC_EXECUTABLE} $<TARGET_FILE:mpi_ranks_of_this_version>
  $<TARGET_FILE:mpi_ranks_of_another_version>)

if(TARGET gpt2) # the lane of another MPI builds no examples: what it can change is in mpi_ranks
  foreach(world RANGE 2 4)
    zero_ranks_test("gpt2 as ${world} processes and as threads" 300 ${world}
      ${ZERO_BASH} ${dir}/gpt2_same.sh ${MPIEXEC_EXECUTABLE} $<TARGET_FILE:gpt2> ${world})
  endforeach()
  if(TARGET zero::checkpoint)
    foreach(stage RANGE 3)
      zero_ranks_test("gpt2 goes on from a checkpoint at stage ${stage}" 300 3
        ${ZERO_BASH} ${dir}/gpt2_resume.sh ${MPIEXEC_EXECUTABLE} $<TARGET_FILE:gpt2> ${stage})
    endforeach()
  endif()
  zero_ranks_test("gpt2 and its launcher" 120 2
    ${ZERO_BASH} ${dir}/gpt2_launcher.sh ${MPIEXEC_EXECUTABLE} $<TARGET_FILE:gpt2>)
  zero_ranks_test("gpt2 and signals" 120 2
    ${ZERO_BASH} ${dir}/gpt2_signals.sh ${MPIEXEC_EXECUTABLE} $<TARGET_FILE:gpt2>)
endif()
