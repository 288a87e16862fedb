#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gpt2 --device cuda: a run that is saved and resumed, at another stage and with state below the GPU too, ends with the bits of the run
# that never stopped; a host loads what the GPU has saved, with its hash. Usage: resumed_bits.sh PROGRAM
set -uo pipefail
program=$1
command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1 || { echo 'skipped: there is no GPU'; exit 77; }
"$program" --ranks 1 --resume /nowhere 2>&1 | grep -q 'need Boost.JSON and xxHash' &&
  { echo 'skipped: the program has no checkpoints'; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for i in $(seq 3000); do echo "line $((i % 17)) of a text that is easy to learn"; done >"$folder/text"

# hash FLAG...: of the run's parameters
hash() {
  "$program" --ranks 2 --steps 20 --batch 4 --layers 2 --width 64 --heads 2 --context 64 --text "$folder/text" --json "$@" \
    2>"$folder/error" | tail -n 1 | sed -n 's/.*"parameters_hash":"\([0-9a-fx]*\)".*/\1/p'
}
# is NAME EXPECTED FOUND
is() {
  echo "$1: $3"
  [ -n "$3" ] && [ "$3" = "$2" ] || { echo "$1: expected $2"; cat "$folder/error"; exit 1; }
}
whole=$(hash --device cuda --stage 3)
half=$(hash --device cuda --stage 3 --stop-after 8 --save "$folder/run")
[ -n "$whole" ] && [ -n "$half" ] && [ "$whole" != "$half" ] || { echo "no two hashes: '$whole', '$half'"; cat "$folder/error"; exit 1; }
is "resumed at stage 3" "$whole" "$(hash --device cuda --stage 3 --resume "$folder/run")"
is "resumed at stage 1" "$whole" "$(hash --device cuda --stage 1 --resume "$folder/run")"
is "resumed with state in host memory" "$whole" \
  "$(hash --device cuda --stage 3 --resume "$folder/run" --offload-optimizer host --offload-parameters host)"
is "loaded by a host" "$half" "$(hash --device host --stage 2 --stop-after 8 --resume "$folder/run")"
whole=$(hash --device cuda --stage 2 --precision fp32 --stop-after 8 --export "$folder/model")
is "imported" "$whole" "$(hash --device host --stage 3 --precision fp32 --stop-after 1 --lr 0 --import "$folder/model")"
