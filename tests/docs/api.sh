#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# api.sh DOXYGEN PYTHON SOURCE_DIR
# The API reference is made without a warning: every public name has a text. And a name that has none is found.
set -uo pipefail
doxygen=$1 python=$2 source_dir=$3
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# make ROOT: the reference of the project there, into $dir/out; what doxygen has to say into $dir/said
make() {
  rm -rf "$dir/out"
  mkdir "$dir/out"
  (cd "$1" && { cat docs/Doxyfile; echo "OUTPUT_DIRECTORY = $dir/out"; } | "$doxygen" -) >"$dir/said" 2>&1
}

# look ROOT: what doxygen does not warn about has a text as well, there; what has none into $dir/said
look() {
  rm -rf "$dir/out"
  mkdir "$dir/out"
  (cd "$1" && {
    cat docs/Doxyfile
    printf '%s\n' "OUTPUT_DIRECTORY = $dir/out" 'GENERATE_HTML = NO' 'GENERATE_XML = YES' 'WARNINGS = NO' 'WARN_AS_ERROR = NO'
  } | "$doxygen" -) >"$dir/said" 2>&1
  "$python" "$here/undocumented.py" "$dir/out/xml" >"$dir/said" 2>&1
}

make "$source_dir" || {
  echo 'doxygen docs/Doxyfile warns:'
  cat "$dir/said"
  exit 1
}
[ ! -s "$dir/said" ] || { cat "$dir/said"; exit 1; }
for page in classzero_1_1Trainer structzero_1_1Options namespacezero; do
  [ -s "$dir/out/html/$page.html" ] || { echo "the reference has no page $page.html"; exit 1; }
done
! grep -rlq 'zero::detail::' "$dir/out/html" --include='*zero_1_1detail*' || { echo 'zero::detail has pages'; exit 1; }

look "$source_dir" || { cat "$dir/said"; exit 1; }

mkdir -p "$dir/planted/docs"
cp -r "$source_dir/include" "$dir/planted"
cp "$source_dir/docs/Doxyfile" "$source_dir/docs/api.md" "$dir/planted/docs"
# planted FILE TEXT FOUND [CHECK]: with TEXT at the end of FILE's namespace, CHECK, doxygen itself, fails and names FOUND
planted() {
  cp "$source_dir/include/zero/$1" "$dir/planted/include/zero/$1"
  sed -i "s|^}  // namespace zero\$|$2\n&|" "$dir/planted/include/zero/$1"
  if "${4-make}" "$dir/planted" || ! grep -qF "$3" "$dir/said"; then
    echo "not found, planted in $1: $2"
    cat "$dir/said"
    exit 1
  fi
  cp "$source_dir/include/zero/$1" "$dir/planted/include/zero/$1"
}
planted core/size.hpp 'inline int planted() { return 0; }' 'planted'
planted model/unit.hpp '/// Documented.\nstruct Planted {\n  int member = 0;\n};' 'member'
planted core/error.hpp '/// Documented.\n/// @param a is\ninline int planted(int a, int b) { return a + b; }' "'b'"
planted policy/kind.hpp '/// Documented.\n/// @param c is not\ninline int planted(int a) { return a; }' "'c'"
planted policy/kind.hpp 'template <class T>\nconcept Planted = sizeof(T) > 0;' 'concept zero::Planted has no text' look
planted policy/kind.hpp '/// Documented.\nenum class Planted {\n  first,  ///< documented\n  second\n};' 'Planted::second has no text' look
planted optim/ranges.hpp '/// Documented.\nstruct Planted {\n  struct Empty {};\n};' 'struct zero::Planted::Empty has no text' look
planted optim/ranges.hpp '/// Documented, a.\ninline int planted(int a, int b) { return a + b; }' 'does not say what b is' look
