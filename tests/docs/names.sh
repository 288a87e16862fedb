#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# names.sh SOURCE_DIR [BUILD_DIR]
# What the documents and the headers' comments name is there: files and folders, headers, links, and, of BUILD_DIR, the tests of every
# covered case and those that a filter of ctest is to find.
set -uo pipefail
source_dir=$1 build_dir=${2-} failed=0
cd "$source_dir" || exit 1
wrong() { echo "$*"; failed=1; }
documents=$(find README.md CONTRIBUTING.md docs -name '*.md' | LC_ALL=C sort)

while IFS=: read -r document name; do
  name=${name//\`/}
  case $name in
    *[\<\>*]* | build/*) continue ;; # a pattern, or what a build makes
    bench/name.cpp | examples/N_name.cpp) continue ;;
  esac
  [ -e "$name" ] || wrong "$document names $name, which is not there"
done < <(grep -oE '`(tests|examples|bench|docs|include)/[^` ]*`' $documents)

while IFS=: read -r document name; do
  name=${name//[\`<>]/}
  [ -f "include/$name" ] || [ -f "include/zero/$name" ] || wrong "$document names $name, which is no header"
done < <(grep -oE '`<?([a-z_]+/)+[a-z_]+[.]hpp>?`' $documents | grep -vE '`<?(tests|examples|bench|support|gpt2)/')

# In a header's comment a room's file is named; others' files are not ours to look for.
while IFS=: read -r header name; do
  [ -e "include/zero/$name" ] || [ -e "include/$name" ] || [ -e "$name" ] || wrong "$header names $name, which is not there"
done < <(find include -name '*.hpp' -o -name '*.cuh' | LC_ALL=C sort | xargs awk '
  match($0, /\/\/.*/) {
    rest = substr($0, RSTART)
    while (match(rest, /[A-Za-z0-9_-]+(\/[A-Za-z0-9_.-]+)+\.(hpp|cuh|cpp|cu|md|sh)/)) {
      print FILENAME ":" substr(rest, RSTART, RLENGTH)
      rest = substr(rest, RSTART + RLENGTH)
    }
  }' | grep -v ':boost/')

while IFS=: read -r document link; do
  target=${link##*](}
  target=${target%)}
  anchor=${target#*#}
  [ "$anchor" != "$target" ] || anchor=
  target=${target%%#*}
  [ -z "$target" ] && file=$document || file=$(dirname "$document")/$target
  [ -e "$file" ] || { wrong "$document links to $target, which is not there"; continue; }
  [ -z "$anchor" ] && continue
  sed -nE 's/^#+ +//p' "$file" | tr '[:upper:]' '[:lower:]' | sed 's/[^a-z0-9 _-]//g; s/ /-/g' | grep -qxF -- "$anchor" ||
    wrong "$document links to $target#$anchor, which is no heading"
done < <(grep -oE '\[[^]]+\]\([^) ]*\)' $documents | grep -v 'https*://')

while IFS=: read -r document line; do
  bin=${line##*build/host/bin/}
  [ -n "$(find examples bench -name "${bin#bench_}.cpp" -o -path "examples/$bin/main.cpp" -o -path "examples/tools/${bin//-/_}/main.cpp")" ] ||
    wrong "$document runs $bin, which no source makes"
done < <(grep -oE 'build/host/bin/[a-z0-9_-]+' $documents)

if [ -n "$build_dir" ]; then
  tests=$(ctest --test-dir "$build_dir" -N | sed -nE 's/^ *Test +#[0-9]+: //p')
  [ -n "$tests" ] || { echo "ctest finds no test in $build_dir"; exit 1; }
  has() { grep -qE "$1" <<<"$tests"; }
  covered=$(awk '/^## / { on = /^## Covered/ } on && /^[|] [A-Z][0-9]+ / { print $2 }' docs/cases.md)
  waiting=$(awk '/^## / { on = /^## Waiting/ } on && /^[|]/ { print $0 }' docs/cases.md | cut -d '|' -f 2 | grep -oE '[A-Z][0-9]{2}')
  [ -n "$covered" ] || wrong 'docs/cases.md covers nothing'
  for id in $covered; do
    has "/$id[ :]" || wrong "docs/cases.md covers $id, of which there is no test"
  done
  for id in $waiting; do
    grep -qxF "$id" <<<"$covered" && wrong "docs/cases.md has $id both as covered and as waiting"
  done
  while read -r id; do
    grep -qxF "$id" <<<"$covered" || wrong "there is a test of $id, which docs/cases.md does not say"
  done < <(sed -nE 's|^[a-z0-9_]+/([A-Z][0-9]{2})[ :].*|\1|p' <<<"$tests" | sort -u)
  while IFS=: read -r document filter; do
    set -- $filter
    case $1 in
      -R) has "$2" || wrong "$document: ctest -R $2 finds no test" ;;
      -L) has "^$2/" || wrong "$document: ctest -L $2 finds no test" ;;
    esac
  done < <(grep -oE -- 'ctest --preset [a-z-]+ -[RL] [A-Za-z0-9_]+' $documents | sed -E 's/ctest --preset [a-z-]+ //')
fi
exit "$failed"
