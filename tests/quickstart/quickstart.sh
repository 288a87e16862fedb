#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# quickstart.sh ROOT BUILD
# examples/quickstart.sh in a tree of its own, whose build folder is BUILD, where gpt2 is built: what it passes on, and that it
# builds nothing again. Then with a CMake that writes down what it is called with: a first start, a second one, and failures.
set -uo pipefail
root=$1 build=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tree=$folder/tree
fail() {
  echo "$1"
  tail -n +1 "$folder"/{out,err,calls,needs} "$tree"/build/quickstart.log
  exit 1
}
# quickstart ARGUMENTS...
quickstart() {
  : >"$folder/calls"
  (cd / && bash "$tree/examples/quickstart.sh" "$@") >"$folder/out" 2>"$folder/err"
  code=$?
}
new_tree() {
  rm -rf "$tree"
  mkdir -p "$tree/examples" "$tree/build"
  cp "$root/examples/quickstart.sh" "$tree/examples/"
  printf '%s\n' "printf '%s\n' \"\$@\" >'$folder/needs'" >"$tree/examples/install_packages.sh"
}

new_tree
ln -s "$root/CMakeLists.txt" "$root/CMakePresets.json" "$tree/"
ln -s "$build" "$tree/build/host"
quickstart --help
[ $code -eq 0 ] || fail "--help: exit code $code"
grep -q -- '--accumulation N' "$folder/out" || fail '--help does not list the flags'
[ ! -s "$folder/err" ] || fail '--help: something on the standard error'
for need in g++=g++ cmake=cmake ninja=ninja-build libopenblas-dev fortunes; do
  grep -qxF "$need" "$folder/needs" || fail "does not ask for $need"
done
for i in {1..200}; do echo "the $((i % 7)) cats sat on mat $((i % 13))."; done >"$folder/a text"
quickstart --steps 2 --json --text "$folder/a text" --layers 2 --width 16 --heads 2 --context 16 --batch 2
[ $code -eq 0 ] || fail "two steps: exit code $code"
last=$(tail -n 1 "$folder/out")
[[ $last == '{"stage":3,"world":4,"steps":2,'*'"parameters_hash":"0x'*'"}' ]] || fail 'the last line is not the JSON of two steps'
grep -q 'no work to do' "$tree/build/quickstart.log" || fail 'a second start builds'
grep -q building "$folder/err" && fail 'a second start says that it builds'
quickstart --stage 4
[ $code -eq 2 ] || fail "a wrong flag: exit code $code, not gpt2's 2"
grep -q '^gpt2: --stage wants' "$folder/err" || fail 'does not say what is wrong'

# A first start.
new_tree
mkdir "$folder/bin"
cat >"$folder/bin/cmake" <<STUB
#!/usr/bin/env bash
echo "\$PWD: \$*" >>'$folder/calls'
[ ! -e '$folder/broken' ] || { echo 'an error of the compiler'; exit 7; }
[ "\$1" = --build ] || exit 0
mkdir -p build/host/bin
printf '%s\n' '#!/usr/bin/env bash' 'printf "<%s>" "\$@"' >build/host/bin/gpt2
chmod +x build/host/bin/gpt2
STUB
chmod +x "$folder/bin/cmake"
PATH=$folder/bin:$PATH
configures="$tree: --preset host"
builds="$tree: --build --preset host --target gpt2"
: >"$folder/broken"
quickstart
[ $code -eq 1 ] || fail "where CMake fails: exit code $code"
grep -qx 'an error of the compiler' "$folder/err" || fail 'does not show what CMake said'
grep -q '^quickstart: this failed, all of it is in .*/build/quickstart.log: ' "$folder/err" || fail 'does not say where the log is'
rm "$folder/broken"
quickstart --text 'a b' --json
[ $code -eq 0 ] || fail "a first start: exit code $code"
[ "$(cat "$folder/calls")" = "$configures"$'\n'"$builds" ] || fail 'a first start does not configure and build'
[ "$(cat "$folder/err")" = 'building gpt2, once: some minutes, in which build/quickstart.log tells what is done' ] || fail 'a first start does not say that it builds'
[ "$(cat "$folder/out")" = '<--text><a b><--json>' ] || fail 'flags are not passed on as they are'
quickstart --json
[ "$(cat "$folder/calls")" = "$builds" ] || fail 'a second start configures'
[ ! -s "$folder/err" ] || fail 'a second start says that it builds'
[ "$(cat "$folder/out")" = '<--json>' ] || fail 'a second start does not run'
echo 'exit 3' >"$tree/examples/install_packages.sh"
quickstart
[ $code -ne 0 ] && [ ! -s "$folder/calls" ] && [ ! -s "$folder/out" ] || fail 'goes on without its packages'
exit 0
