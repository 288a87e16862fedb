#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# output.sh DOCUMENT PROGRAM [ARGUMENTS...]
# One ```text block of DOCUMENT is what PROGRAM prints. The last digit of a decimal fraction may differ by one, or two of a long run:
# initial values come from the logarithm and cosine of the C library, which rounds as its version does.
set -uo pipefail
document=$1 program=$2
shift 2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"$program" "$@" >"$dir/said" || { echo "$program fails"; cat "$dir/said"; exit 1; }
[ -s "$dir/said" ] || { echo "$program prints nothing"; exit 1; }
head -n 1 "$dir/said" >"$dir/first"

# The block whose first line has the first word or two of the output's.
awk -v out="$dir" 'NR == FNR { split($0, want, " "); next }
     /^```text$/ { inside = 1; begun = 0; next }
     /^```$/ { if (inside && taken) exit; inside = taken = 0; next }
     inside && !begun { begun = 1; split($0, have, " "); taken = have[1] == want[1] && have[2] == want[2] }
     inside && taken { print }' "$dir/first" "$document" >"$dir/block"
[ -s "$dir/block" ] || { echo "$document has no text block that begins as the output does: $(cat "$dir/first")"; exit 1; }

awk 'NR == FNR { block[FNR] = $0; lines = FNR; next }
     { if (!same(block[FNR], $0)) { print "line " FNR ": the document says\n  " block[FNR] "\nand the program\n  " $0; bad = 1 } }
     END { if (FNR != lines) { print "the document has " lines " lines, the program prints " FNR; bad = 1 } exit bad }
     function same(a, b,   n, m, i, x, y) {
       if (a == b) return 1
       n = split(a, x, " "); m = split(b, y, " ")
       if (n != m) return 0
       for (i = 1; i <= n; i++) if (x[i] != y[i] && !close_to(x[i], y[i])) return 0
       return 1
     }
     function close_to(a, b,   digits, apart) {
       if (a !~ /^[0-9]+[.][0-9]+$/ || b !~ /^[0-9]+[.][0-9]+$/) return 0
       digits = length(a) - index(a, ".")
       if (digits != length(b) - index(b, ".")) return 0
       apart = (a - b) * 10 ^ digits
       return apart < 2.5 && apart > -2.5
     }' "$dir/block" "$dir/said"
