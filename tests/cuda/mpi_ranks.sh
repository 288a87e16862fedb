#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# mpi_ranks.sh CUDA_MPI_RANKS [MPIRUN]: two ranks on one GPU, to whom MPI_Bcast hands NCCL's id.
set -uo pipefail
program=$1 mpirun=${2:-mpirun}
command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1 || { echo 'skipped: there is no GPU'; exit 77; }
command -v "$mpirun" >/dev/null || { echo "skipped: there is no $mpirun"; exit 77; }
missing=$(ldd "$program" | sed -n 's/^\s*\(libmpi[^ ]*\) => not found.*/\1/p')
[ -z "$missing" ] || { echo "skipped: $missing, which the program was built with, is not found"; exit 77; }
# As a user's first try in a container: as root, more ranks than cores, and munge maybe installed and not running. A variable of another
# launcher would name another world.
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 PMIX_MCA_psec=native
CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-0}
export CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES%%,*}
exec timeout "${SECONDS_EACH:-280}" "$mpirun" -n 2 "$program"
