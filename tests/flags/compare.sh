#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# compare.sh ROOT
# Compiles tests/flags/train.cpp without optimisation, and as a user may who asks for all that his
# machine has, with the GNU dialect, in which GCC fuses products and sums. Both print the same hashes.
set -euo pipefail
root=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
compile() { # name, flags
  local name=$1
  shift
  # shellcheck disable=SC2086 # CXXFLAGS is a list
  "$CXX" ${CXXFLAGS:-} "$@" -I"$root/include" -I"$root/tests" "$root/tests/flags/train.cpp" -o "$dir/$name" -pthread
}
flags=(-O3 -std=gnu++20)
if grep -qm1 -w avx2 /proc/cpuinfo && grep -qm1 -w fma /proc/cpuinfo; then
  flags+=(-march=native)
else
  echo "this processor has no AVX2 and FMA: only -O3 is compared"
fi
compile plain -O0 -std=c++20 &
plain=$!
compile fused "${flags[@]}"
wait $plain
"$dir/plain" >"$dir/plain.txt"
"$dir/fused" >"$dir/fused.txt"
[ "$(wc -l <"$dir/plain.txt")" -eq 12 ] || { echo "expected 12 hashes:"; cat "$dir/plain.txt"; exit 1; }
diff "$dir/plain.txt" "$dir/fused.txt" || { echo "hashes depend on the compiler's flags"; exit 1; }
echo "12 hashes are equal at -O0 and at ${flags[*]}"
