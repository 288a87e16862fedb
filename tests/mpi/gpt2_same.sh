#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gpt2_same.sh MPIEXEC GPT2 WORLD
# As processes and as threads gpt2 ends with the same line of JSON at stages 0 to 3, speed aside, and with one parameters_hash.
set -uo pipefail
mpiexec=$1 gpt2=$2 world=$3
source "$(dirname "${BASH_SOURCE[0]}")/launcher.sh"
write_text "$folder/text"
flags=(--text "$folder/text" --layers 2 --width 32 --heads 2 --context 32 --batch 2 --steps 6 --json)
without_speed() { tail -n 1 "$1" | sed -E 's/"tokens_per_s":[^,]*,//'; }
hashes=''
for stage in 0 1 2 3; do
  for precision in bf16 fp32; do
    run=("${flags[@]}" --stage $stage --precision $precision --accumulation $((stage % 2 + 1)) --reduce micro-batch)
    timeout -k 5 60 "$gpt2" "${run[@]}" --ranks "$world" >"$folder/threads" 2>"$folder/errors" || { echo "threads: exit code $?"; cat "$folder/errors"; exit 1; }
    timeout -k 5 60 "$mpiexec" -n "$world" "$gpt2" "${run[@]}" >"$folder/processes" 2>"$folder/errors" || { echo "processes: exit code $?"; cat "$folder/errors"; exit 1; }
    threads=$(without_speed "$folder/threads") processes=$(without_speed "$folder/processes")
    case $threads in *"\"world\":$world,"*parameters_hash*) ;; *) echo "no line of JSON: $threads"; exit 1 ;; esac
    if [ "$threads" != "$processes" ]; then
      printf 'stage %s, %s\nthreads:   %s\nprocesses: %s\n' $stage $precision "$threads" "$processes"
      exit 1
    fi
    hashes+="$precision $((stage % 2)) $(grep -oE '"parameters_hash":"[^"]*"' <<<"$processes")"$'\n'
  done
done
# Stages 0 and 2 have made the same steps, and so have 1 and 3.
[ "$(printf %s "$hashes" | sort -u | wc -l)" -eq 4 ] || { echo "the stages' hashes differ:"; printf %s "$hashes"; exit 1; }
