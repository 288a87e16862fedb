#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Plants one fault after another in a small tree and demands that check.sh names it.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
failed=0
spdx='// SPDX-License-Identifier: Apache-2.0'

plant_sound_tree() {
  rm -rf "${tree:?}"/*
  mkdir -p "$tree"/{docs,include/zero/{core,comm,step,tier},tests/comm,examples,bench}
  cat >"$tree/docs/architecture.md" <<'TABLE'
text
```
include/zero/
  zero.hpp       umbrella
  core/          words -> nowhere,
                 more words                 -> nothing
  tier/          words                      -> core
  comm/          words                      -> core
  step/          words                      -> all above
  config/        words                      -> core, step
```
  other/         not a room                 -> core
TABLE
  header core/error.hpp
  header comm/threads.hpp '#include <zero/core/error.hpp>' '#include <vector>'
  header step/gather.hpp '#include <zero/comm/threads.hpp>' '#define ZERO_A 1'
  header zero.hpp '#include <zero/step/gather.hpp>'
  printf '%s\n#include <zero/zero.hpp>\n' "$spdx" >"$tree/tests/comm/threads_test.cpp"
  printf '# SPDX-License-Identifier: Apache-2.0\n' >"$tree/CMakeLists.txt"
}
header() {
  local file=$tree/include/zero/$1
  shift
  mkdir -p "$(dirname "$file")"
  printf '%s\n' "$spdx" '#pragma once' "$@" >"$file"
}
lines() { yes '// line' | head -n "$1"; }
expect() {
  local output
  output=$(bash "$here/check.sh" "$tree")
  if [ $? -eq 0 ] || ! grep -qF -- "$1" <<<"$output"; then
    printf 'not caught: %s\n%s\n' "$1" "$output"
    failed=1
  fi
  plant_sound_tree
}

plant_sound_tree
output=$(bash "$here/check.sh" "$tree") || { printf 'the sound tree is refused:\n%s\n' "$output"; failed=1; }

header comm/threads.hpp '#include <zero/step/gather.hpp>'
expect 'include/zero/comm/threads.hpp:3: comm may not include step: <zero/step/gather.hpp>'
header core/error.hpp '#include <zero/zero.hpp>'
expect 'core may not include zero.hpp'
header config/json.hpp '#include <zero/comm/threads.hpp>'
expect 'config may not include comm'
header zero.hpp '#include <zero/config/json.hpp>'
expect 'zero.hpp may not include config'
header spare/part.hpp
expect 'room spare is not in the table'
header other/part.hpp
expect 'room other is not in the table'
header core/error.hpp '#include "size.hpp"'
expect 'relative include of size.hpp'
header core/error.hpp '#include <zero/core/../comm/threads.hpp>'
expect 'relative include of zero/core/../comm/threads.hpp'
header core/error.hpp '#include <zero/core/absent.hpp>'
expect 'there is no <zero/core/absent.hpp>'
header core/error.cuh
expect '.cuh outside cuda/'
header core/error.hpp '  #  include <cuda_runtime.h>'
expect 'CUDA is not for this file'
header step/gather.hpp '#include <boost/json.hpp>'
expect 'Boost is not for this file'
header tier/file.hpp '#include <liburing.h>'
expect 'liburing is not for this file'
header core/error.hpp '#define CHECK(x) x'
expect 'macro CHECK does not start with ZERO_'
header core/error.hpp 'using namespace std;'
expect 'using namespace in a header'
header core/error.hpp "$(lines 399)"
expect 'include/zero/core/error.hpp: 401 lines, cap 400'
printf '%s\n' "$spdx" 'TEST_CASE("one; two") {}' >"$tree/tests/comm/threads_test.cpp"
expect 'threads_test.cpp:2: the name of a test case holds a semicolon'
printf '%s\n' "$spdx" 'TEST_CASE(' '    "one; two") {}' >"$tree/tests/comm/threads_test.cpp"
expect 'threads_test.cpp:3: the name of a test case holds a semicolon'
lines 501 >"$tree/tests/comm/threads_test.cpp"
expect 'tests/comm/threads_test.cpp: 501 lines, cap 500'
for part in 1 2 3 4 5 6 7 8 9 10; do header "step/part_$part.hpp" "$(lines 390)"; done
expect 'step/ + shard/ + comm/ + policy/: 39'
for program in 1_one_rank 2_four_ranks; do
  { echo "$spdx"; lines 40; } >"$tree/examples/$program.cpp"
  expect "examples/$program.cpp: 41 lines, cap 40"
done
optimizer() { printf '%s\nstruct Own {\nnum_states\n' "$spdx"; lines "$1"; printf '};\n'; } # of $1 + 3 lines
optimizer 27 >"$tree/examples/6_own_optimizer.cpp"
bash "$here/check.sh" "$tree" || { echo 'an optimizer of thirty lines is refused'; failed=1; }
optimizer 28 >"$tree/examples/6_own_optimizer.cpp"
expect 'examples/6_own_optimizer.cpp: an optimizer of 31 lines, cap 30'
echo "$spdx" >"$tree/include/zero/core/error.hpp"
expect 'include/zero/core/error.hpp: no #pragma once'
echo '#pragma once' >"$tree/include/zero/core/error.hpp"
expect 'the first line is not the licence line'
echo 'project(x)' >"$tree/CMakeLists.txt"
expect 'CMakeLists.txt: no licence line'
sed -i 's/words  *-> core$/words/' "$tree/docs/architecture.md"
expect "no '-> list' for room"
rm "$tree/docs/architecture.md"
expect 'docs/architecture.md is missing'
exit "$failed"
