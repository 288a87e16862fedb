// SPDX-License-Identifier: Apache-2.0
#pragma once
// DeepSpeed's dynamic loss scale, step by step.

#include <vector>

namespace loss_scale_table {

struct Row {
  bool overflow;
  float before;  ///< scale of the step's backward, and what its gradients are divided by
  int hysteresis_before;
  bool error;  ///< an overflow at the minimum
  float after;
  int hysteresis_after;
  int last_overflow;  ///< number of the step, from 0; -1: none
  int skipped;        ///< so far
};

/// A1: from 2^8, window 4, hysteresis 1.
inline std::vector<Row> const a1{
    {false, 256, 1, false, 256, 1, -1, 0}, {false, 256, 1, false, 256, 1, -1, 0},
    {true, 256, 1, false, 128, 1, 2, 1},   {false, 128, 1, false, 128, 1, 2, 1},
    {false, 128, 1, false, 128, 1, 2, 1},  {false, 128, 1, false, 128, 1, 2, 1},
    {false, 128, 1, false, 128, 1, 2, 1},  {false, 128, 1, false, 256, 1, 2, 1},
    {false, 256, 1, false, 256, 1, 2, 1},  {false, 256, 1, false, 256, 1, 2, 1},
    {false, 256, 1, false, 256, 1, 2, 1},  {false, 256, 1, false, 512, 1, 2, 1},
    {true, 512, 1, false, 256, 1, 12, 2},  {true, 256, 1, false, 128, 1, 13, 3},
    {false, 128, 1, false, 128, 1, 13, 3}, {false, 128, 1, false, 128, 1, 13, 3},
    {false, 128, 1, false, 128, 1, 13, 3}, {false, 128, 1, false, 128, 1, 13, 3},
    {false, 128, 1, false, 256, 1, 13, 3}, {false, 256, 1, false, 256, 1, 13, 3},
};
/// A9: from 2^16, window 1000, hysteresis 2; every step overflows.
inline std::vector<Row> const a9{
    {true, 65536, 2, false, 65536, 1, 0, 1}, {true, 65536, 1, false, 32768, 1, 1, 2},
    {true, 32768, 1, false, 16384, 1, 2, 3}, {true, 16384, 1, false, 8192, 1, 3, 4},
    {true, 8192, 1, false, 4096, 1, 4, 5},   {true, 4096, 1, false, 2048, 1, 5, 6},
    {true, 2048, 1, false, 1024, 1, 6, 7},   {true, 1024, 1, false, 512, 1, 7, 8},
    {true, 512, 1, false, 256, 1, 8, 9},     {true, 256, 1, false, 128, 1, 9, 10},
    {true, 128, 1, false, 64, 1, 10, 11},    {true, 64, 1, false, 32, 1, 11, 12},
    {true, 32, 1, false, 16, 1, 12, 13},     {true, 16, 1, false, 8, 1, 13, 14},
    {true, 8, 1, false, 4, 1, 14, 15},       {true, 4, 1, false, 2, 1, 15, 16},
    {true, 2, 1, false, 1, 1, 16, 17},       {true, 1, 1, true, 1, 1, 16, 18},
};

}  // namespace loss_scale_table
