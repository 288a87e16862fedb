#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gpt2_launcher.sh MPIEXEC GPT2
# Under a launcher its world counts and rank 0 alone prints; what differs from it is refused with exit code 2.
set -uo pipefail
mpiexec=$1 gpt2=$2
source "$(dirname "${BASH_SOURCE[0]}")/launcher.sh"
write_text "$folder/text"
flags=(--text "$folder/text" --layers 2 --width 32 --heads 2 --context 32 --batch 2 --steps 4)
fail() { echo "$1"; tail -n +1 "$folder"/{out,errors}; exit 1; }
launch() { timeout -k 5 60 "$mpiexec" -n "$1" "$gpt2" "${flags[@]}" "${@:2}" >"$folder/out" 2>"$folder/errors"; }
count() { [ "$(grep -cE -- "$2" "$folder/$1")" -eq "$3" ] || fail "'$2' does not stand $3 times in $1"; }

launch 2 --metrics "$folder/rows.jsonl" --json || fail "exit code $?"
count out '^GPT-2 of .*; 2 ranks, stage 3' 1
count out '^a sample of what it writes now' 1
count out '"world":2,' 1
count errors '^step 4/4' 1
[ "$(wc -l <"$folder/rows.jsonl")" -eq 4 ] || fail 'not a row a step'
launch 3 --ranks 3 || fail "an equal --ranks: exit code $?"
count out '; 3 ranks' 1

launch 2 --ranks 3
code=$?
[ $code -eq 2 ] || fail "a differing --ranks: exit code $code"
count errors '^gpt2: --ranks 3, but .* has started 2 ranks \(.*="2".*\)' 1
count out . 0
launch 2 --stage 7
code=$?
[ $code -eq 2 ] || fail "a wrong flag: exit code $code"
count errors "^gpt2: --stage wants" 1
launch 2 --text "$folder/absent"
code=$?
[ $code -eq 2 ] || fail "a text that is not there: exit code $code"

# One process of a launcher has the ranks that it is told.
launch 1 --ranks 3 || fail "one process: exit code $?"
count out '; 3 ranks' 1

# A launcher that speaks nonsense.
RANK=1 WORLD_SIZE=one LOCAL_RANK=0 "$gpt2" "${flags[@]}" >"$folder/out" 2>"$folder/errors"
code=$?
[ $code -eq 2 ] || fail "WORLD_SIZE=one: exit code $code"
count errors 'WORLD_SIZE="one" is not a whole number' 1
