// SPDX-License-Identifier: Apache-2.0
// What the program gpt2 refuses, and that it does so before it trains.
#include <doctest/doctest.h>
#include <gpt2/program.hpp>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#ifdef ZERO_GPT2_PROGRAM

namespace {

namespace fs = std::filesystem;
using gpt2_program::Folder;
using gpt2_program::lines;
using gpt2_program::Result;
using gpt2_program::run;
using gpt2_program::small;

TEST_CASE("what cannot be run is one sentence on stderr and status 2") {
  Folder const folder;
  std::string const short_text = (folder.path / "short").string();
  std::ofstream(short_text) << "too short";
  for (std::string const& flags : std::vector<std::string>{
           "--stage 4", "--nonsense", "--steps", "--width 10 --heads 3", "--metrics run.txt",
           "--text /nowhere/text", "--text '" + folder.path.string() + "'",
           "--text '" + short_text + "'", "--width 65536 --heads 1 --layers 1000",
           small(folder) + "--metrics /nowhere/rows.csv",
           small(folder) + "--ranks 1024 --steps 2"}) {
    INFO(flags);
    Result const result = run(folder, flags);
    CHECK(result.status == 2);
    CHECK(result.out.empty());
    CHECK(lines(result.err).size() == 1);
  }
}

TEST_CASE("a path that would end the run is refused before it begins, and nothing stays there") {
  Folder const folder;
  std::string const text = (folder.path / "text").string();
  std::string const here = folder.path.string();
  std::string const checkpoint = here + "/run/step-00000004";
  std::string const long_name(300, 'x');
  struct Wrong {
    std::string flag;
    std::string path;
    std::string said;
    bool of_checkpoints = true;  // which a program may be built without
  };
  std::vector<Wrong> all{
      {"--save", text, "it is no folder"},
      {"--save", text + "/run", "'" + text + "' is no folder"},
      {"--save", "/proc/run", "nothing can be written in '/proc'"},
      {"--save", here + "/a/" + long_name, "File name too long"},
      {"--export", text, "it is no folder"},
      {"--export", "/proc/model", "nothing can be written in '/proc'"},
      {"--save", checkpoint, "is a checkpoint itself; expected the folder that holds"},
      {"--save", checkpoint + "/a/b", "lies in the checkpoint '" + checkpoint + "'"},
      {"--export", checkpoint, "is a checkpoint itself; expected a folder for a model"},
      {"--export", checkpoint + "/a/b", "lies in the checkpoint '" + checkpoint + "'"},
      {"--export", here + "/other", "is a checkpoint itself; expected a folder for a model"},
      {"--save '" + here + "/run' --export", here + "/run/step-00000002",
       "--save '" + here + "/run' keeps 'step-00000002' for a checkpoint; expected a folder for"},
      {"--save '" + here + "/a/../new' --export", here + "//new/./step-00000012.3/",
       "keeps 'step-00000012.3' for a checkpoint"},
      {"--save '" + here + "/new/' --export", here + "/new/step-00000002/a/b",
       "keeps 'step-00000002' for a checkpoint"},
      {"--resume", "/nowhere", "looking for a checkpoint in '/nowhere' failed"},
      {"--resume", here, "has neither manifest.json nor a file 'latest'"},
      {"--import", "/nowhere", "it has neither model.safetensors nor"},
      {"--offload-optimizer nvme --nvme-path", "/nowhere", "is not there", false},
      {"--offload-optimizer nvme --nvme-path", text, "is no folder", false},
      {"--offload-optimizer nvme --nvme-path", "/proc",
       ::geteuid() == 0 ? "cannot make" : "cannot be written to", false},
      {"--metrics", "/nowhere/rows.csv", "there is no folder '/nowhere'", false},
      {"--metrics", "/proc/rows.csv", "nothing can be written in '/proc'", false},
      {"--metrics", here + "/folder.csv", "it is a folder", false}};
  fs::create_directory(folder.path / "folder.csv");
  for (std::string const& of_manifest : {checkpoint, here + "/other"}) {
    fs::create_directories(of_manifest);
    std::ofstream(of_manifest + "/manifest.json") << "{}";  // whatever it says
  }
  fs::create_directory_symlink(folder.path / "gone", folder.path / "link");
  all.push_back({"--save", here + "/link", "is a link to nothing"});
  if (::geteuid() != 0) {  // whom no permission stops
    fs::create_directory(folder.path / "closed");
    fs::permissions(folder.path / "closed", fs::perms::owner_read | fs::perms::owner_exec);
    all.push_back({"--save", here + "/closed/run", "Permission denied"});
    all.push_back({"--metrics", here + "/closed/rows.csv", "Permission denied", false});
  }
  auto const names = [&] {
    std::set<std::string> found;
    for (auto const& entry : fs::recursive_directory_iterator(folder.path))
      found.insert(entry.path().string());
    return found;
  };
  run(folder, "--help");  // has the files of what a run prints
  auto const before = names();
  for (Wrong const& wrong : all) {
    std::string const flags = wrong.flag + " '" + wrong.path + "'";
    INFO(flags);
    Result const r = run(folder, small(folder) + "--ranks 2 --steps 2 " + flags);
    INFO(r.err);
    CHECK(r.status == 2);
    CHECK(r.out.empty());
    CHECK(lines(r.err).size() == 1);
    CHECK(names() == before);
#if !ZERO_GPT2_CHECKPOINTS
    if (wrong.of_checkpoints) continue;
#endif
    CHECK(r.err.find(wrong.flag.substr(wrong.flag.rfind("--"))) != std::string::npos);
    CHECK(r.err.find(wrong.path) != std::string::npos);
    CHECK(r.err.find(wrong.said) != std::string::npos);
  }
}

/// All that stands below the folder and was made to try a path.
std::vector<std::string> trials(Folder const& folder) {
  std::vector<std::string> found;
  for (auto const& entry : fs::recursive_directory_iterator(folder.path)) {
    std::string const path = entry.path().string();
    if (path.find(".gpt2-trial") != std::string::npos) found.push_back(path);
  }
  return found;
}

TEST_CASE("paths that can be written to are tried, and only the run's own files stay") {
  Folder const folder;
  std::string const here = folder.path.string();
  std::string flags = small(folder) + "--ranks 2 --steps 1 --metrics '" + here + "/rows.jsonl' ";
#if ZERO_GPT2_CHECKPOINTS
  // Beside the checkpoints too, by a name that none of them has.
  flags += "--save '" + here + "/new/run' --export '" + here + "/new/run/model'";
#endif
  Result const r = run(folder, flags);
  INFO(r.err);
  REQUIRE(r.status == 0);
  CHECK(trials(folder).empty());
  CHECK(lines(gpt2_program::read(folder.path / "rows.jsonl")).size() == 1);
#if ZERO_GPT2_CHECKPOINTS
  CHECK(fs::exists(folder.path / "new/run/step-00000001/manifest.json"));
  CHECK(fs::exists(folder.path / "new/run/model/model.safetensors"));
#endif
}

TEST_CASE("what was made to try a path and cannot be removed is named") {
  Folder const folder;
  Result const r =
      run(folder,
          small(folder) + "--ranks 2 --steps 1 --metrics '" + folder.path.string() + "/rows.jsonl'",
          "LD_PRELOAD='" ZERO_GPT2_REMOVAL_PROBE "'");
  INFO(r.err);
  CHECK(r.status == 2);
  CHECK(r.out.empty());
  REQUIRE(lines(r.err).size() == 1);
  CHECK(r.err.find("--metrics") != std::string::npos);
  std::vector<std::string> const left = trials(folder);
  REQUIRE(left.size() == 2);  // a folder, and the file in it
  CHECK(r.err.find("stays in '" + std::min(left[0], left[1]) + "': Operation not permitted") !=
        std::string::npos);
}

TEST_CASE("a path that ranks of one machine share is refused by each, in one sentence of one") {
  Folder const folder;
  for (std::string const& flags : {"--save '" + (folder.path / "text").string() + "'",
                                   std::string("--metrics /nowhere/rows.csv")}) {
    for (std::string const rank : {"0", "1"}) {
      INFO(flags << " " << rank);
      Result const r =
          run(folder, small(folder) + flags,
              "OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=2 OMPI_COMM_WORLD_RANK=" + rank +
                  " OMPI_COMM_WORLD_LOCAL_RANK=" + rank);
      CHECK(r.status == 2);
      CHECK(r.out.empty());
      CHECK(lines(r.err).size() == (rank == "0" ? 1 : 0));
    }
  }
  // On another machine nobody writes metrics or models, and who is first there speaks of its files.
  Result const other =
      run(folder, "--text /nowhere/text --metrics /nowhere/rows.csv --export /proc/model",
          "OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=1 OMPI_COMM_WORLD_RANK=1 "
          "OMPI_COMM_WORLD_LOCAL_RANK=0");
  CHECK(other.status == 2);
#if ZERO_GPT2_MPI && ZERO_GPT2_CHECKPOINTS  // others are refused before any path is tried
  CHECK(lines(other.err).size() == 1);
  CHECK(other.err.find("/nowhere/text") != std::string::npos);
#endif
#if ZERO_GPT2_MPI
  Result const small_machine =
      run(folder, "--width 65536 --heads 1 --layers 1000",
          "OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=1 OMPI_COMM_WORLD_RANK=1 "
          "OMPI_COMM_WORLD_LOCAL_RANK=0");
  CHECK(small_machine.status == 2);
  CHECK(lines(small_machine.err).size() == 1);
  CHECK(small_machine.err.find("and this machine has") != std::string::npos);
#endif
}

TEST_CASE("where no launcher says who is first on a machine, rank 0 alone speaks of its files") {
  Folder const folder;
  for (std::string const rank : {"0", "1"}) {
    INFO(rank);
    Result const r = run(folder, "--text /nowhere/text", "PMI_SIZE=2 PMI_RANK=" + rank);
    CHECK(r.status == 2);
    CHECK(r.out.empty());
    CHECK(lines(r.err).size() == (rank == "0" ? 1 : 0));
  }
}

#if ZERO_GPT2_MPI  // others are refused before any path is tried
TEST_CASE("what one rank alone may meet, its own file, it says itself") {
  Folder const folder;
  for (std::string const rank : {"0", "1"}) {
    for (std::string const& environment :
         {"PMI_SIZE=2 PMI_RANK=" + rank,
          "OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=2 OMPI_COMM_WORLD_RANK=" + rank +
              " OMPI_COMM_WORLD_LOCAL_RANK=" + rank}) {
      INFO(environment);
      Result const r =
          run(folder, small(folder) + "--offload-optimizer nvme --nvme-path /nowhere", environment);
      CHECK(r.status == 2);
      CHECK(r.out.empty());
      CHECK(lines(r.err).size() == 1);
      CHECK(r.err.starts_with("rank " + rank + ": gpt2: --nvme-path '/nowhere': "));
    }
  }
}
#endif

TEST_CASE("--help lists the flags and runs nothing") {
  Folder const folder;
  Result const result = run(folder, "--help");
  CHECK(result.status == 0);
  CHECK(result.err.empty());
  CHECK(result.out.find("--accumulation N") != std::string::npos);
}

}  // namespace

#endif
