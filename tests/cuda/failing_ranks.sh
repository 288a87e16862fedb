#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# failing_ranks.sh PROGRAM SCENARIO: of four ranks the last goes wrong; every other one must say so within the timeout, naming
# itself, the collective and its unit.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
begun=$SECONDS
output=$(bash "$here/several_ranks.sh" 4 "$1" "$2")
code=$?
printf '%s\n' "$output"
[ "$code" -eq 77 ] && exit 77
[ "$code" -ne 0 ] || { echo "no rank failed"; exit 1; }
[ $((SECONDS - begun)) -le 60 ] || { echo "took $((SECONDS - begun)) s"; exit 1; }
for rank in 0 1 2; do
  grep -E "^\[$rank\] failed: .*rank $rank .*all_reduce .*unit 'h[.]3' \(reduce, step" <<<"$output" >/dev/null ||
    { echo "rank $rank does not name itself, the collective and its unit"; exit 1; }
done
