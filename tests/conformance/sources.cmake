# SPDX-License-Identifier: Apache-2.0
# waits_test.cpp plants races: no sanitizer has anything to say about it.
set(sanitized
  communicator_test.cpp
  delays_test.cpp
  device_test.cpp
  elementwise_test.cpp
  slot_test.cpp
  stream_test.cpp
  trainer_faults_test.cpp)
