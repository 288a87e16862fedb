# SPDX-License-Identifier: Apache-2.0
set(threads OFF) # ranks on threads, as in equivalence/ and order/
include(${zero_tests_dir}/archetypes/rig.cmake)
list(APPEND sources ../support/heap.cpp) # operator new and delete of the whole program
set(sanitized heap_test.cpp lifetime_test.cpp nothing_full_test.cpp workspace_test.cpp) # the others count
