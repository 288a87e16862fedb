# SPDX-License-Identifier: Apache-2.0
# zero_header_tests(<kind> HEADERS <files> LIBRARIES <targets> [WITHOUT_CUDA])
#
# Compiles each header twice in a translation unit of its own (a missing include or guard is an error), and links all of them
# twice with an empty main (a lost `inline` is a duplicate symbol, which linking once does not show where one file includes it).
# WITHOUT_CUDA: it is an error if a header brings the CUDA runtime in, also where CUDA is on the include path.
function(zero_header_tests kind)
  cmake_parse_arguments(PARSE_ARGV 1 arg "WITHOUT_CUDA" "" "HEADERS;LIBRARIES")
  set(check "")
  if(arg_WITHOUT_CUDA)
    set(check "#ifdef CUDART_VERSION\n#error \"a host header includes the CUDA runtime\"\n#endif\n")
  endif()
  set(units "")
  foreach(header IN LISTS arg_HEADERS)
    cmake_path(RELATIVE_PATH header BASE_DIRECTORY ${PROJECT_SOURCE_DIR}/include OUTPUT_VARIABLE name)
    set(unit ${CMAKE_CURRENT_BINARY_DIR}/${kind}/${name}.cpp)
    file(CONFIGURE OUTPUT ${unit} CONTENT "#include <${name}>\n#include <${name}>\n${check}" @ONLY)
    list(APPEND units ${unit})
  endforeach()
  if(NOT units)
    return()
  endif()
  add_library(${kind} OBJECT ${units})
  target_compile_options(${kind} PRIVATE ${zero_warnings} -O0)
  set_target_properties(${kind} PROPERTIES COMPILE_WARNING_AS_ERROR ON)
  target_link_libraries(${kind} PUBLIC ${arg_LIBRARIES})

  # The objects, and beside them an archive of the same objects: CMake drops an object that it is given twice.
  add_library(${kind}.archive STATIC $<TARGET_OBJECTS:${kind}>)
  set(main ${CMAKE_CURRENT_BINARY_DIR}/${kind}/main.cpp)
  file(CONFIGURE OUTPUT ${main} CONTENT "int main() {}\n")
  add_executable(${kind}.linked_twice ${main} $<TARGET_OBJECTS:${kind}>)
  set_target_properties(${kind}.linked_twice PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
  target_link_libraries(${kind}.linked_twice
    PRIVATE $<LINK_LIBRARY:WHOLE_ARCHIVE,${kind}.archive> ${arg_LIBRARIES})
endfunction()
