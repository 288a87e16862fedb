# SPDX-License-Identifier: Apache-2.0
# Tests whose subject is the compiler's answer: what must not compile (xfail/), and what an object may name (instantiation/).

# Each xfail/*.cpp fails with every text of its lines `// expected-error: text`, and compiles once ZERO_XFAIL_PASS is defined.
function(zero_xfail_tests)
  file(GLOB files CONFIGURE_DEPENDS ${zero_tests_dir}/xfail/*.cpp)
  set(compile ${CMAKE_CXX_COMPILER} -std=c++20 -I${PROJECT_SOURCE_DIR}/include -I${zero_tests_dir})
  separate_arguments(flags UNIX_COMMAND "${CMAKE_CXX_FLAGS}")
  if(ZERO_TESTS_PRECOMPILED AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU") # which looks for all.hpp.gch beside all.hpp
    set(all ${CMAKE_CURRENT_BINARY_DIR}/xfail/all.hpp)
    file(CONFIGURE OUTPUT ${all} CONTENT "#include <zero/zero.hpp>\n")
    add_custom_command(OUTPUT ${all}.gch
      COMMAND ${compile} ${flags} -x c++-header ${all} -o ${all}.gch -MD -MF ${all}.d
      DEPENDS ${all} DEPFILE ${all}.d VERBATIM)
    add_custom_target(zero_test_xfail_precompiled ALL DEPENDS ${all}.gch)
    list(APPEND compile -Winvalid-pch -include ${all})
  endif()
  foreach(file IN LISTS files)
    cmake_path(GET file STEM name)
    file(STRINGS ${file} config_includes REGEX "#include <zero/config[./]")
    if(config_includes AND NOT TARGET zero::config)
      continue() # said where zero::config is left out
    endif()
    foreach(way IN ITEMS fails compiles)
      add_test(NAME "xfail/${name} ${way}"
        COMMAND ${ZERO_BASH} ${zero_tests_dir}/cmake/xfail.sh ${way} ${file} ${compile} ${flags})
      set_tests_properties("xfail/${name} ${way}" PROPERTIES LABELS xfail TIMEOUT 120)
    endforeach()
  endforeach()
endfunction()

# Each instantiation/*.cpp is compiled without optimisation, so that its object names every function that is called; the names
# are held against its lines `// symbols-required: regex` and `// symbols-forbidden: regex`.
function(zero_symbol_tests)
  file(GLOB files CONFIGURE_DEPENDS ${zero_tests_dir}/instantiation/*.cpp)
  list(FILTER files EXCLUDE REGEX "_test[.]cpp$")
  foreach(file IN LISTS files)
    cmake_path(GET file STEM name)
    set(target instantiation.${name})
    add_library(${target} OBJECT ${file})
    zero_test_options(${target})
    target_compile_options(${target} PRIVATE -O0)
    add_test(NAME "instantiation/${name}"
      COMMAND ${ZERO_BASH} ${zero_tests_dir}/cmake/symbols.sh ${CMAKE_NM} $<TARGET_OBJECTS:${target}> ${file})
    set_tests_properties("instantiation/${name}" PROPERTIES LABELS instantiation TIMEOUT 60)
  endforeach()
endfunction()
