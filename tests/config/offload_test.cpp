// SPDX-License-Identifier: Apache-2.0
// What the keys of offload mean for a trainer: each, and both sections together.
#include <config/loading.hpp>
#include <doctest/doctest.h>

namespace {

using namespace config_test;
using zero::OffloadOptions;

struct Asked {
  OffloadOptions options{};
  std::vector<std::string> warnings{};
  std::string refusal{};
};

/// @param zero members of zero_optimization beside stage 3 @param others of the file
Asked asked(std::string const& zero, std::string const& others = "") {
  Outcome const outcome =
      load_text(with(others + R"("zero_optimization": {"stage": 3, )" + zero + "}"));
  REQUIRE_MESSAGE(outcome.config, outcome.text);
  Asked a;
  try {
    a.options = zero::offload_options(*outcome.config, a.warnings);
  } catch (zero::ConfigError const& e) {
    a.refusal = e.what();
  }
  return a;
}

TEST_CASE("offload keys: what is said of host memory reaches the trainer") {
  Asked const a = asked(R"("sub_group_size": 1000, "offload_optimizer": {"device": "cpu",
      "ratio": 0.25, "pin_memory": false})");
  CHECK(a.options.tile_elements == 1000);
  CHECK(a.options.ratio == 0.25);
  CHECK(a.options.pin_memory == zero::MemoryLock::none);
  CHECK(a.options.nvme_path.empty());
  CHECK(a.options.max_in_cpu_elements == 0);  // a matter of files alone
  CHECK(a.warnings.empty());
  CHECK(asked(R"("offload_optimizer": {"device": "cpu"})").options.pin_memory ==
        zero::MemoryLock::required);  // DeepSpeed's default
  CHECK(asked(R"("offload_optimizer": {"device": "cpu", "pin_memory": false},
                 "offload_param": {"device": "cpu", "pin_memory": true})")
            .options.pin_memory == zero::MemoryLock::required);
  CHECK(
      asked(R"("offload_optimizer": {"device": "none", "pin_memory": true})").options.pin_memory ==
      zero::MemoryLock::none);
  CHECK(asked(R"("offload_optimizer": {"device": "cpu"})").options.tile_elements == 1'000'000'000);
  CHECK(asked(R"("sub_group_size": 0, "offload_optimizer": {"device": "cpu"})")
            .options.tile_elements == 1);
}

TEST_CASE("offload keys: what is said of files reaches the trainer, from both sections") {
  std::string const aio =
      R"("aio": {"block_size": 10000, "queue_depth": 3, "intra_op_parallelism": 5}, )";
  Asked const a = asked(R"("offload_optimizer": {"device": "nvme", "nvme_path": "/disk",
      "buffer_count": 6, "pin_memory": false, "pipeline_read": true, "fast_init": true},
      "offload_param": {"device": "nvme", "nvme_path": "/disk", "buffer_count": 4,
      "buffer_size": 1, "max_in_cpu": 77, "pin_memory": false})",
                        aio);
  CHECK(a.options.nvme_path == "/disk");
  CHECK(a.options.buffer_count == 6);
  CHECK(a.options.max_in_cpu_elements == 77);
  CHECK(a.options.io_block_bytes == 8192);
  CHECK(a.options.io_threads == 15);
  CHECK(a.options.pin_memory == zero::MemoryLock::none);
  CHECK(a.warnings.empty());
  Asked const few =
      asked(R"("offload_optimizer": {"device": "nvme", "nvme_path": "/disk", "buffer_count": 1})",
            R"("aio": {"block_size": 1, "queue_depth": 1000, "intra_op_parallelism": 9}, )");
  CHECK(few.options.buffer_count == 3);
  CHECK(few.options.io_block_bytes == 4096);
  CHECK(few.options.io_threads == 256);
  REQUIRE(few.warnings.size() == 1);
  CHECK(few.warnings[0] ==
        "zero_optimization.offload_optimizer.buffer_count: 1 acts as 3: one tile is read, one used "
        "and one written at a time");
  // A section whose device is another one says nothing of files.
  CHECK(asked(R"("offload_optimizer": {"device": "nvme", "nvme_path": "/disk"},
      "offload_param": {"device": "cpu", "nvme_path": "/other", "buffer_count": 50})")
            .options.buffer_count == 4);
  CHECK(asked(R"("offload_optimizer": {"device": "nvme", "nvme_path": "/disk"},
      "offload_param": {"device": "nvme", "nvme_path": "/other"})")
            .refusal.find("offload_param.nvme_path: found \"/other\"; expected the folder of "
                          "offload_optimizer, \"/disk\"") != std::string::npos);
}

}  // namespace
