# SPDX-License-Identifier: Apache-2.0
# NCCL::NCCL, beside the CUDA Toolkit or where CMake looks; no such target where there is none. Installed with the package, which needs it
# as well.
if(NOT TARGET NCCL::NCCL)
  find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  find_library(NCCL_LIBRARY nccl HINTS ${CUDAToolkit_LIBRARY_DIR})
  set(zero_nccl "") # its version, where there is one
  if(NCCL_INCLUDE_DIR AND NCCL_LIBRARY)
    file(STRINGS ${NCCL_INCLUDE_DIR}/nccl.h zero_nccl REGEX "^#define NCCL_(MAJOR|MINOR|PATCH) +[0-9]+")
    string(REGEX MATCHALL "[0-9]+" zero_nccl "${zero_nccl}")
    list(JOIN zero_nccl "." zero_nccl)
    if(zero_nccl VERSION_LESS 2.28)
      message(STATUS "zero: found NCCL ${zero_nccl} in ${NCCL_INCLUDE_DIR}; expected 2.28 or later")
    else()
      add_library(NCCL::NCCL UNKNOWN IMPORTED)
      set_target_properties(NCCL::NCCL PROPERTIES
        IMPORTED_LOCATION ${NCCL_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${NCCL_INCLUDE_DIR})
    endif()
  endif()
endif()
