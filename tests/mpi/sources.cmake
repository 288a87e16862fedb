# SPDX-License-Identifier: Apache-2.0
# What needs no other rank; ranks.cmake has the rest.
set(sources ../support/heap.cpp) # operator new and delete of the whole program
set(libraries zero::mpi)
