# SPDX-License-Identifier: Apache-2.0
# Hides CUDA, Boost and liburing for the preset host-bare, from #include and __has_include as from find_package: the compiler's own include
# folders are replaced by folders of links that lack them. Read right after project().
foreach(package IN ITEMS Boost CUDAToolkit CUDA NCCL)
  set(CMAKE_DISABLE_FIND_PACKAGE_${package} ON)
endforeach()

execute_process(
  COMMAND ${CMAKE_COMMAND} -E env --unset=CPATH --unset=CPLUS_INCLUDE_PATH LC_ALL=C
          ${CMAKE_CXX_COMPILER} -std=c++20 -E -v -x c++ /dev/null
  ERROR_VARIABLE said OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCH "#include <[.][.][.]> search starts here:\n(.*)\nEnd of search list" found "${said}")
string(REGEX REPLACE "\n *" ";" folders "${CMAKE_MATCH_1}")
list(TRANSFORM folders STRIP)

set(flags "-nostdinc")
set(number 0)
foreach(folder IN LISTS folders)
  if(folder MATCHES "^/usr/local/include" OR NOT IS_DIRECTORY "${folder}")
    continue() # what the distribution did not put there is nothing that the host needs
  endif()
  cmake_path(SET folder NORMALIZE "${folder}")
  if(NOT folder MATCHES "/c[+][+]/|/gcc/|/clang/")
    set(links ${CMAKE_BINARY_DIR}/visible/${number})
    file(REMOVE_RECURSE ${links})
    file(MAKE_DIRECTORY ${links})
    file(GLOB entries RELATIVE ${folder} ${folder}/*)
    list(FILTER entries EXCLUDE REGEX "^(boost|cuda|cub$|cublas|cudnn|cufft|curand|cusolver|cusparse|nccl|nvtx|thrust|liburing)")
    foreach(entry IN LISTS entries)
      file(CREATE_LINK ${folder}/${entry} ${links}/${entry} SYMBOLIC)
    endforeach()
    set(folder ${links})
    math(EXPR number "${number} + 1")
  endif()
  string(APPEND flags " -isystem ${folder}")
endforeach()
string(APPEND CMAKE_CXX_FLAGS " ${flags}")
# CMake must not give a folder of the compiler's again, nor one that is hidden.
set(CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES ${folders})

file(WRITE ${CMAKE_BINARY_DIR}/visible/check.cpp [[
#include <vector>
#if __has_include(<boost/version.hpp>) || __has_include(<cuda.h>) || __has_include(<cuda_runtime.h>) || __has_include(<nccl.h>) || __has_include(<liburing.h>)
#error "CUDA, Boost or liburing is still visible"
#endif
]])
separate_arguments(command UNIX_COMMAND "${CMAKE_CXX_FLAGS}")
execute_process(
  COMMAND ${CMAKE_COMMAND} -E env --unset=CPATH --unset=CPLUS_INCLUDE_PATH
          ${CMAKE_CXX_COMPILER} ${command} -fsyntax-only ${CMAKE_BINARY_DIR}/visible/check.cpp
  COMMAND_ERROR_IS_FATAL ANY)
