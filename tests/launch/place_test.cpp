// SPDX-License-Identifier: Apache-2.0
#include <zero/launch/place.hpp>

#include <doctest/doctest.h>
#include <launch/environments.hpp>

namespace {

using namespace environments;

std::optional<zero::Place> place(Variables variables) {
  return zero::find_place(zero::Environment(std::move(variables)));
}

/// What find_place refuses this with; empty: it does not.
std::string refusal(Variables variables) {
  try {
    place(std::move(variables));
  } catch (zero::InvalidArgument const& e) {
    return e.what();
  }
  return {};
}

void check_place(Variables variables, int rank, int size, std::optional<int> local_rank,
                 std::optional<int> local_size, std::string const& launcher) {
  auto const found = place(std::move(variables));
  REQUIRE(found);
  CHECK(found->rank == rank);
  CHECK(found->size == size);
  CHECK(found->local_rank == local_rank);
  CHECK(found->local_size == local_size);
  CHECK(found->launcher == launcher);
}

bool contains(std::string const& text, std::string const& part) {
  return text.find(part) != std::string::npos;
}

Variables ranks(std::string const& rank, std::string const& size, std::string const& local = "0") {
  return {{"RANK", rank}, {"WORLD_SIZE", size}, {"LOCAL_RANK", local}};
}

}  // namespace

