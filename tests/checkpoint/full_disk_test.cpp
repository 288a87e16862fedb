// SPDX-License-Identifier: Apache-2.0
// A file system that is really full: at whatever page a save runs out of room, the checkpoint
// before is whole, `latest` is on it, and when there is room again the next save goes through.
#include <checkpoint/trainers.hpp>
#include <doctest/doctest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace {

using namespace checkpoints;
namespace fs = std::filesystem;

/// A tmpfs of so many pages, until the test ends.
class SmallDisk {
 public:
  explicit SmallDisk(Index pages) {
    std::string const size = "size=" + std::to_string(pages * page);
    mounted_ = ::mount("tmpfs", folder_.path().c_str(), "tmpfs", 0, size.c_str()) == 0;
    if (!mounted_) MESSAGE("skipped: no tmpfs can be mounted here: ", std::strerror(errno));
  }
  SmallDisk(SmallDisk const&) = delete;
  SmallDisk& operator=(SmallDisk const&) = delete;
  ~SmallDisk() {
    if (mounted_) ::umount(folder_.path().c_str());
  }
  bool mounted() const { return mounted_; }
  std::string run() const { return folder_ / "run"; }
  Index free_pages() const {
    return static_cast<Index>(fs::space(folder_.path()).available) / page;
  }
  /// Takes all room but so many pages.
  void fill(Index left) {
    std::ofstream file(folder_ / "filler", std::ios::binary);
    std::string const bytes(4096, 'x');
    for (Index n = free_pages() - left; n > 0; --n) file << bytes << std::flush;
  }
  void give_back() { fs::remove(folder_ / "filler"); }

 private:
  static constexpr Index page = 4096;
  Folder folder_;
  bool mounted_ = false;
};

// 12 bytes of 8000 elements are 24 pages, in two files.
Setup const setup{.stage = 3, .world = 2, .units = {{"u", {zero_test::weight("w", {80, 100})}}}};

Canonical state_at(int steps) {
  return state_after(setup, [&](AnyTrainer& trainer) {
    for (int s = 0; s < steps; ++s) trainer.step(s);
  });
}

}  // namespace

TEST_CASE("a small disk that is full at any page: the checkpoint before, and then the next one") {
  Canonical const first = state_at(1);
  Canonical const second = state_at(2);
  int failures = 0;
  for (bool const background : {false, true}) {
    for (Index left = 0; left < 34; left += 3) {
      CAPTURE(left);
      SmallDisk disk(100);
      if (!disk.mounted()) return;
      bool failed = false;
      on_ranks(setup, [&](AnyTrainer& trainer) {
        trainer.step(0);
        trainer.save(disk.run(), {});
        if (trainer.rank() == 0) disk.fill(left);
        trainer.step(1);  // the ranks meet
        std::string const error = error_of([&] {
          if (!background) {
            trainer.save(disk.run(), {});
          } else {
            zero::BackgroundSave save;
            trainer.start(save, disk.run(), {});
            save.wait();
          }
        });
        if (trainer.rank() == 0) failed = !error.empty();
        if (!error.empty())
          CHECK(error.find("No space left on device (errno 28)") != std::string::npos);
      });
      failures += failed ? 1 : 0;
      CHECK((left < 24) <= failed);  // there is no room for what is saved
      Canonical const found =
          state_after(setup, [&](AnyTrainer& trainer) { trainer.load(disk.run(), {}); });
      CHECK(found == (failed ? first : second));
      for (zero::FoundCheckpoint const& each : zero::find_checkpoints(disk.run()))
        CHECK(error_of([&] { zero::verify_checkpoint(each); }).empty());
      disk.give_back();
      Canonical const again = state_after(setup, [&](AnyTrainer& trainer) {
        trainer.load(disk.run(), {});
        if (failed) trainer.step(1);
        trainer.save(disk.run(), {});
        trainer.load(disk.run(), {});
      });
      CHECK(again == second);
    }
  }
  CHECK(failures >= 16);
}
