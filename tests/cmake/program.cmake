# SPDX-License-Identifier: Apache-2.0
# zero_program(<target>): what an example, a tool or a bench compiles with in a release besides CMake's own options, and, where
# ZERO_TESTS_PRECOMPILED is on, <zero/zero.hpp>, read once for all of them.
function(zero_program target)
  target_compile_options(${target} PRIVATE "$<$<CONFIG:Release>:${ZERO_PROGRAM_OPTIONS}>")
  if(NOT ZERO_TESTS_PRECOMPILED)
    return()
  endif()
  if(NOT TARGET zero_program_precompiled)
    add_library(zero_program_precompiled OBJECT ${PROJECT_SOURCE_DIR}/tests/cmake/precompiled.cpp)
    target_compile_options(zero_program_precompiled PRIVATE "$<$<CONFIG:Release>:${ZERO_PROGRAM_OPTIONS}>")
    target_link_libraries(zero_program_precompiled PRIVATE zero::zero)
    target_precompile_headers(zero_program_precompiled PRIVATE <zero/zero.hpp>)
  endif()
  target_precompile_headers(${target} REUSE_FROM zero_program_precompiled)
endfunction()
