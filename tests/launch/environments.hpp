// SPDX-License-Identifier: Apache-2.0
#pragma once
// What launchers set in the processes that they start, written down from what they print and from
// their documentation. The launchers themselves are not run here.

#include <zero/launch/environment.hpp>

#include <string>
#include <utility>

namespace environments {

using Variables = zero::Environment::Variables;

inline std::string text(int n) { return std::to_string(n); }

inline Variables with(Variables a, Variables const& b) {
  for (auto const& [name, value] : b) a.insert_or_assign(name, value);
  return a;
}
inline Variables without(Variables a, std::string const& name) {
  a.erase(name);
  return a;
}

/// torchrun, and accelerate launch for several processes: `per_node` processes on each of `nodes`.
inline Variables torchrun(int rank, int per_node, int nodes) {
  int const local = rank % per_node;
  int const size = per_node * nodes;
  return {{"LOCAL_RANK", text(local)},
          {"RANK", text(rank)},
          {"GROUP_RANK", text(rank / per_node)},
          {"GROUP_WORLD_SIZE", text(nodes)},
          {"ROLE_RANK", text(rank)},
          {"ROLE_WORLD_SIZE", text(size)},
          {"ROLE_NAME", "default"},
          {"LOCAL_WORLD_SIZE", text(per_node)},
          {"WORLD_SIZE", text(size)},
          {"MASTER_ADDR", "node0.example"},
          {"MASTER_PORT", "29500"},
          {"TORCHELASTIC_RUN_ID", "none"},
          {"TORCHELASTIC_RESTART_COUNT", "0"},
          {"TORCHELASTIC_MAX_RESTARTS", "0"},
          {"OMP_NUM_THREADS", "1"}};
}

/// accelerate launch --use_deepspeed --no_python: torchrun's, and accelerate's own.
inline Variables accelerate(int rank, int per_node, std::string const& config) {
  return with(torchrun(rank, per_node, 1),
              {{"ACCELERATE_MIXED_PRECISION", "bf16"},
               {"ACCELERATE_CONFIG_DS_FIELDS", "deepspeed_config_file"},
               {"ACCELERATE_USE_DEEPSPEED", "true"},
               {"ACCELERATE_DEEPSPEED_ZERO_STAGE", "3"},
               {"ACCELERATE_DEEPSPEED_CONFIG_FILE", config}});
}

/// deepspeed --no_python: its launcher sets no LOCAL_WORLD_SIZE.
inline Variables deepspeed(int rank, int per_node, int nodes) {
  return {{"CUDA_VISIBLE_DEVICES", "0,1"},
          {"MASTER_ADDR", "10.0.0.1"},
          {"MASTER_PORT", "29500"},
          {"WORLD_SIZE", text(per_node * nodes)},
          {"CROSS_RANK", text(rank / per_node)},
          {"CROSS_SIZE", text(nodes)},
          {"LOCAL_SIZE", text(per_node)},
          {"RANK", text(rank)},
          {"LOCAL_RANK", text(rank % per_node)}};
}

/// mpirun of Open MPI 4.1 on one machine.
inline Variables open_mpi(int rank, int size) {
  return {{"OMPI_COMM_WORLD_RANK", text(rank)},
          {"OMPI_COMM_WORLD_SIZE", text(size)},
          {"OMPI_COMM_WORLD_LOCAL_RANK", text(rank)},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", text(size)},
          {"OMPI_COMM_WORLD_NODE_RANK", text(rank)},
          {"OMPI_UNIVERSE_SIZE", text(size)},
          {"OMPI_COMMAND", "gpt2"},
          {"PMIX_RANK", text(rank)},
          {"PMIX_NAMESPACE", "915341313"}};
}

/// mpiexec (hydra) of MPICH 4.0 on one machine.
inline Variables hydra(int rank, int size) {
  return {{"PMI_RANK", text(rank)},
          {"PMI_SIZE", text(size)},
          {"PMI_FD", "6"},
          {"MPI_LOCALRANKID", text(rank)},
          {"MPI_LOCALNRANKS", text(size)}};
}

/// A shell inside an allocation of `tasks` tasks (salloc).
inline Variables allocation(int tasks) {
  return {{"SLURM_JOB_ID", "3"},         {"SLURM_JOBID", "3"},
          {"SLURM_NTASKS", text(tasks)}, {"SLURM_NPROCS", text(tasks)},
          {"SLURM_NNODES", "1"},         {"SLURM_TASKS_PER_NODE", text(tasks)}};
}
/// The script of sbatch: Slurm gives it the place of a task, although it is none.
inline Variables batch_script(int tasks) {
  return with(
      allocation(tasks),
      {{"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}, {"SLURM_NODEID", "0"}, {"SLURM_GTIDS", "0"}});
}
/// A task of srun on one machine, in a job of `job` tasks.
inline Variables srun(int rank, int tasks, int job) {
  return with(allocation(job), {{"SLURM_NTASKS", text(tasks)},
                                {"SLURM_PROCID", text(rank)},
                                {"SLURM_LOCALID", text(rank)},
                                {"SLURM_NODEID", "0"},
                                {"SLURM_STEP_ID", "0"},
                                {"SLURM_STEPID", "0"},
                                {"SLURM_STEP_NUM_TASKS", text(tasks)},
                                {"SLURM_STEP_NUM_NODES", "1"},
                                {"SLURM_STEP_TASKS_PER_NODE", text(tasks)}});
}

}  // namespace environments
