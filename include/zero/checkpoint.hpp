// SPDX-License-Identifier: Apache-2.0
#pragma once
// Umbrella of the room checkpoint/: training states on disk. Needs Boost.JSON and xxHash: link
// Boost::json and libxxhash (the target zero::checkpoint does).

// clang-format off
#include <zero/checkpoint/save.hpp>             // save: a trainer -> a folder
#include <zero/checkpoint/background_save.hpp>  // the same beside training
#include <zero/checkpoint/staging_memory.hpp>   // host memory that saves and loads share
#include <zero/checkpoint/load.hpp>             // load: a folder -> a trainer of any stage, world and precision
#include <zero/checkpoint/model.hpp>            // save_model, load_model: the files of transformers
#include <zero/checkpoint/keeper.hpp>           // which checkpoints stay, and which is best
#include <zero/checkpoint/gather.hpp>           // gather, assign: one tensor by its name
#include <zero/checkpoint/convert.hpp>          // files to files: verify, export, import, reshard
#include <zero/checkpoint/difference.hpp>       // two checkpoints, bit by bit
// clang-format on
