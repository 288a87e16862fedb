#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# planted.sh CLANG_TIDY SOURCE_DIR
# The lint of the headers passes headers as they are and finds what is planted into one: so the filter does reach headers.
set -uo pipefail
clang_tidy=$1 source_dir=$2 failed=0
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir/include/zero/core"
cp "$source_dir/.clang-tidy" "$dir"
cp "$source_dir"/include/zero/core/{size,error}.hpp "$dir/include/zero/core"
lint() { bash "$(dirname "$0")/lint.sh" "$clang_tidy" "$dir" core >"$dir/output" 2>&1; }
lint || { echo 'found where nothing is planted:'; cat "$dir/output"; failed=1; }

# CHECK TEXT a line: each text, in a header, is found by its check.
planted=$(
  cat <<'PLANTED'
modernize-use-nullptr inline int* planted_1() { return 0; }
readability-identifier-naming inline int Planted2() { return 0; }
readability-identifier-naming struct planted_3 {};
readability-identifier-naming #define PLANTED_4 1
misc-definitions-in-headers int planted_5() { return 0; }
google-explicit-constructor struct Planted6 { Planted6(int); };
bugprone-integer-division inline double planted_7(int a) { return a / 2; }
clang-analyzer-core inline int planted_8() { int* p = nullptr; return *p; }
clang-diagnostic-shorten-64-to-32 inline int planted_9(Index n) { return n; }
clang-diagnostic-deprecated-declarations [[deprecated]] inline int old_10() { return 0; } inline int planted_10() { return old_10(); }
PLANTED
)
header=$dir/include/zero/core/size.hpp
sed -i '/^}  \/\/ namespace zero$/d' "$header"
{ sed 's/^[^ ]* //' <<<"$planted"; echo '}  // namespace zero'; } >>"$header"
if lint; then
  echo 'what is planted passes'
  failed=1
fi
while IFS= read -r line; do
  text=${line#* }
  number=$(grep -nF -- "$text" "$header" | cut -d : -f 1)
  grep -q "size[.]hpp:$number:.*\[${line%% *}" "$dir/output" || { echo "not found by ${line%% *}: $text"; failed=1; }
done <<<"$planted"
[ "$failed" -eq 0 ] || cat "$dir/output"
exit "$failed"
