#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lint.sh CLANG_TIDY SOURCE_DIR WHAT [FLAGS...]
# WHAT: a folder of include/zero, whose headers and the one of its name are linted together ("." those that need a compiler alone), or a .cpp of the project,
# in which what the headers' templates become is linted too.
set -uo pipefail
clang_tidy=$1 source_dir=$2 what=$3
shift 3
analyzer=(-Xclang -analyzer-opt-analyze-headers)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
case $what in
  *.cpp) unit=$source_dir/$what analyzer=() ;;
  *)
    unit=$dir/headers.cpp
    (cd "$source_dir/include" && { find "zero/$what" -name '*.hpp'; [ ! -f "zero/$what.hpp" ] || echo "zero/$what.hpp"; } | sed 's|/[.]/|/|' | LC_ALL=C sort) |
      { if [ "$what" = . ]; then grep -vE '^zero/((cuda|mpi|torch|checkpoint|config)[/.]|tier/uring[.]hpp$)'; else cat; fi; } |
      sed 's/.*/#include <&>/' >"$unit"
    [ -s "$unit" ] || { echo "there is no header in $what"; exit 1; }
    ;;
esac
# clang warns as g++ does in the tests. The analyzer leaves out functions that stand in a header, unless it is told.
"$clang_tidy" --quiet --config-file="$source_dir/.clang-tidy" "$unit" -- -std=c++20 -I"$source_dir/include" -I"$source_dir/tests" "$@" \
  -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow "${analyzer[@]}" >"$dir/said" 2>"$dir/summary" &&
  ! grep -qE ' (warning|error): ' "$dir/said" && exit 0
cat "$dir/said"
grep -vE 'warnings? (generated|treated)|Suppressed|Use -header-filter' "$dir/summary"
exit 1
