#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# several_ranks.sh RANKS PROGRAM [argument...]
# Starts the program as RANKS processes on this machine's GPUs. Each claims a host of its own, so that several may share a GPU:
# NCCL then takes them for a cluster and talks over the loopback. Exits with the first code that is not 0.
set -uo pipefail
ranks=$1
shift
export WORLD_SIZE=$ranks LOCAL_WORLD_SIZE=$ranks MASTER_ADDR=127.0.0.1
export MASTER_PORT=${MASTER_PORT:-$((20000 + RANDOM % 20000))}
export NCCL_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1 NCCL_NVLS_ENABLE=0
pids=()
for ((rank = 0; rank < ranks; ++rank)); do
  RANK=$rank LOCAL_RANK=$rank NCCL_HOSTID=host$rank "$@" 2>&1 | sed "s/^/[$rank] /" &
  pids+=($!)
done
code=0
for pid in "${pids[@]}"; do
  wait "$pid"
  status=$?
  [ "$code" -eq 0 ] && code=$status
done
exit "$code"
