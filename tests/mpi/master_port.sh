#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# master_port.sh MPIEXEC RANKS_PROGRAM
# R04: MPI has a rendezvous of its own, so that a port that is in use does not hinder it; a port that is none is refused.
set -uo pipefail
mpiexec=$1 program=$2
source "$(dirname "${BASH_SOURCE[0]}")/launcher.sh"
"$program" listens "$folder/port" &
echo $! >"$folder/pid.listener"
for ((tries = 0; tries < 200; ++tries)); do
  [ -s "$folder/port" ] && break
  sleep 0.05
done
port=$(cat "$folder/port") || exit 1
MASTER_ADDR=127.0.0.1 MASTER_PORT=$port timeout -k 5 30 "$mpiexec" -n 2 "$program" agrees || {
  echo "two ranks do not start beside a listener on port $port"
  exit 1
}
for bad in 0 70000 text ''; do
  begin=$(date +%s%N)
  MASTER_ADDR=127.0.0.1 MASTER_PORT=$bad timeout -k 5 30 "$mpiexec" -n 2 "$program" agrees >"$folder/out" 2>&1
  code=$?
  milliseconds=$((($(date +%s%N) - begin) / 1000000))
  text="MASTER_PORT=\"$bad\" is not a whole number from 1 to 65535"
  if [ $code -eq 0 ] || ! grep -qF "$text" "$folder/out" || [ $milliseconds -gt 10000 ]; then
    echo "exit code $code after $milliseconds ms; nobody says: $text"
    cat "$folder/out"
    exit 1
  fi
done
