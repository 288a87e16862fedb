#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gpt2_resume.sh MPIEXEC GPT2 STAGE
# Three processes that save after four of nine steps: a run that goes on, as processes or as threads, ends with the line of JSON of the
# one that never stopped; at other worlds and stages what is loaded has the same hash. SIGTERM to one process saves on all of them.
set -uo pipefail
mpiexec=$1 gpt2=$2 stage=$3
source "$(dirname "${BASH_SOURCE[0]}")/launcher.sh"
write_text "$folder/text"
model=(--text "$folder/text" --layers 2 --width 32 --heads 2 --context 32 --json)
run() { # output, command...
  local out=$1
  shift
  timeout -k 5 100 "$@" >"$folder/$out" 2>"$folder/errors" || { echo "$*: exit code $?"; cat "$folder/errors"; exit 1; }
}
value() { tail -n 1 "$folder/$1" | grep -oE "\"$2\":[^,}]*"; }
same() { # what, output, output
  local one two
  one=$(value "$2" "$1") two=$(value "$3" "$1")
  [ -n "$one" ] && [ "$one" = "$two" ] || { printf '%s, %s: %s\n%s: %s\n' "$4" "$2" "$one" "$3" "$two"; exit 1; }
}
for precision in bf16 fp32; do
  flags=("${model[@]}" --stage "$stage" --precision $precision --batch 2 --steps 9)
  rm -rf "$folder/run"
  run whole "$mpiexec" -n 3 "$gpt2" "${flags[@]}"
  run first "$mpiexec" -n 3 "$gpt2" "${flags[@]}" --stop-after 4 --save "$folder/run"
  run processes "$mpiexec" -n 3 "$gpt2" "${flags[@]}" --resume "$folder/run"
  run threads "$gpt2" "${flags[@]}" --ranks 3 --resume "$folder/run"
  for what in parameters_hash last_loss validation_loss skipped_steps steps; do
    same $what whole processes "stage $stage, $precision"
    same $what whole threads "stage $stage, $precision"
  done
  other=$(((stage + 2) % 4))
  run other "$mpiexec" -n 2 "$gpt2" "${model[@]}" --stage $other --precision $precision --batch 3 --steps 9 --stop-after 4 --resume "$folder/run"
  same parameters_hash first other "stage $stage then $other, $precision"
done

rm -f "$folder"/out.* "$folder"/code.* "$folder"/pid.*
"$mpiexec" -n 3 bash "$rank_script" "$folder" "$gpt2" "${model[@]}" --stage "$stage" --batch 2 --steps 1000000 --save "$folder/told" >"$folder/all" 2>&1 &
launcher=$!
for ((tries = 0; tries < 600; ++tries)); do
  grep -qsE '^step +1/' "$folder/out.0" && break
  sleep 0.05
done
kill -s TERM "$(cat "$folder/pid.1")"
await_codes 0 1 2 || { echo "ranks do not end after SIGTERM"; tail -n +1 "$folder"/{all,out.*}; exit 1; }
wait $launcher
code=$?
launcher=''
[ $code -eq 0 ] || { echo "mpirun exits with $code after SIGTERM"; cat "$folder/all"; exit 1; }
grep '"parameters_hash"' "$folder/out.0" >"$folder/told.json"
steps=$(value told.json steps)
run again "$gpt2" "${model[@]}" --stage "$stage" --ranks 3 --batch 2 --steps 1000000 --stop-after "${steps#*:}" --resume "$folder/told"
same parameters_hash told.json again "SIGTERM at stage $stage"
