// SPDX-License-Identifier: Apache-2.0
// Whatever a disk does, training has the right bits or ends in an error that says what it was.
#include <zero/core/error.hpp>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <support/death.hpp>
#include <sys/mount.h>
#include <tier/io_faults.hpp>
#include <tier/run.hpp>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

namespace {

namespace fs = std::filesystem;
using namespace tier_test;

/// State and parameters in files, tiles smaller than units.
Setup in_files(int world = 2) {
  Setup setup{.place = {3, Tier::nvme, Tier::nvme}, .world = world};
  setup.options.offload.tile_elements = 128;
  setup.options.offload.buffer_count = 3;
  return setup;
}

Outcome const& undisturbed() {
  static Outcome const outcome = [] {
    io_faults.clear();
    return train_mixed(in_files());
  }();
  return outcome;
}

/// What training throws; empty where it does not.
std::string failure(Setup const& setup) {
  try {
    train_mixed(setup);
  } catch (zero::StorageError const& e) {
    return e.what();
  } catch (zero::Error const& e) {
    return std::string("another error: ") + e.what();
  }
  return {};
}

struct Undisturbed {
  Undisturbed() { io_faults.clear(); }
  ~Undisturbed() { io_faults.clear(); }
};

bool has(std::string const& text, std::string const& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("reads and writes that stop early, or are interrupted, are continued to the right bits") {
  Outcome const& expected = undisturbed();
  Undisturbed const after;
  io_faults.piece = 4096;
  CHECK(difference(train_mixed(in_files()), expected) == "");
  io_faults.interrupts = 3;
  for (int refusal : {EINTR, EAGAIN}) {
    io_faults.refusal = refusal;
    CHECK(difference(train_mixed(in_files()), expected) == "");
  }
}

TEST_CASE("seconds of latency change no bit") {
  Outcome const& expected = undisturbed();
  Undisturbed const after;
  for (long late : {3l, 40l}) {
    io_faults.clear();
    io_faults.late = late;
    io_faults.late_ms = 1500;
    CHECK(difference(train_mixed(in_files()), expected) == "");
  }
}

TEST_CASE("EIO, ENOSPC and a file that ends, at every I/O: file, offset and reason, never bits") {
  Outcome const& expected = undisturbed();
  Undisturbed const after;
  io_faults.clear();
  train_mixed(in_files());
  long const reads = io_faults.reads;
  long const writes = io_faults.writes;
  CHECK(reads > 50);
  CHECK(writes > 50);
  int unnoticed = 0;
  auto const check = [&](std::atomic<long>& bad, long number, int error, char const* operation,
                         char const* reason) {
    io_faults.clear();
    bad = number;
    io_faults.error = error;
    std::string said;
    Outcome outcome;
    try {
      outcome = train_mixed(in_files());
    } catch (zero::StorageError const& e) {
      said = e.what();
    }
    CAPTURE(number);
    if (said.empty()) {
      // How far ahead reads run is a matter of time, so the last ones may not be made.
      CHECK(difference(outcome, expected) == "");
      ++unnoticed;
      return;
    }
    CHECK_MESSAGE(has(said, folder() + "/zero_"), said);
    CHECK_MESSAGE(has(said, operation), said);
    CHECK_MESSAGE(has(said, "offset "), said);
    CHECK_MESSAGE(has(said, reason), said);
  };
  long const stride = ZERO_TESTS_SANITIZED ? 17 : 1;
  for (long i = 0; i < reads; i += stride)
    check(io_faults.bad_read, i, EIO, "read ", "Input/output error (errno 5)");
  for (long i = 0; i < reads; i += stride)
    check(io_faults.bad_read, i, 0, "read ", "the file ends there");
  for (long i = 0; i < writes; i += stride)
    check(io_faults.bad_write, i, EIO, "wrote ", "Input/output error (errno 5)");
  for (long i = 0; i < writes; i += stride)
    check(io_faults.bad_write, i, ENOSPC, "wrote ", "No space left on device (errno 28)");
  // Those that run ahead as training ends: two of a ring of three, two files, two ranks, and two
  // kinds of failures of a read.
  CHECK(unnoticed <= 2 * 2 * 2 * 2);
  CHECK(entries(folder()) == 0);
}

TEST_CASE("where streams run late as well, a file that fails ends the run with an error") {
  Undisturbed const after;
  for (Place const& place : {Place{2, Tier::nvme}, Place{3, Tier::nvme, Tier::nvme}}) {
    Setup setup = in_files(1);
    setup.place = place;
    io_faults.clear();
    train_late(setup, true);
    long const reads = io_faults.reads;
    long const writes = io_faults.writes;
    for (long i = 0; i < reads + writes; i += 7) {
      io_faults.clear();
      (i < reads ? io_faults.bad_read : io_faults.bad_write) = i < reads ? i : i - reads;
      io_faults.error = EIO;
      std::string said;
      try {
        train_late(setup, true);
        said = io_faults.bad_read < io_faults.reads && io_faults.bad_write < io_faults.writes
                   ? "nothing"
                   : "not made";
      } catch (zero::Error const& e) {
        said = e.what();
      }
      CAPTURE(i);
      CHECK_MESSAGE((has(said, "Input/output error (errno 5)") || said == "not made"), said);
    }
  }
}

TEST_CASE("a file that was cut under us is an error at the read") {
  Undisturbed const after;
  for (std::string const name : {"zero_optimizer_state", "zero_parameters"}) {
    Setup setup = in_files(1);
    io_faults.clear();
    io_faults.late = 60;  // time in which it is cut
    io_faults.late_ms = 400;
    std::string said;
    std::thread cuts([&name] {
      while (io_faults.reads + io_faults.writes <= 60) std::this_thread::yield();
      int found = 0;
      for (auto const& entry : fs::directory_iterator("/proc/self/fd")) {
        std::error_code error;
        std::string const target = fs::read_symlink(entry.path(), error).string();
        if (!has(target, name)) continue;
        int const file = ::open(entry.path().c_str(), O_RDWR);
        found += ::ftruncate(file, 0) == 0;
        ::close(file);
      }
      CHECK(found == 1);
    });
    said = failure(setup);
    cuts.join();
    CHECK_MESSAGE(has(said, name + "_rank0"), said);
    bool const ended = has(said, "the file ends there");
    bool const grown =
        has(said, "they are not what was written there");  // by writes behind the cut
    CHECK_MESSAGE((ended || grown), said);
  }
}

TEST_CASE("a process that is killed in the middle leaves nothing, and the next run has its bits") {
  Outcome const& expected = undisturbed();
  Undisturbed const after;
  for (long number : {0l, 13l, 40l}) {
    io_faults.clear();
    io_faults.killed = number;
    CHECK(zero_test::signal_of([] { train_mixed(in_files(1)); }) == SIGKILL);
    CHECK(entries(folder()) == 0);
  }
  io_faults.clear();
  // A stranger's file of any name is not touched.
  std::ofstream(folder() + "/zero_optimizer_state_rank0") << "not ours";
  CHECK(difference(train_mixed(in_files()), expected) == "");
  CHECK(entries(folder()) == 1);
  fs::remove(folder() + "/zero_optimizer_state_rank0");
}

TEST_CASE("V02: a disk that is full is refused where the file is made, on every rank") {
  Undisturbed const after;
  std::string const path = folder() + "/small";
  fs::create_directories(path);
  bool const small = ::mount("tmpfs", path.c_str(), "tmpfs", 0, "size=1m") == 0;
  // A weight and two states of 4 bytes an element: 2 MiB, half of it a rank's, and its stamp.
  zero::Units const large{{"a", {{.name = "a.w", .shape = {(Index{2} << 20) / 12}}}}};
  Setup setup = in_files(2);
  setup.model = &large;
  setup.options.offload.tile_elements = 1 << 20;
  setup.options.offload.nvme_path = path;
  if (!small) {
    MESSAGE("this machine mounts no tmpfs for this user: the full disk is the C library's");
    io_faults.reservation = ENOSPC;
  }
  // Returns once both ranks have stopped.
  std::string const said = failure(setup);
  CHECK_MESSAGE(has(said, "cannot reserve '" + path + "/zero_"), said);
  CHECK_MESSAGE(has(said, ": wanted "), said);
  CHECK_MESSAGE(has(said, " bytes, wrote 0, free "), said);
  CHECK_MESSAGE(has(said, "No space left on device (errno 28)"), said);
  if (small) {
    CHECK(entries(path) == 0);
    Setup room = in_files();
    room.options.offload.nvme_path = path;
    CHECK(failure(room) == "");
    ::umount(path.c_str());
  }
  fs::remove(path);
}

TEST_CASE("a small filesystem on a loop device is refused where it is full, and trains with room") {
  Undisturbed const after;
  std::string const path = folder() + "/loop";
  std::string const image = folder() + "/image";
  fs::create_directories(path);
  std::string const quiet = " >/dev/null 2>&1";
  std::ofstream(image) << std::string(8 << 20, '\0');
  bool const made =
      std::system(("mkfs.ext4 -q -F '" + image + "'" + quiet).c_str()) == 0 &&
      std::system(("mount -o loop '" + image + "' '" + path + "'" + quiet).c_str()) == 0;
  if (made) {
    Setup setup = in_files();
    setup.options.offload.nvme_path = path;
    fs::remove(path + "/lost+found");
    {
      std::ofstream filler(path + "/filler");
      while (filler << std::string(4096, 'x') << std::flush) {
      }
    }
    std::string const said = failure(setup);
    CHECK_MESSAGE(has(said, "cannot reserve '" + path + "/zero_"), said);
    CHECK_MESSAGE(has(said, ", wrote 0, free 0: No space left on device (errno 28)"), said);
    fs::remove(path + "/filler");
    CHECK(difference(train_mixed(setup), undisturbed()) == "");
    CHECK(entries(path) == 0);
    CHECK(::umount(path.c_str()) == 0);
  } else {
    MESSAGE("this machine mounts no image on a loop device for this user: left out");
  }
  fs::remove(path);
  fs::remove(image);
}

TEST_CASE("V03: any number of buffers from three on trains, fewer are refused at the start") {
  Outcome const& expected = undisturbed();
  for (int count : {0, 1, 2}) {
    Setup setup = in_files();
    setup.options.offload.buffer_count = count;
    CHECK(failure(setup) == "another error: Options::offload.buffer_count: found " +
                                std::to_string(count) +
                                "; expected at least 3 tiles: one that is read, one that is "
                                "updated, one that is written");
  }
  for (int count : {3, 4, 50}) {
    Setup setup = in_files();
    setup.options.offload.buffer_count = count;
    Outcome const outcome = train_mixed(setup);
    CHECK(difference(outcome, expected) == "");
    CHECK(fault(outcome) == "");
  }
}

TEST_CASE("V08: paths that are none, a file, read-only or on a network are refused at the start") {
  Undisturbed const after;
  Setup setup = in_files();
  auto const refused = [&](std::string const& path, std::string const& why) {
    setup.options.offload.nvme_path = path;
    std::string const said = failure(setup);
    CHECK_MESSAGE(has(said, "OffloadOptions::nvme_path: '" + path + "' " + why), said);
  };
  refused(folder() + "/missing", "is not there: No such file or directory");
  std::ofstream(folder() + "/file") << "x";
  refused(folder() + "/file", "is no folder");
  fs::remove(folder() + "/file");
  refused("/proc/self", "cannot be written to: ");
  io_faults.filesystem = 0x6969;
  refused(folder(), "lies on a network filesystem (NFS)");
}
