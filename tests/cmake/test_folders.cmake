# SPDX-License-Identifier: Apache-2.0
# One program a folder of tests. A folder's own sources.cmake, if it has one, may set
#   sources      further .cpp files, relative to the folder
#   libraries    what to link besides zero::zero; a folder with a library that is not there is left out
#   definitions  macros, as NAME or NAME=VALUE
#   programs     targets that its tests start, built before it
#   includes     include folders, relative to the folder
#   options      compiler options, such as ${zero_computes}
#   timeout      seconds one TEST_CASE may take (120)
#   serial       ON: nothing else runs beside its tests (time is measured)
#   sanitized    what a sanitizer lane builds: ON (default) all, OFF nothing, or a list of files
#   threads      OFF: it starts none that other folders do not, so ThreadSanitizer has nothing more to say of it

set(zero_computes $<$<NOT:$<CONFIG:Debug>>:-O1>) # for what trains or computes longer than it compiles
set(zero_warnings -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow)

# zero_test_options(<target> [OPTIONS <options>] [LIBRARIES <targets>])
# What tests compile and link with, and parts that several folders link, compiled once. Warnings are errors here, in the headers'
# own files and nowhere else; a sanitizer lane, whose compiler is another one, is not there to warn.
function(zero_test_options target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "OPTIONS;LIBRARIES")
  target_compile_options(${target} PRIVATE -UNDEBUG)
  if(NOT ZERO_TESTS_LANE STREQUAL "sanitized")
    target_compile_options(${target} PRIVATE -O0 ${zero_warnings}) # most run for moments, and -O1 takes half as long again
    set_target_properties(${target} PROPERTIES COMPILE_WARNING_AS_ERROR ON)
  endif()
  target_compile_options(${target} PRIVATE ${arg_OPTIONS})
  target_compile_definitions(${target} PRIVATE
    DOCTEST_CONFIG_SUPER_FAST_ASSERTS
    ZERO_TESTS_SANITIZED=$<STREQUAL:${ZERO_TESTS_LANE},sanitized>)
  target_include_directories(${target} PRIVATE ${zero_tests_dir})
  target_link_libraries(${target} PRIVATE zero::zero ${arg_LIBRARIES})
  zero_precompile(${target} ${ARGN})
endfunction()

# zero_precompile(<target> [OPTIONS <options>] [LIBRARIES <targets>]), where ZERO_TESTS_PRECOMPILED is on: the headers of the library
# and doctest's are read once for all targets of equal options, and with zero::checkpoint or zero::config those of both. A file that
# took clang 8.5 s took 6.2, one that took g++ 4.2 s took 2.5. Where it is off, as in the preset host by itself, every file shows that
# it includes what it uses.
function(zero_precompile target)
  if(NOT ZERO_TESTS_PRECOMPILED OR NOT TARGET doctest::doctest)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "OPTIONS;LIBRARIES")
  if(ZERO_TESTS_LANE STREQUAL "sanitized")
    set(arg_OPTIONS "") # ${zero_computes} is nothing there
  endif()
  string(MD5 kind "${arg_OPTIONS}")
  string(SUBSTRING "${kind}" 0 8 kind)
  set(precompiled zero_test_precompiled_${kind})
  set(headers <zero/zero.hpp> <doctest/doctest.h>)
  set(libraries doctest::doctest)
  if(arg_LIBRARIES MATCHES "zero::(checkpoint|config)(;|$)")
    string(APPEND precompiled _files)
    foreach(room IN ITEMS checkpoint config)
      if(TARGET zero::${room})
        list(APPEND headers <zero/${room}.hpp>)
        list(APPEND libraries zero::${room})
      endif()
    endforeach()
  endif()
  if(NOT TARGET ${precompiled})
    add_library(${precompiled} OBJECT ${zero_tests_dir}/cmake/precompiled.cpp)
    set(ZERO_TESTS_PRECOMPILED OFF) # it reads them itself
    zero_test_options(${precompiled} OPTIONS ${arg_OPTIONS} LIBRARIES ${libraries})
    target_precompile_headers(${precompiled} PRIVATE ${headers})
  endif()
  target_precompile_headers(${target} REUSE_FROM ${precompiled})
endfunction()

# zero_test_main(): the library of that name, doctest's own code and main(); made by whichever programs of a lane come first.
function(zero_test_main)
  if(TARGET zero_test_main)
    return()
  endif()
  add_library(zero_test_main OBJECT ${zero_tests_dir}/main.cpp)
  zero_test_options(zero_test_main)
  set_target_properties(zero_test_main PROPERTIES DISABLE_PRECOMPILE_HEADERS ON) # it has doctest's own code, too
  target_link_libraries(zero_test_main PUBLIC doctest::doctest)
endfunction()

function(zero_test_folder folder)
  set(sources "")
  set(libraries "")
  set(definitions "")
  set(programs "")
  set(includes "")
  set(options "")
  set(timeout 120)
  set(serial OFF)
  set(sanitized ON)
  set(threads ON)
  set(dir ${zero_tests_dir}/${folder})
  include(${dir}/sources.cmake OPTIONAL)
  file(GLOB tests CONFIGURE_DEPENDS RELATIVE ${dir} ${dir}/*_test.cpp)

  if(ZERO_TESTS_LANE STREQUAL "sanitized")
    if(sanitized STREQUAL "OFF" OR (NOT threads AND CMAKE_CXX_FLAGS MATCHES "fsanitize=thread"))
      return()
    elseif(NOT sanitized STREQUAL "ON")
      set(tests ${sanitized})
    endif()
    math(EXPR timeout "${timeout} * 5") # what a thread sanitizer costs
  endif()
  foreach(library IN LISTS libraries)
    if(NOT TARGET ${library})
      zero_leave_out("tests/${folder}" "there is no ${library}")
      return()
    endif()
  endforeach()

  set(target ${folder}_tests)
  list(TRANSFORM tests PREPEND ${dir}/)
  list(TRANSFORM sources PREPEND ${dir}/)
  list(TRANSFORM includes PREPEND ${dir}/)
  add_executable(${target} ${tests} ${sources})
  if(programs)
    add_dependencies(${target} ${programs})
  endif()
  zero_test_options(${target} OPTIONS ${options} LIBRARIES zero_test_main ${libraries})
  target_compile_definitions(${target} PRIVATE ${definitions})
  target_include_directories(${target} PRIVATE ${includes})
  doctest_discover_tests(${target}
    TEST_PREFIX ${folder}/
    ADD_LABELS 0
    # The name of a case is a filter to doctest, and a filter that fits no case would pass.
    # What a machine does not permit, a case says in a MESSAGE of "skipped: " and the reason.
    PROPERTIES FAIL_REGULAR_EXPRESSION "test cases: +0 [|]"
               SKIP_REGULAR_EXPRESSION "skipped: "
               TIMEOUT ${timeout} RUN_SERIAL ${serial} LABELS ${folder})
endfunction()

function(zero_test_folders)
  include(doctest) # doctest_discover_tests
  zero_test_main()

  file(GLOB tests CONFIGURE_DEPENDS RELATIVE ${zero_tests_dir} ${zero_tests_dir}/*/*_test.cpp)
  file(GLOB settings CONFIGURE_DEPENDS ${zero_tests_dir}/*/sources.cmake) # a new one configures again
  set(folders "")
  foreach(test IN LISTS tests)
    cmake_path(GET test PARENT_PATH folder)
    list(APPEND folders ${folder})
  endforeach()
  list(REMOVE_DUPLICATES folders)
  foreach(folder IN LISTS folders)
    zero_test_folder(${folder})
  endforeach()
endfunction()
