#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# rank.sh FOLDER PROGRAM ARGUMENT... runs one rank in a session of its own, so that a launcher that ends ranks ends this script and
# not the rank; leaves FOLDER/pid.RANK, out.RANK and, at last, code.RANK.
rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-${SLURM_PROCID:-0}}}
setsid --wait bash -c '
  folder=$1 rank=$2
  shift 2
  "$@" >"$folder/out.$rank" 2>&1 &
  echo $! >"$folder/pid.$rank"
  wait $!
  code=$?
  echo $code >"$folder/code.$rank"
  exit $code' rank "$1" "$rank" "${@:2}" </dev/null >/dev/null 2>&1 # a launcher waits for who holds its pipes
