// SPDX-License-Identifier: Apache-2.0
#pragma once
// Rows of optimizer, storage, stage, tier of the optimizer and tier of the parameters: every two of
// these that may stand together stand together in a row. In three lists, each a file to compile.

#define ZERO_TEST_PAIRS_0                                  \
  ZERO_TEST_PAIR(AdamW, floats, 3, OnNvme, OnHost)         \
  ZERO_TEST_PAIR(AdamW, short_states, 2, OnNvme, OnDevice) \
  ZERO_TEST_PAIR(Adam, mixed, 3, OnNvme, OnNvme)           \
  ZERO_TEST_PAIR(Adam, all_short, 3, OnNvme, OnDevice)     \
  ZERO_TEST_PAIR(Lamb, split, 2, OnHost, OnDevice)         \
  ZERO_TEST_PAIR(Lion, floats, 1, OnHost, OnDevice)        \
  ZERO_TEST_PAIR(Lion, short_states, 3, OnDevice, OnNvme)  \
  ZERO_TEST_PAIR(Adagrad, mixed, 2, OnNvme, OnDevice)      \
  ZERO_TEST_PAIR(Adagrad, all_short, 1, OnHost, OnDevice)  \
  ZERO_TEST_PAIR(Sgd, split, 3, OnDevice, OnHost)          \
  ZERO_TEST_PAIR(Lamb, floats, 1, OnNvme, OnDevice)        \
  ZERO_TEST_PAIR(AdamW, scaled, 3, OnNvme, OnNvme)         \
  ZERO_TEST_PAIR(Sgd, scaled, 3, OnDevice, OnHost)

#define ZERO_TEST_PAIRS_1                                 \
  ZERO_TEST_PAIR(AdamW, mixed, 1, OnHost, OnDevice)       \
  ZERO_TEST_PAIR(AdamW, all_short, 3, OnHost, OnNvme)     \
  ZERO_TEST_PAIR(Adam, split, 1, OnNvme, OnDevice)        \
  ZERO_TEST_PAIR(Lamb, floats, 3, OnDevice, OnNvme)       \
  ZERO_TEST_PAIR(Lamb, short_states, 1, OnHost, OnDevice) \
  ZERO_TEST_PAIR(Lion, mixed, 3, OnDevice, OnNvme)        \
  ZERO_TEST_PAIR(Lion, all_short, 2, OnHost, OnDevice)    \
  ZERO_TEST_PAIR(Adagrad, split, 3, OnDevice, OnHost)     \
  ZERO_TEST_PAIR(Sgd, floats, 3, OnHost, OnNvme)          \
  ZERO_TEST_PAIR(Sgd, short_states, 2, OnNvme, OnDevice)  \
  ZERO_TEST_PAIR(Adam, scaled, 1, OnHost, OnDevice)       \
  ZERO_TEST_PAIR(Lion, scaled, 3, OnHost, OnHost)

#define ZERO_TEST_PAIRS_2                                    \
  ZERO_TEST_PAIR(AdamW, split, 3, OnDevice, OnNvme)          \
  ZERO_TEST_PAIR(Adam, floats, 2, OnHost, OnDevice)          \
  ZERO_TEST_PAIR(Adam, short_states, 3, OnDevice, OnHost)    \
  ZERO_TEST_PAIR(Lamb, mixed, 3, OnHost, OnHost)             \
  ZERO_TEST_PAIR(Lamb, all_short, 3, OnDevice, OnHost)       \
  ZERO_TEST_PAIR(Lion, split, 3, OnNvme, OnHost)             \
  ZERO_TEST_PAIR(Adagrad, floats, 3, OnHost, OnNvme)         \
  ZERO_TEST_PAIR(Adagrad, short_states, 1, OnNvme, OnDevice) \
  ZERO_TEST_PAIR(Sgd, mixed, 1, OnNvme, OnDevice)            \
  ZERO_TEST_PAIR(Sgd, all_short, 3, OnHost, OnNvme)          \
  ZERO_TEST_PAIR(Lamb, scaled, 2, OnNvme, OnDevice)          \
  ZERO_TEST_PAIR(Adagrad, scaled, 3, OnDevice, OnNvme)
