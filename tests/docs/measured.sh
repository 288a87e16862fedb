#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# measured.sh README 5_STAGES
# README's stage table, row for row, formulas and measured columns, is what the program prints.
set -uo pipefail
readme=$1 program=$2
table=$(sed -nE 's/^[|] `Sharded<([0-3])>` [|] ([^|]*) [|] ([0-9,]+) [|] ([^|]*) [|] ([0-9,]+) [|]$/\1|\2|\3|\4|\5/p' "$readme")
[ "$(wc -l <<<"$table")" -eq 4 ] || { echo "$readme has no table of four stages with measured columns"; exit 1; }
said=$("$program") || { echo "$program fails"; exit 1; }
# A row of the program, columns two spaces apart: stage, formula of bytes, its value, tables, peak, formula of elements, its value,
# elements.
measured=$(awk -F '  +' 'BEGIN { OFS = "|" } $1 ~ /^[0-3]$/ && NF == 8 { print $1, $2, $5, $6, $8 }' <<<"$said")
[ "$table" = "$measured" ] && exit 0
echo "$readme says (stage, bytes, elements):"
echo "$table"
echo "$program measures:"
echo "$measured"
exit 1
