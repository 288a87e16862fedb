#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The checks of the documents pass where document and program, or source, agree and fail where they do not.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failed=0
# expect STATUS WHY COMMAND...
expect() {
  local status=$1 why=$2
  shift 2
  "$@" >"$dir/output" 2>&1
  [ $? -eq "$status" ] || { echo "status is not $status: $why"; cat "$dir/output"; failed=1; }
}

# Outputs.
program() { printf '#!/bin/sh\ncat <<"END"\n%s\nEND\n' "$1" >"$dir/program"; chmod +x "$dir/program"; }
document() { printf '# Name\n```cpp\nstep 1: other\n```\n```text\nanother output\n```\n```text\n%s\n```\n```text\nstep 1: third\n```\n' "$1" >"$dir/document.md"; }
compare=(bash "$here/output.sh" "$dir/document.md" "$dir/program")
program $'step 1: loss 0.0493\nstep 2: loss 0.0270 of 12 bytes'
document $'step 1: loss 0.0493\nstep 2: loss 0.0270 of 12 bytes'
expect 0 'they agree' "${compare[@]}"
document $'step 1: loss 0.0494\nstep 2: loss 0.0268 of 12 bytes'
expect 0 'last digits of fractions' "${compare[@]}"
document $'step 1: loss 0.0503\nstep 2: loss 0.0270 of 12 bytes'
expect 1 'another fraction' "${compare[@]}"
document $'step 1: loss 0.0493\nstep 2: loss 0.0270 of 13 bytes'
expect 1 'another count' "${compare[@]}"
document $'step 1: loss 0.0493'
expect 1 'a line is missing' "${compare[@]}"
document $'step 1: loss 0.0493\nstep 2: loss 0.0270 of 12 bytes\nstep 3'
expect 1 'a line too many' "${compare[@]}"
document $'begin'
expect 1 'no such block' "${compare[@]}"
printf '#!/bin/sh\nexit 1\n' >"$dir/program"
expect 1 'a program that fails' "${compare[@]}"

# Formulas and measured columns.
program 'stage  bytes       by formula  tables  measured peak   elements  by formula  measured
0      16 P        12,582,912   5,888     12,588,800   2 P (N-1)/N  1,179,648  1,179,648
1      4 P + 12 P/N  5,505,024   5,888     5,510,912   2 P (N-1)/N  1,179,648  1,179,648
2      2 P           4,521,984   5,888     4,527,872   2 P (N-1)/N  1,179,648  1,179,648
3      16 P/N        3,538,944   5,888     3,544,832   (3 P - U)  1,732,608  1,732,608'
table() {
  local wire='2 P (N-1)/N | 1,179,648'
  printf '| `Sharded<0>` | 16 P | 12,588,800 | %s |\n| `Sharded<1>` | 4 P + 12 P/N | 5,510,912 | %s |\n' "$wire" "$wire" >"$dir/document.md"
  printf '| `Sharded<2>` | 2 P | 4,527,872 | %s |\n| `Sharded<3>` | %s | %s | (3 P - U) | 1,732,608 |\n' "$wire" "$2" "$1" >>"$dir/document.md"
}
table 3,544,832 '16 P/N'
expect 0 'they agree' bash "$here/measured.sh" "$dir/document.md" "$dir/program"
table 3,544,833 '16 P/N'
expect 1 'another number' bash "$here/measured.sh" "$dir/document.md" "$dir/program"
table 3,544,832 '16 P'
expect 1 'another formula' bash "$here/measured.sh" "$dir/document.md" "$dir/program"

# Names.
project=$dir/project
mkdir -p "$project"/{docs,tests/cases,include/zero/core,examples,bench}
touch "$project/include/zero/core/size.hpp" "$project/examples/1_one.cpp" "$project/CONTRIBUTING.md"
names() { printf '%s\n' "$1" >"$project/README.md"; expect "$2" "$1" bash "$here/names.sh" "$project"; }
names '`tests/cases` `zero/core/size.hpp` `core/size.hpp` [one](docs) `build/host/bin/1_one` `tests/<name>.cpp`' 0
names '# A heading, there
[one](#a-heading-there) [two](README.md#a-heading-there)' 0
names '`tests/other`' 1
names '`zero/core/other.hpp`' 1
names '[one](other.md)' 1
names '[one](#no-heading)' 1
names '`build/host/bin/other`' 1
echo '/// As in core/size.hpp and docs; of boost/json/src.hpp' >"$project/include/zero/core/size.hpp"
names '' 0
echo '/// As in core/size.hpp, see core/other.hpp.' >"$project/include/zero/core/size.hpp"
names '' 1

# Messages.
mkdir -p "$project/docs"
touch "$project/CMakeLists.txt"
{
  printf '| message | why |\n|---|---|\n'
  for i in $(seq 60); do printf '| `planted number %d: ... of ...` | why |\n' "$i"; done
} >"$dir/page"
source() { printf '%s\n' "$1" >"$project/include/zero/core/size.hpp"; }
messages() { expect "$1" "$2" bash "$here/messages.sh" "$project"; }
all=$(for i in $(seq 60); do printf 'throw Error("planted number %d: " + a + " of " + b);\n' "$i"; done)
cp "$dir/page" "$project/docs/troubleshooting.md"
source "$all"
messages 0 'they agree'
source "${all/number 7:/number seven:}"
messages 1 'a quoted message that no source says'
source "$all
throw Error(\"another sentence\" +
            std::to_string(1));"
messages 1 'a message that is not quoted'
source "$all
throw Error(\"planted number 7: \" + a + \" with an ending that stands nowhere\");"
messages 1 'a message of which only a short piece is quoted'
source "$all
throw Error(\"LearningRate::planted: argument\", x);"
messages 0 'a name, which is no sentence'
source "$all
// throw Error(\"a comment of a sentence\")"
messages 0 'a comment'
exit "$failed"
