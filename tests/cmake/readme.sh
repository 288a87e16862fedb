#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# readme.sh README EXAMPLE
# The first C++ block of README is EXAMPLE byte for byte, less the example's line of licence.
set -uo pipefail
readme=$1 example=$2
for file in "$readme" "$example"; do
  [ -f "$file" ] || { echo "there is no $file"; exit 1; }
done
block=$(mktemp)
trap 'rm -f "$block"' EXIT
awk '!inside && /^```(cpp|c\+\+)$/ { inside = 1; next }
     inside && /^```$/ { exit }
     inside { print }' "$readme" >"$block"
[ -s "$block" ] || { echo "$readme has no \`\`\`cpp block"; exit 1; }
sed '1{/^\/\/ SPDX-License-Identifier:/d}' "$example" | diff - "$block" && exit 0
echo "README's first C++ block (>) is not $example (<)"
exit 1
