#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gpt2_signals.sh MPIEXEC GPT2
# SIGTERM and SIGINT, to one rank alone, end a run at the next step on all ranks, and all exit with 0.
set -uo pipefail
mpiexec=$1 gpt2=$2
source "$(dirname "${BASH_SOURCE[0]}")/launcher.sh"
write_text "$folder/text"
flags=(--text "$folder/text" --layers 2 --width 32 --heads 2 --context 32 --batch 2 --steps 1000000 --json)
await() { # a line of what rank 0 writes
  local tries
  for ((tries = 0; tries < 600; ++tries)); do
    grep -qsE "$1" "$folder/out.0" && return
    sleep 0.05
  done
  echo "rank 0 does not write $1"
  tail -n +1 "$folder"/{all,out.*}
  exit 1
}
check() { # signal, ranks that are processes
  local signal=$1 rank code
  shift
  await_codes "$@" || { echo "ranks do not end after $signal"; tail -n +1 "$folder"/{all,out.*}; exit 1; }
  for rank in "$@"; do
    code=$(cat "$folder/code.$rank")
    [ "$code" -eq 0 ] || { echo "rank $rank exits with $code after $signal"; cat "$folder/out.$rank"; exit 1; }
  done
  await "^stopped after step [0-9,]+ by $signal$"
  local step
  step=$(sed -nE "s/^stopped after step ([0-9,]+) by $signal$/\1/p" "$folder/out.0" | tr -d ,)
  await "\"steps\":$step,.*\"parameters_hash\""
}
for signal in SIGTERM SIGINT; do
  rm -f "$folder"/out.* "$folder"/code.* "$folder"/pid.*
  bash "$rank_script" "$folder" "$gpt2" "${flags[@]}" --ranks 3 >/dev/null 2>&1 & # as threads
  await '^step +1/'
  kill -s "${signal#SIG}" "$(cat "$folder/pid.0")"
  check $signal 0
  wait $!

  rm -f "$folder"/out.* "$folder"/code.* "$folder"/pid.*
  "$mpiexec" -n 3 bash "$rank_script" "$folder" "$gpt2" "${flags[@]}" >"$folder/all" 2>&1 &
  launcher=$!
  await '^step +1/'
  kill -s "${signal#SIG}" "$(cat "$folder/pid.1")"
  check $signal 0 1 2
  wait $launcher
  code=$?
  [ $code -eq 0 ] || { echo "mpirun exits with $code after $signal"; cat "$folder/all"; exit 1; }
  launcher=''
done
