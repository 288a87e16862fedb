# SPDX-License-Identifier: Apache-2.0
set(threads OFF) # ranks on threads, as in equivalence/ and order/
set(sources
  ../support/heap.cpp # operator new and delete of the whole program
  train.cpp)          # every trainer is instantiated there, once
