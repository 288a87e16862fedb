# SPDX-License-Identifier: Apache-2.0
set(timeout 300) # each I/O of a run fails once
# The transfers and the faults of tests/tier once more, made by io_uring.
set(sources by_ring.cpp ../tier/io_faults.cpp ../tier/run.cpp ../tier/transfers_test.cpp
  ../tier/blocks_test.cpp ../tier/traffic_test.cpp ../tier/faults_test.cpp)
add_library(zero_test_uring INTERFACE)
target_link_options(zero_test_uring INTERFACE # by_ring.cpp stands before these functions of liburing
  LINKER:--wrap=io_uring_queue_init,--wrap=io_uring_submit_and_wait,--wrap=io_uring_peek_batch_cqe)
set(libraries zero::uring zero_test_uring zero_test_tier_product zero_test_tier_hostile_late)
