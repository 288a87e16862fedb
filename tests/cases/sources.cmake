# SPDX-License-Identifier: Apache-2.0
set(sanitized OFF) # trainers as in equivalence/ and order/, and what comes out of them
set(sources
  ../support/heap.cpp # operator new and delete of the whole program
  train.cpp)          # every trainer is instantiated there, once
