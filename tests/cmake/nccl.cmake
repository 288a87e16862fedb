# SPDX-License-Identifier: Apache-2.0
# NCCL::NCCL, beside the CUDA Toolkit or where CMake looks; installed with the package, which needs it as well.
if(NOT TARGET NCCL::NCCL)
  find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  find_library(NCCL_LIBRARY nccl HINTS ${CUDAToolkit_LIBRARY_DIR})
  if(NOT NCCL_INCLUDE_DIR OR NOT NCCL_LIBRARY)
    message(FATAL_ERROR "zero::cuda needs NCCL, whose nccl.h or libnccl.so is not found (package libnccl-dev)")
  endif()
  file(STRINGS ${NCCL_INCLUDE_DIR}/nccl.h nccl_numbers REGEX "^#define NCCL_(MAJOR|MINOR|PATCH) +[0-9]+")
  string(REGEX MATCHALL "[0-9]+" nccl_numbers "${nccl_numbers}")
  list(JOIN nccl_numbers "." NCCL_VERSION)
  if(NCCL_VERSION VERSION_LESS 2.28)
    message(FATAL_ERROR "zero::cuda: found NCCL ${NCCL_VERSION} in ${NCCL_INCLUDE_DIR}; expected 2.28 or later")
  endif()
  add_library(NCCL::NCCL UNKNOWN IMPORTED)
  set_target_properties(NCCL::NCCL PROPERTIES
    IMPORTED_LOCATION ${NCCL_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${NCCL_INCLUDE_DIR})
endif()
