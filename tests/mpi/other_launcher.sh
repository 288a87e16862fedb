#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# other_launcher.sh RANKS_PROGRAM
# R01: a process that a launcher has started as one of several, and that MPI knows as one of one, is refused with the variables
# named. It would train alone, as would all others.
set -uo pipefail
program=$1
source "$(dirname "${BASH_SOURCE[0]}")/launcher.sh"
refused() { # exit code, what must be said...
  local code=$1 text
  shift
  [ "$code" -ne 0 ] || { echo "exit code 0"; cat "$folder/out"; exit 1; }
  for text in "$@"; do
    grep -qF "$text" "$folder/out" || { echo "nobody says: $text"; cat "$folder/out"; exit 1; }
  done
}
RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 TORCHELASTIC_RUN_ID=none \
  timeout -k 5 30 "$program" agrees >"$folder/out" 2>&1
refused $? 'by torchrun this process is rank 1 of 2' 'RANK="1", WORLD_SIZE="2"' 'backend is rank 0 of 1'
SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_LOCALID=1 SLURM_STEP_NUM_TASKS=2 timeout -k 5 30 "$program" agrees >"$folder/out" 2>&1
refused $? 'by srun this process is rank 1 of 2' 'SLURM_PROCID="1"' 'backend is rank 0 of 1'

# The launcher of another MPI, where there is one.
libraries=$(ldd "$program")
if [[ $libraries == *libmpich* ]]; then other=mpirun.openmpi text=OMPI_COMM_WORLD_SIZE; else other=mpirun.mpich text=PMI_SIZE; fi
if command -v "$other" >/dev/null; then
  timeout -k 5 30 "$other" -n 2 "$program" agrees >"$folder/out" 2>&1
  refused $? "$text=\"2\"" 'this process is rank 1 of 2' 'backend is rank 0 of 1'
fi
