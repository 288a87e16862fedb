# SPDX-License-Identifier: Apache-2.0
# What owns memory, moves pointers, starts threads or counts steps; the rest are formulas over the same arrays.
set(sanitized adam_kernel_test.cpp colliding_rows_test.cpp decision_test.cpp one_of_test.cpp own_threads_test.cpp
  schedules_test.cpp storage_test.cpp trust_ratio_test.cpp)
set(options ${zero_computes}) # kernels and their references in double precision, element by element
