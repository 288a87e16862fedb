#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The runner of xfail/ accepts a near miss that fails as it says, and rejects each way in which one could be no test.
set -uo pipefail
runner=$(cd "$(dirname "$0")/.." && pwd)/xfail.sh
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failed=0
expect() {
  bash "$runner" "$2" "$dir/case.cpp" "${CXX:-c++}" -std=c++20 >"$dir/output" 2>&1
  [ $? -eq "$1" ] && { [ -z "$3" ] || grep -qF -- "$3" "$dir/output"; } && return
  echo "$2: status is not $1, or the runner does not say: $3"
  cat "$dir/output"
  failed=1
}
write() { printf '%s\n' "$@" >"$dir/case.cpp"; }
near_miss=('#ifdef ZERO_XFAIL_PASS' 'using T = int;' '#else' 'using T = char;' '#endif'
  'template <class U> struct S { static_assert(sizeof(U) == 4, "S: needs four bytes; not [one]"); };' 'S<T> s;')

write '// expected-error: S: needs four bytes; not [one]' "${near_miss[@]}"
expect 0 fails ''
expect 0 compiles ''
write '// expected-error: S: needs eight bytes' "${near_miss[@]}"
expect 1 fails 'fails without saying: S: needs eight bytes'
write '// expected-error: S: needs four bytes' '// expected-error: nothing of the kind' "${near_miss[@]}"
expect 1 fails 'fails without saying: nothing of the kind'
write '// expected-error: needs four bytes' 'int x; // ZERO_XFAIL_PASS'
expect 1 fails 'compiles, and should not'
write '// expected-error: needs four bytes' 'syntax error // ZERO_XFAIL_PASS: needs four bytes'
expect 1 fails 'fails without saying: needs four bytes'
expect 1 compiles 'does not compile with ZERO_XFAIL_PASS'
write "${near_miss[@]}"
expect 1 fails 'has no line'
write '// expected-error: needs four bytes' 'static_assert(sizeof(char) == 4, "needs four bytes");'
expect 1 fails 'has no passing twin'
exit "$failed"
