// SPDX-License-Identifier: Apache-2.0
#pragma once
// Umbrella of the room config/: DeepSpeed's JSON. Needs Boost.JSON: link Boost::json (the target
// zero::config does), or include <boost/json/src.hpp> in exactly one file of the program.
// zero/config/accelerate_file.hpp, which needs yaml-cpp, is included apart.

// clang-format off
#include <zero/config/load_config.hpp>        // file, text or object -> ResolvedConfig
#include <zero/config/training_arguments.hpp> // what fills "auto"
#include <zero/config/accelerate_config.hpp>  // what accelerate says of a configuration
#include <zero/config/run_options.hpp>        // its sizes, for a model's units -> Options
#include <zero/config/schedule_choice.hpp>    // its schedule -> LearningRate
#include <zero/config/dispatch.hpp>           // its choices -> types
#include <zero/config/keys.hpp>               // the table of all keys
// clang-format on
