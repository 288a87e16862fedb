#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# failing_ranks.sh PROGRAM SCENARIO: of four ranks the last goes wrong; every other one must say so within the timeout, naming
# itself, the collective and its unit.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
begun=$SECONDS
output=$(SECONDS_EACH=60 bash "$here/several_ranks.sh" 4 "$1" "$2")
code=$?
printf '%s\n' "$output"
[ "$code" -eq 77 ] && exit 77
[ "$code" -ne 0 ] || { echo "no rank failed"; exit 1; }
[ $((SECONDS - begun)) -lt 60 ] || { echo "took $((SECONDS - begun)) s"; exit 1; }
# A trainer's unit is any of its own; without one, it is the scenario's.
what="all_reduce .*unit 'h[.]3' \(reduce, step"
[[ $2 == *-stage* ]] && what="(all_gather|reduce_scatter|all_reduce) of .*unit '[^']+' \([a-z ]+, step"
for rank in 0 1 2; do
  grep -E "^\[$rank\] failed: .*rank $rank .*$what" <<<"$output" >/dev/null ||
    { echo "rank $rank does not name itself, the collective and its unit"; exit 1; }
done
