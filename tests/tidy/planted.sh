#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# planted.sh CLANG_TIDY SOURCE_DIR
# The lint of the headers passes a header as it is and finds what is planted into it: so the filter does reach headers.
set -uo pipefail
clang_tidy=$1 source_dir=$2 failed=0
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir/include/zero/core"
cp "$source_dir/.clang-tidy" "$dir"
lint() { bash "$(dirname "$0")/lint.sh" "$clang_tidy" "$dir" core >"$dir/output" 2>&1; }
# planted CHECK TEXT: TEXT in a header is found by CHECK
planted() {
  cp "$source_dir"/include/zero/core/{size,error}.hpp "$dir/include/zero/core"
  sed -i "s|^}  // namespace zero\$|$2\n&|" "$dir/include/zero/core/size.hpp"
  if lint || ! grep -q "size[.]hpp.*\[$1" "$dir/output"; then
    echo "not found by $1: $2"
    cat "$dir/output"
    failed=1
  fi
}

cp "$source_dir"/include/zero/core/{size,error}.hpp "$dir/include/zero/core"
lint || { echo 'found where nothing is planted:'; cat "$dir/output"; failed=1; }
planted modernize-use-nullptr 'inline int* planted() { return 0; }'
planted readability-identifier-naming 'inline int Planted() { return 0; }'
planted readability-identifier-naming 'struct planted {};'
planted misc-definitions-in-headers 'int planted() { return 0; }'
planted google-explicit-constructor 'struct Planted { Planted(int); };'
planted bugprone-integer-division 'inline double planted(int a) { return a / 2; }'
planted clang-analyzer-core 'inline int planted() { int* p = nullptr; return *p; }'
planted readability-identifier-naming '#define PLANTED 1'
exit "$failed"
