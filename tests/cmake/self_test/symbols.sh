#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The runner of instantiation/ sees which member functions an object calls and which it only could.
set -uo pipefail
runner=$(cd "$(dirname "$0")/.." && pwd)/symbols.sh
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failed=0
expect() {
  local status=$1 said=$2
  shift 2
  { printf '%s\n' "$@"
    cat <<'CODE'
struct Communicator { void all_reduce(); void all_gather() {} void reduce_scatter(); };
template <int Stage> struct Step {
  void run(Communicator& c) { if constexpr (Stage == 0) { c.all_reduce(); } else { c.reduce_scatter(); c.all_gather(); } }
};
template struct Step<1>;
CODE
  } >"$dir/case.cpp"
  "${CXX:-c++}" -std=c++20 -O0 -c "$dir/case.cpp" -o "$dir/case.o" &&
    bash "$runner" "${NM:-nm}" "$dir/case.o" "$dir/case.cpp" >"$dir/output" 2>&1
  [ $? -eq "$status" ] && { [ -z "$said" ] || grep -qF -- "$said" "$dir/output"; } && return
  echo "status is not $status, or the runner does not say: $said"
  cat "$dir/output"
  failed=1
}

expect 0 '' '// symbols-required: Communicator::reduce_scatter\(' '// symbols-required: ::all_gather\(' '// symbols-forbidden: all_reduce'
expect 1 'match the forbidden all_gather' '// symbols-required: reduce_scatter' '// symbols-forbidden: all_gather'
expect 1 'match the forbidden reduce_(scatter|all)' '// symbols-required: all_gather' '// symbols-forbidden: reduce_(scatter|all)'
expect 1 'no symbol matches the required all_reduce' '// symbols-required: all_reduce'
expect 1 'has no line' '// symbols-forbidden: all_reduce'
exit "$failed"
