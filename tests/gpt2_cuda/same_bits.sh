#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gpt2 --device cuda at stages 0 to 3 on two ranks that share a GPU: the loss falls, and the parameters end with the same bits.
# Usage: same_bits.sh PROGRAM
set -uo pipefail
program=$1
command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1 || { echo 'skipped: there is no GPU'; exit 77; }
text=$(mktemp)
trap 'rm -f "$text"' EXIT
for i in $(seq 3000); do echo "line $((i % 17)) of a text that is easy to learn"; done >"$text"
same=
for stage in 0 1 2 3; do
  line=$("$program" --device cuda --stage "$stage" --ranks 2 --steps 40 --batch 4 --accumulation 2 --reduce micro-batch \
    --layers 2 --width 64 --heads 2 --context 64 --text "$text" --json 2>/dev/null | tail -n 1)
  echo "stage $stage: $line"
  hash=$(sed -n 's/.*"parameters_hash":"\([0-9a-fx]*\)".*/\1/p' <<<"$line")
  first=$(sed -n 's/.*"first_loss":\([0-9.e+-]*\).*/\1/p' <<<"$line")
  last=$(sed -n 's/.*"last_loss":\([0-9.e+-]*\).*/\1/p' <<<"$line")
  [ -n "$hash" ] || { echo "stage $stage printed no hash"; exit 1; }
  [ -z "$same" ] || [ "$hash" = "$same" ] || { echo "stage $stage ends with other bits than stage 0"; exit 1; }
  awk "BEGIN { exit !($last < $first / 2) }" || { echo "stage $stage does not learn: $first to $last"; exit 1; }
  same=$hash
done
