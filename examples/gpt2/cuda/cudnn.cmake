# SPDX-License-Identifier: Apache-2.0
# CUDNN::CUDNN where cuDNN 9 is found, beside the CUDA Toolkit or where CMake looks; what the GPT on GPUs needs.
find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_library(CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 HINTS ${CUDAToolkit_LIBRARY_DIR})
mark_as_advanced(CUDNN_INCLUDE_DIR CUDNN_LIBRARY)
if(NOT TARGET CUDNN::CUDNN AND CUDNN_INCLUDE_DIR AND CUDNN_LIBRARY)
  add_library(CUDNN::CUDNN UNKNOWN IMPORTED)
  set_target_properties(CUDNN::CUDNN PROPERTIES
    IMPORTED_LOCATION ${CUDNN_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${CUDNN_INCLUDE_DIR})
endif()
