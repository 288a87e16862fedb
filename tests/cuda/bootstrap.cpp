// SPDX-License-Identifier: Apache-2.0
// How ranks come to one id: through a file, whatever an earlier run has left there; through a
// function; and what is said when a rank does not come.

#include <zero/cuda/bootstrap.hpp>

#include <doctest/doctest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace zero_test {
namespace {

using zero::cuda::Bootstrap;

std::string fresh_path() {
  auto const folder =
      std::filesystem::temp_directory_path() / ("zero_bootstrap_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  return (folder / "id").string();
}

/// The ids that ranks 0 to size - 1 get; nothing where one fails. @param late ms by which rank 0 is
std::vector<std::string> meet(std::string const& path, int size, int late, int missing = -1,
                              std::vector<std::string>* failures = nullptr) {
  std::vector<std::string> ids(zero::at(size));
  std::vector<std::string> texts(zero::at(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    if (rank == missing) continue;
    threads.emplace_back([&, rank] {
      if (rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(late));
      try {
        ncclUniqueId const id =
            Bootstrap::file(path, rank, size, std::chrono::milliseconds(missing < 0 ? 20'000 : 500))
                .id();
        ids[zero::at(rank)].assign(id.internal, sizeof id.internal);
      } catch (std::exception const& e) {
        texts[zero::at(rank)] = e.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (failures != nullptr) *failures = texts;
  return ids;
}

bool all_equal(std::vector<std::string> const& ids) {
  for (std::string const& id : ids) {
    if (id.empty() || id != ids[0]) return false;
  }
  return true;
}

TEST_CASE("ranks meet through a file and leave none behind") {
  std::string const path = fresh_path();
  std::string last;
  for (int size : {1, 2, 5}) {
    for (int late : {0, 100}) {
      std::vector<std::string> const ids = meet(path, size, late);
      CHECK(all_equal(ids));
      CHECK(ids[0] != last);
      last = ids[0];
      CHECK(std::filesystem::is_empty(std::filesystem::path(path).parent_path()));
    }
  }
}

TEST_CASE("what an earlier run has left is not taken for this one's") {
  std::string const path = fresh_path();
  std::string const number(16, '7');
  auto const write = [](std::string const& to, std::string const& bytes) {
    std::ofstream(to, std::ios::binary) << bytes;
  };
  // An answer of the right size, with questions and acknowledgements that fit it.
  for (int late : {0, 100}) {
    write(path, std::string(16, '0') + number + number + std::string(128, 'x'));
    write(path + ".1", number + std::string(16, '0'));
    write(path + ".2", number);
    std::vector<std::string> const ids = meet(path, 3, late);
    CHECK(all_equal(ids));
    CHECK(ids[0] != std::string(128, 'x'));
  }
}

TEST_CASE("a rank that does not come to the file is named") {
  std::string const path = fresh_path();
  std::vector<std::string> failures;
  meet(path, 3, 0, 2, &failures);
  CHECK(failures[0].find("rank 2 did not come to '" + path + "' within 500 ms") !=
        std::string::npos);
  CHECK(failures[0].find("rank 1") == std::string::npos);
  std::filesystem::remove_all(std::filesystem::path(path).parent_path());
  meet(fresh_path(), 2, 0, 0, &failures);
  CHECK(failures[1].find("rank 1 found no answer of rank 0 in '" + path + "' within 500 ms") !=
        std::string::npos);
  std::filesystem::remove_all(std::filesystem::path(path).parent_path());
}

TEST_CASE("an id is handed over by a function of the program") {
  std::vector<std::byte> wire;
  ncclUniqueId const first = Bootstrap::broadcast(0, [&](std::span<std::byte> id) {
                               wire.assign(id.begin(), id.end());
                             }).id();
  ncclUniqueId const second = Bootstrap::broadcast(1, [&](std::span<std::byte> id) {
                                std::copy(wire.begin(), wire.end(), id.begin());
                              }).id();
  CHECK(wire.size() == 128);
  CHECK(std::memcmp(&first, &second, sizeof first) == 0);
}

TEST_CASE("NCCL's own bootstrap takes another port than the launcher's") {
  zero::Place place;
  place.launcher = "torchrun";
  zero::Environment const none{zero::Environment::Variables{}};
  CHECK_THROWS_AS(Bootstrap::from(none, place), zero::InvalidArgument);
  place.master_address = "10.0.0.1";
  place.master_port = 29500;
  CHECK(Bootstrap::from(none, place).text() == "at 10.0.0.1:29501 (another port: ZERO_NCCL_PORT)");
  place.master_port = 65535;
  CHECK(Bootstrap::from(none, place).text() == "at 10.0.0.1:65534 (another port: ZERO_NCCL_PORT)");
  zero::Environment const own{{{"ZERO_NCCL_PORT", "1234"}}};
  CHECK(Bootstrap::from(own, place).text() == "at 10.0.0.1:1234 (another port: ZERO_NCCL_PORT)");
  ::unsetenv("NCCL_COMM_ID");
  {
    Bootstrap const bootstrap = Bootstrap::from(own, place);
    Bootstrap::Use const use(bootstrap);
    CHECK(std::string(std::getenv("NCCL_COMM_ID")) == "10.0.0.1:1234");
  }
  CHECK(std::getenv("NCCL_COMM_ID") == nullptr);
}

}  // namespace
}  // namespace zero_test
