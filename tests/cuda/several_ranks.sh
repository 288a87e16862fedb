#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# several_ranks.sh [--own-gpus] RANKS PROGRAM [argument...]
# Starts the program as RANKS processes on this machine's GPUs. Each claims a host of its own, so that several may share a GPU:
# NCCL then takes them for a cluster and talks over the loopback. With --own-gpus each has a GPU, and NCCL takes its own ways
# between them; exits with 77 where there are fewer GPUs. Exits with the first code that is not 0.
# A rank that runs longer than SECONDS_EACH (280) is ended.
set -uo pipefail
own=no
if [ "$1" = --own-gpus ]; then
  own=yes
  shift
fi
ranks=$1
shift
if [ $own = yes ]; then
  gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU')
  [ "$gpus" -ge "$ranks" ] || { echo "skipped: $ranks ranks with a GPU each; this machine has $gpus"; exit 77; }
  unset NCCL_HOSTID
else
  export NCCL_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1 NCCL_NVLS_ENABLE=0
fi
export WORLD_SIZE=$ranks LOCAL_WORLD_SIZE=$ranks MASTER_ADDR=127.0.0.1
export MASTER_PORT=${MASTER_PORT:-$((20000 + RANDOM % 20000))}
pids=()
for ((rank = 0; rank < ranks; ++rank)); do
  (
    [ $own = yes ] || export NCCL_HOSTID=host$rank
    export RANK=$rank LOCAL_RANK=$rank
    exec timeout "${SECONDS_EACH:-280}" "$@"
  ) 2>&1 | sed "s/^/[$rank] /" &
  pids+=($!)
done
code=0
for pid in "${pids[@]}"; do
  wait "$pid"
  status=$?
  [ "$code" -eq 0 ] && code=$status
done
exit "$code"
