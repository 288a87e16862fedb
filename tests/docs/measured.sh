#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# measured.sh README 5_STAGES
# The measured columns of README's stage table, row for row, are what the program measures.
set -uo pipefail
readme=$1 program=$2
table=$(sed -nE 's/^[|] `Sharded<([0-3])>` [|][^|]*[|] ([0-9,]+) [|][^|]*[|] ([0-9,]+) [|]$/\1 \2 \3/p' "$readme")
[ "$(wc -l <<<"$table")" -eq 4 ] || { echo "$readme has no table of four stages with measured columns"; exit 1; }
said=$("$program") || { echo "$program fails"; exit 1; }
# A row of the program: stage, ..., measured peak, ..., measured elements last.
measured=$(awk '$1 ~ /^[0-3]$/ && NF > 6 {
  n = 0
  for (i = 2; i <= NF; i++) if ($i ~ /^[0-9]+,[0-9,]+$/) number[++n] = $i
  print $1, number[3], number[5] }' <<<"$said")
[ "$table" = "$measured" ] && exit 0
echo "$readme says (stage, bytes, elements):"
echo "$table"
echo "$program measures:"
echo "$measured"
exit 1
