# SPDX-License-Identifier: Apache-2.0
set(options -O0) # many trainers, which run for moments
include(${zero_tests_dir}/archetypes/rig.cmake)
list(APPEND sources ../support/heap.cpp) # operator new and delete of the whole program