TEST_CASE("R01 each launcher's variables alone give rank, size and local rank") {
  check_place({{"OMPI_COMM_WORLD_RANK", "2"},
               {"OMPI_COMM_WORLD_SIZE", "4"},
               {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
               {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}},
              2, 4, 1, 2, "mpirun of Open MPI");
  check_place({{"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "4"}, {"SLURM_LOCALID", "1"}}, 2, 4, 1, {},
              "srun");
  check_place(
      {{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}}, 2,
      4, 1, 2, "mpiexec with PMI");
  check_place({{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}, {"PMI_LOCAL_RANK", "1"}}, 2, 4, 1, {},
              "mpiexec with PMI");
  check_place({{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}}, 2, 4, {}, {}, "mpiexec with PMI");
  check_place(ranks("2", "4", "1"), 2, 4, 1, {}, "RANK and WORLD_SIZE");
}

TEST_CASE("R01 torchrun's names set to nothing are refused, beside another launcher too") {
  Variables const empty{{"RANK", ""}, {"WORLD_SIZE", ""}, {"LOCAL_RANK", ""}};
  CHECK(contains(refusal(empty), "WORLD_SIZE=\"\" is not a whole number"));
  CHECK(contains(refusal(with(open_mpi(1, 4), empty)), "WORLD_SIZE=\"\""));
}

TEST_CASE("R01 no launcher, no place") {
  CHECK(!place({}));
  CHECK(!place({{"PATH", "/bin"}, {"HOME", "/root"}, {"MASTER_PORT", "text"}}));
}

TEST_CASE("Environments that launchers set") {
  check_place(torchrun(5, 4, 2), 5, 8, 1, 4, "torchrun");
  check_place(deepspeed(3, 2, 2), 3, 4, 1, 2, "deepspeed");
  check_place(open_mpi(3, 4), 3, 4, 3, 4, "mpirun of Open MPI");
  check_place(hydra(3, 4), 3, 4, 3, 4, "mpiexec with PMI");
  check_place(srun(3, 4, 4), 3, 4, 3, 4, "srun");
  CHECK(*place(torchrun(5, 4, 2))->master_address == "node0.example");
  CHECK(*place(torchrun(5, 4, 2))->master_port == 29500);
  CHECK(!place(open_mpi(0, 2))->master_address);
}

TEST_CASE("A place says the variables that it was read from") {
  CHECK(place(ranks("2", "4", "1"))->variables == "RANK=\"2\", WORLD_SIZE=\"4\", LOCAL_RANK=\"1\"");
}

TEST_CASE("Slurm: the shell of an allocation and a batch script are no tasks") {
  CHECK(!place(allocation(4)));
  CHECK(!place(batch_script(4)));
  check_place(srun(1, 2, 4), 1, 2, 1, 2, "srun");
}

TEST_CASE("Slurm: the step's own number of tasks counts, and its list of tasks a node") {
  auto variables = with(srun(5, 7, 8), {{"SLURM_NTASKS", "8"},
                                        {"SLURM_LOCALID", "1"},
                                        {"SLURM_NODEID", "2"},
                                        {"SLURM_STEP_TASKS_PER_NODE", "2(x2),3"}});
  check_place(variables, 5, 7, 1, 3, "srun");
  variables["SLURM_STEP_TASKS_PER_NODE"] = "2(x2";
  CHECK(contains(refusal(variables), "SLURM_STEP_TASKS_PER_NODE=\"2(x2\""));
  variables["SLURM_STEP_TASKS_PER_NODE"] = "2(x2)";
  CHECK(contains(refusal(variables), "no count for SLURM_NODEID=\"2\""));
}

TEST_CASE("Launchers in launchers: whoever starts the ranks counts") {
  SUBCASE("mpirun in a batch script, and in an interactive task") {
    check_place(with(batch_script(4), open_mpi(1, 2)), 1, 2, 1, 2, "mpirun of Open MPI");
    check_place(with(srun(0, 1, 4), open_mpi(1, 4)), 1, 4, 1, 4, "mpirun of Open MPI");
  }
  SUBCASE("mpirun's daemons are tasks of srun") {
    check_place(with(with(srun(1, 2, 3), {{"SLURM_NTASKS", "3"}}), open_mpi(5, 6)), 5, 6, 5, 6,
                "mpirun of Open MPI");
    check_place(with(srun(0, 1, 4), hydra(1, 2)), 1, 2, 1, 2, "mpiexec with PMI");
  }
  SUBCASE("torchrun as a task of srun a node, and under mpirun") {
    check_place(with(srun(1, 2, 2), torchrun(5, 4, 2)), 5, 8, 1, 4, "torchrun");
    check_place(with(open_mpi(1, 2), torchrun(5, 4, 2)), 5, 8, 1, 4, "torchrun");
    check_place(with(srun(1, 2, 2), deepspeed(3, 2, 2)), 3, 4, 1, 2, "deepspeed");
  }
  SUBCASE("srun with PMI-2 says the same twice, and its task's place on the machine") {
    check_place(with(srun(2, 4, 4), {{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}, {"PMIX_RANK", "2"}}), 2,
                4, 2, 4, "mpiexec with PMI");
  }
  SUBCASE("a script that copies srun's numbers") {
    check_place(with(srun(2, 4, 4), ranks("2", "4", "2")), 2, 4, 2, 4, "RANK and WORLD_SIZE");
  }
}

TEST_CASE("Two launchers that disagree are refused with both sets of variables") {
  auto const both = [](Variables const& variables, std::string const& a, std::string const& b) {
    std::string const text = refusal(variables);
    CAPTURE(text);
    CHECK(contains(text, "disagree"));
    CHECK(contains(text, a));
    CHECK(contains(text, b));
  };
  // RANK and WORLD_SIZE from the shell in which mpirun was called
  both(with(open_mpi(2, 4), ranks("0", "1")), "RANK=\"0\", WORLD_SIZE=\"1\"",
       "OMPI_COMM_WORLD_RANK=\"2\", OMPI_COMM_WORLD_SIZE=\"4\"");
  // export RANK=$SLURM_PROCID in the batch script, where it is 0, before srun
  both(with(srun(2, 4, 4), ranks("0", "4")), "RANK=\"0\"", "SLURM_PROCID=\"2\"");
  both(with(srun(2, 4, 4), ranks("2", "4", "1")), "LOCAL_RANK=\"1\"", "SLURM_LOCALID=\"2\"");
  both(with(hydra(1, 2), open_mpi(0, 2)), "OMPI_COMM_WORLD_RANK=\"0\"", "PMI_RANK=\"1\"");
  // four tasks, each of which has called mpirun -np 1
  both(with(srun(2, 4, 4), open_mpi(0, 1)), "OMPI_COMM_WORLD_SIZE=\"1\"",
       "SLURM_STEP_NUM_TASKS=\"4\"");
  CHECK(contains(refusal(with(open_mpi(1, 4), {{"PMIX_RANK", "2"}})), "PMIX_RANK=\"2\""));
}

TEST_CASE("R07 numbers that are none are refused with the variable and its text") {
  for (std::string const bad : {"-1", "", " 1", "1 ", "1x", "+1", "0x1", "1.0", "1e0",
                                "1099511627776", "99999999999999999999", "one"}) {
    CAPTURE(bad);
    CHECK(contains(refusal(ranks(bad, "4")), "RANK=\"" + bad + "\" is not a whole number"));
    CHECK(contains(refusal(ranks("0", bad)), "WORLD_SIZE=\"" + bad + "\" is not a whole number"));
    CHECK(contains(refusal(ranks("0", "4", bad)), "LOCAL_RANK=\"" + bad + "\" is not"));
    for (std::string const name : {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                                   "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"}) {
      CHECK(contains(refusal(with(open_mpi(0, 4), {{name, bad}})), name + "=\"" + bad + "\""));
    }
    for (std::string const name : {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"})
      CHECK(contains(refusal(with(hydra(0, 4), {{name, bad}})), name + "=\"" + bad + "\""));
    for (std::string const name : {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID",
                                   "SLURM_NODEID", "SLURM_STEP_TASKS_PER_NODE"}) {
      CHECK(contains(refusal(with(srun(0, 4, 4), {{name, bad}})), name + "=\"" + bad + "\""));
    }
  }
}

TEST_CASE("R07 a rank of 4 in a world of 4, a world of 0") {
  std::string const text = refusal(ranks("4", "4"));
  CHECK(contains(text, "RANK=\"4\""));
  CHECK(contains(text, "WORLD_SIZE=\"4\""));
  CHECK(contains(text, "RANK must be below WORLD_SIZE"));
  CHECK(contains(refusal(ranks("0", "0")), "WORLD_SIZE=\"0\" is not a whole number from 1"));
  CHECK(contains(refusal(open_mpi(4, 4)), "must be below OMPI_COMM_WORLD_SIZE"));
  CHECK(contains(refusal(with(torchrun(3, 4, 1), {{"LOCAL_RANK", "4"}})), "LOCAL_RANK must be"));
  CHECK(contains(refusal(with(torchrun(3, 4, 1), {{"LOCAL_WORLD_SIZE", "2"}})),
                 "LOCAL_RANK must be below LOCAL_WORLD_SIZE"));
  CHECK(contains(refusal(with(torchrun(0, 4, 1), {{"LOCAL_WORLD_SIZE", "5"}})),
                 "more ranks on this machine than in the world"));
}

TEST_CASE("Half a set is refused and says what is missing") {
  for (std::string const name : {"RANK", "WORLD_SIZE", "LOCAL_RANK"}) {
    std::string const text = refusal(without(ranks("1", "4", "1"), name));
    CAPTURE(text);
    CHECK(contains(text, name + " belongs to these and is not set"));
  }
  for (std::string const name :
       {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"}) {
    CHECK(contains(refusal(without(open_mpi(1, 4), name)), name + " belongs to these"));
  }
  for (std::string const name : {"PMI_RANK", "PMI_SIZE"})
    CHECK(contains(refusal(without(hydra(1, 4), name)), name + " belongs to these"));
  for (std::string const name : {"SLURM_PROCID", "SLURM_LOCALID"})
    CHECK(contains(refusal(without(srun(1, 4, 4), name)), name + " belongs to these"));
  CHECK(contains(refusal({{"SLURM_PROCID", "1"}, {"SLURM_LOCALID", "1"}}),
                 "SLURM_STEP_NUM_TASKS belongs to these"));
  CHECK(contains(refusal({{"LOCAL_WORLD_SIZE", "2"}}), "RANK belongs to these"));
  CHECK(contains(refusal({{"PMIX_RANK", "1"}}), "no variable says how many ranks there are"));
  CHECK(contains(refusal(with(ranks("0", "2"), {{"MASTER_ADDR", "a"}})), "no MASTER_PORT"));
  CHECK(contains(refusal(with(ranks("0", "2"), {{"MASTER_PORT", "1"}})), "no MASTER_ADDR"));
}

TEST_CASE("R04 a master port that is none is refused") {
  for (std::string const bad : {"0", "70000", "65536", "text", "", "-1", "29500x"}) {
    CAPTURE(bad);
    CHECK(contains(refusal(with(torchrun(0, 2, 1), {{"MASTER_PORT", bad}})),
                   "MASTER_PORT=\"" + bad + "\" is not a whole number from 1 to 65535"));
  }
  CHECK(contains(refusal(with(torchrun(0, 2, 1), {{"MASTER_ADDR", ""}})), "MASTER_ADDR=\"\""));
  CHECK(*place(with(torchrun(0, 2, 1), {{"MASTER_PORT", "65535"}}))->master_port == 65535);
}

TEST_CASE("ranks meet beside the launcher's port, or where a variable says") {
  auto const port = [](Variables variables, int master_port) {
    return zero::port_beside(zero::Environment(std::move(variables)), master_port);
  };
  CHECK(port({}, 29500) == 29501);
  CHECK(port({}, 1) == 2);
  CHECK(port({}, 65535) == 65534);
  CHECK(port({{"ZERO_NCCL_PORT", "1234"}}, 29500) == 1234);
  for (std::string const bad : {"0", "65536", "text", ""}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(port({{"ZERO_NCCL_PORT", bad}}, 29500), zero::InvalidArgument);
  }
}

TEST_CASE("Slurm's list of counts") {
  CHECK(zero::task_count("4", 0) == 4);
  CHECK(!zero::task_count("4", 1));
  CHECK(zero::task_count("4(x2),1,3(x3)", 1) == 4);
  CHECK(zero::task_count("4(x2),1,3(x3)", 2) == 1);
  CHECK(zero::task_count("4(x2),1,3(x3)", 5) == 3);
  CHECK(!zero::task_count("4(x2),1,3(x3)", 6));
  CHECK(zero::task_count("2(x2000000000)", 1999999999) == 2);
  for (std::string const bad : {"", ",", "4,", "4(x", "4(x2", "4(y2)", "x", "0", "-1", "4 ", "4()",
                                "99999999999999999999"}) {
    CAPTURE(bad);
    CHECK(!zero::task_count(bad, 0));
  }
}
