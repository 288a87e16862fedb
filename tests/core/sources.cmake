# SPDX-License-Identifier: Apache-2.0
if(CMAKE_CXX_FLAGS MATCHES "fsanitize=thread")
  set(sanitized ledger_test.cpp)
endif()
