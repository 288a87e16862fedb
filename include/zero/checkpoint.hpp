// SPDX-License-Identifier: Apache-2.0
#pragma once
// Umbrella of the room checkpoint/: training states on disk. Needs Boost.JSON and xxHash: link
// Boost::json and libxxhash (the target zero::checkpoint does).

// clang-format off
#include <zero/checkpoint/save.hpp>  // save: a trainer -> a folder
#include <zero/checkpoint/load.hpp>  // load: a folder -> a trainer of any stage, world and precision
// clang-format on
