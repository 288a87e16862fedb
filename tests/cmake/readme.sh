#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# readme.sh README EXAMPLE USED
# The first C++ block of README is EXAMPLE byte for byte, less the example's line of licence; the lines of every other one stand one
# behind the other in USED, which is compiled, indentation aside.
set -uo pipefail
readme=$1 example=$2 used=$3
for file in "$readme" "$example" "$used"; do
  [ -f "$file" ] || { echo "there is no $file"; exit 1; }
done
block=$(mktemp)
trap 'rm -f "$block"' EXIT
# block N: the N-th C++ block
block() {
  awk -v wanted="$1" '!inside && /^```(cpp|c\+\+)$/ { inside = 1; ++number; next }
       inside && /^```$/ { inside = 0 }
       inside && number == wanted { print }' "$readme"
}
block 1 >"$block"
[ -s "$block" ] || { echo "$readme has no \`\`\`cpp block"; exit 1; }
sed '1{/^\/\/ SPDX-License-Identifier:/d}' "$example" | diff - "$block" || {
  echo "README's first C++ block (>) is not $example (<)"
  exit 1
}
text=$(sed -E 's/^ +//' "$used")
for ((number = 2;; ++number)); do
  lines=$(block "$number" | sed -E 's/^ +//')
  [ -n "$lines" ] || exit 0
  [[ $'\n'$text$'\n' == *$'\n'"$lines"$'\n'* ]] && continue
  printf '%s\n' "$lines" "these lines of README's C++ block $number do not stand in $used"
  exit 1
done
