# SPDX-License-Identifier: Apache-2.0
include(${zero_tests_dir}/archetypes/rig.cmake)
list(APPEND sources ../support/heap.cpp) # operator new and delete of the whole program
