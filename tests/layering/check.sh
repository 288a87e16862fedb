#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check.sh ROOT
# Reads the room table of ROOT/docs/architecture.md ("name/ ... -> what it may include") and every include below ROOT, and prints
# what breaks an order of the house: rooms, ways to include, packages, macros, licence lines, lengths.
set -uo pipefail
root=$1
cd "$root" || exit 1
table=docs/architecture.md
[ -f "$table" ] || { echo "$table is missing: it holds the room table"; exit 1; }

# "room: allowed allowed ..." a line, in the table's order; an entry goes on over deeper indented lines.
rooms=$(awk '
  function finish(  parts, count, i, name) {
    if (entry == "") return
    count = split(entry, parts, /-> */)
    if (count < 2) { print "?" room; entry = ""; return }
    allowed = parts[count]
    if (allowed ~ /^all above/) allowed = above
    if (allowed ~ /^nothing/) allowed = ""
    gsub(/[,`]/, " ", allowed)
    print room ": " allowed
    above = above " " room
    entry = ""
  }
  /^```/ { if (inside) { finish(); inside = 0 } next }
  /^include\/zero\/ *$/ { inside = 1; next }
  !inside { next }
  /^  [a-z_]+\// { finish(); room = $1; sub(/\/.*/, "", room); entry = $0; next }
  /^  [a-z_]+[.]/ { finish(); next }
  entry != "" { entry = entry " " $0 }
  END { finish() }' "$table")
[ -n "$rooms" ] || { echo "$table has no block that starts with include/zero/ and lists rooms"; exit 1; }
[[ $rooms != *\?* ]] || { echo "$table: no '-> list' for room $(grep -oE '\?[a-z_]+' <<<"$rooms" | tr -d '?' | tr '\n' ' ')"; exit 1; }

check_includes() {
  find include tests examples bench -type f \( -name '*.hpp' -o -name '*.cuh' -o -name '*.cpp' -o -name '*.cu' -o -name '*.h' \) |
    LC_ALL=C sort | xargs -r -d '\n' awk -v rooms="$rooms" '
    function say(text) { print FILENAME ":" FNR ": " text }
    function may(room, other) { return other == room || index(" " allowed[room] " ", " " other " ") > 0 }
    # A package, the includes that name it, and the files that may.
    function package(name, includes, users) { if (path ~ includes && FILENAME !~ users) say(name " is not for this file: <" path ">") }
    BEGIN {
      count = split(rooms, lines, "\n")
      for (i = 1; i <= count; i++) {
        room = lines[i]; sub(/:.*/, "", room)
        list = lines[i]; sub(/[^:]*:/, "", list)
        gsub(/ +/, " ", list)
        allowed[room] = list
        known[room] = 1
        if (room !~ /^(checkpoint|config|cuda|mpi|torch)$/) allowed["zero.hpp"] = allowed["zero.hpp"] " " room
      }
      allowed["zero.hpp"] = allowed["zero.hpp"] " "
      known["zero.hpp"] = known["checkpoint.hpp"] = known["config.hpp"] = 1
      allowed["checkpoint.hpp"] = " checkpoint "; allowed["config.hpp"] = " config "
    }
    FNR == 1 {
      header = FILENAME ~ /^include\//
      room = FILENAME; sub(/^include\/zero\//, "", room); sub(/\/.*/, "", room)
      if (header && FILENAME !~ /^include\/zero\//) say("stands outside include/zero")
      if (header && !(room in known)) say("room " room " is not in the table")
      if (FILENAME ~ /[.]cuh$/ && header && room != "cuda") say(".cuh outside cuda/")
      if (FILENAME ~ /[.]h$/) say(".h: headers here are .hpp or .cuh")
      if ($0 != "// SPDX-License-Identifier: Apache-2.0") say("the first line is not the licence line")
    }
    # CMake would take the halves of such a name for two cases, neither of which there is.
    (/TEST_CASE[A-Z_]*\("[^"]*;[^"]*"/ || (name_follows && /^ *"[^"]*;[^"]*"/)) { say("the name of a test case holds a semicolon") }
    { name_follows = /TEST_CASE[A-Z_]*\($/ }
    header && /^[ \t]*using[ \t]+namespace/ { say("using namespace in a header") }
    header && /^[ \t]*#[ \t]*define[ \t]/ {
      macro = $0; sub(/^[ \t]*#[ \t]*define[ \t]+/, "", macro); sub(/[^A-Za-z0-9_].*/, "", macro)
      if (macro !~ /^ZERO_/) say("macro " macro " does not start with ZERO_")
    }
    /^[ \t]*#[ \t]*include/ {
      path = $0; sub(/^[ \t]*#[ \t]*include[ \t]*/, "", path)
      quoted = path ~ /^"/
      sub(/^[<"]/, "", path); sub(/[>"].*$/, "", path)
      if (path ~ /(^|\/)[.][.]?\//) say("relative include of " path)
      if (!header) next
      if (quoted) { say("relative include of " path ": write <zero/folder/file.hpp>"); next }
      package("CUDA", "^(cuda|cub/|cublas|cudnn|nccl|nvtx)", "^include/zero/cuda/")
      package("MPI", "^mpi[.]h$", "^include/zero/mpi/")
      package("libtorch", "^(torch|ATen|c10)/", "^include/zero/torch/")
      package("Boost", "^boost/", "^include/zero/(config|checkpoint)/")
      package("xxHash", "^xxhash", "^include/zero/checkpoint/")
      package("yaml-cpp", "^yaml-cpp/", "^include/zero/config/")
      package("liburing", "^liburing", "^include/zero/tier/uring[.]hpp$")
      if (path !~ /^zero\//) next
      other = path; sub(/^zero\//, "", other); sub(/\/.*/, "", other)
      if (!may(room, other)) say(room " may not include " other ": <" path ">")
      if ((getline rest < ("include/" path)) < 0) say("there is no <" path ">")
      close("include/" path)
    }'
}

check_once() {
  find include -type f \( -name '*.hpp' -o -name '*.cuh' \) -print0 | xargs -r -0 grep -L '^#pragma once$' |
    sed 's/$/: no #pragma once/'
}

check_lengths() {
  local file lines cap
  find include tests examples bench -type f \( -name '*.[ch]pp' -o -name '*.cu' -o -name '*.cuh' -o -name '*.sh' -o -name '*.cmake' \) |
    while IFS= read -r file; do
      lines=$(wc -l <"$file")
      cap=500
      case $file in
        include/*) cap=400 ;;
        examples/1_one_rank.cpp | examples/2_four_ranks.cpp) cap=40 ;;
        examples/* | bench/*) continue ;;
      esac
      [ "$lines" -le "$cap" ] || echo "$file: $lines lines, cap $cap"
    done
  file=examples/6_own_optimizer.cpp # what it says of itself: an optimizer takes thirty lines
  lines=$(awk '/^struct / { n = 0; keeps = 0 } { ++n } /num_states/ { keeps = 1 } /^};/ && keeps { print n; exit }' "$file" 2>/dev/null)
  [ ! -f "$file" ] || [ "${lines:-31}" -le 30 ] || echo "$file: an optimizer of ${lines:-no} lines, cap 30"
  lines=$(find include/zero/{step,shard,comm,policy} -type f -exec cat {} + 2>/dev/null | wc -l)
  [ "$lines" -le 3890 ] || echo "step/ + shard/ + comm/ + policy/: $lines lines, cap 3890"
}

check_licences() {
  { find tests examples bench -type f \( -name '*.sh' -o -name '*.cmake' -o -name 'CMakeLists.txt' \); echo CMakeLists.txt; } |
    while IFS= read -r file; do
      grep -qx '# SPDX-License-Identifier: Apache-2.0' <<<"$(head -n 2 "$file")" || echo "$file: no licence line"
    done
}

found=$(check_includes; check_once; check_lengths; check_licences)
[ -z "$found" ] && exit 0
printf '%s\n' "$found"
exit 1
