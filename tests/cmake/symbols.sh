#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# symbols.sh NM OBJECT FILE
# Holds the demangled symbols of OBJECT against FILE's lines `// symbols-required: regex` and `// symbols-forbidden: regex`
# (extended regular expressions). One required line at least: a list of names that are never spelled so would forbid nothing.
set -uo pipefail
nm=$1 object=$2 file=$3
symbols=$("$nm" -C "$object") || exit 1
failed=0

list() { sed -n "s|^ *// symbols-$1: *||p" "$file"; }
complain() {
  printf '%s: %s\n' "$(basename "$file")" "$1"
  failed=1
}

required=$(list required)
forbidden=$(list forbidden)
[ -n "$required" ] || complain 'has no line "// symbols-required: regex"'
while IFS= read -r regex; do
  grep -qE -- "$regex" <<<"$symbols" || complain "no symbol matches the required $regex"
done <<<"$required"
while IFS= read -r regex; do
  [ -n "$regex" ] || continue
  found=$(grep -E -- "$regex" <<<"$symbols") && complain "symbols match the forbidden $regex:
$(head -n 5 <<<"$found" | cut -c 1-400)"
done <<<"$forbidden"
exit "$failed"
