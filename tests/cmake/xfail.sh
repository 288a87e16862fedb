#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# xfail.sh fails|compiles FILE COMPILER FLAGS...
# fails:    FILE must not compile, and the compiler must print the text of every line `// expected-error: text` in it. The failure
#           alone would also pass on a file that is broken for another reason, the text alone on a file that compiles.
# compiles: FILE must compile once ZERO_XFAIL_PASS is defined.
set -uo pipefail
way=$1 file=$2
shift 2

stop() {
  printf '%s: %s\n' "$(basename "$file")" "$1"
  [ -z "${output-}" ] || printf '%s\n' "$output" | head -n 60
  exit 1
}

# Without the caret lines the compiler does not print the source, which holds the expected texts itself.
case $("$1" --version 2>/dev/null) in
  *clang*) quiet=(-fno-caret-diagnostics -fno-color-diagnostics) ;;
  *) quiet=(-fno-diagnostics-show-caret -fdiagnostics-color=never -fconcepts-diagnostics-depth=10) ;;
esac
compile() { LC_ALL=C "${command[@]}" "${quiet[@]}" "$@" -fsyntax-only "$file" 2>&1; }
command=("$@")

texts=$(sed -n 's|^ *// expected-error: *||p' "$file")
[ -n "$texts" ] || stop 'has no line "// expected-error: text"'
grep -q ZERO_XFAIL_PASS "$file" || stop 'has no passing twin under ZERO_XFAIL_PASS'

if [ "$way" = compiles ]; then
  output=$(compile -DZERO_XFAIL_PASS) || stop 'does not compile with ZERO_XFAIL_PASS'
  exit 0
fi
output=$(compile) && stop 'compiles, and should not'
while IFS= read -r text; do
  grep -qF -- "$text" <<<"$output" || stop "fails without saying: $text"
done <<<"$texts"
