#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The comparison of README with its example passes where they agree and fails where they do not.
set -uo pipefail
compare=$(cd "$(dirname "$0")/.." && pwd)/readme.sh
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failed=0
example() { printf '%s\n' '// SPDX-License-Identifier: Apache-2.0' "$@" >"$dir/example.cpp"; }
used() { printf '  %s\n' 'before' "$@" 'behind' >"$dir/used.cpp"; }
readme() { printf '%s\n' '# Name' '```sh' 'int x;' '```' '```cpp' "$@" '```' 'text' '```cpp' 'int other;' '```' >"$dir/README.md"; }
expect() {
  bash "$compare" "$dir/README.md" "$dir/example.cpp" "$dir/used.cpp" >"$dir/output"
  [ $? -eq "$1" ] || { echo "status is not $1: $2"; cat "$dir/output"; failed=1; }
}

used 'int other;'
example 'int main() {' '  char c = ";"[0];' '}'
readme 'int main() {' '  char c = ";"[0];' '}'
expect 0 'they agree'
readme 'int main() {' '  char c = ";"[0]; ' '}'
expect 1 'a blank at the end of a line'
readme 'int main() {'
expect 1 'the end is missing'
readme 'int main() {' '  char c = ";"[0];' '}'
used 'int another;'
expect 1 'a further block stands nowhere'
used 'int other;'
printf '# Name\n' >"$dir/README.md"
expect 1 'no block'
readme 'int main() {' '  char c = ";"[0];' '}'
rm "$dir/example.cpp"
expect 1 'no example'
exit "$failed"
