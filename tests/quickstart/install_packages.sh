#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# install_packages.sh SCRIPT
# What examples/install_packages.sh asks of a distribution, which is played here: packages that it knows, those that are
# installed, and an apt-get that writes down what it is called with.
set -uo pipefail
script=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
bin=$folder/bin
mkdir "$bin"
for tool in bash cat env grep mktemp rm tail tr; do ln -s "$(command -v "$tool")" "$bin/$tool"; done
pretend() { printf '#!%s\nfolder=%q\n%s\n' "$bin/bash" "$folder" "$(cat)" >"$bin/$1"; chmod +x "$bin/$1"; }
pretend id <<<'cat "$folder/user"'
pretend dpkg-query <<<'grep -qx -- "${@: -1}" "$folder/installed" || { echo "no packages found" >&2; exit 1; }
echo -n installed'
pretend apt-cache <<<'grep -qx -- "$2" "$folder/known" && printf "%s:\n  Installed: (none)\n  Candidate: 1.0-1\n" "$2"
grep -qx -- "$2" "$folder/virtual" && printf "%s:\n  Installed: (none)\n  Candidate: (none)\n" "$2"
exit 0'
pretend apt-get <<<'echo "apt-get $*" >>"$folder/calls"
case " $* " in *" update "*) [ ! -e "$folder/no_update" ] ;; *) [ ! -e "$folder/no_install" ] || { echo "E: no room" >&2; exit 100; } ;; esac'
pretend sudo <<<'echo sudo >>"$folder/calls"
exec "$@"'

failed=0
wrong() {
  echo "$what: $1"
  tail -n +1 "$folder"/{calls,out,err}
  failed=1
}
# A new distribution. case NAME USER 'KNOWN...' 'INSTALLED...'
begin() {
  what=$1
  rm -f "$folder"/no_*
  echo "$2" >"$folder/user"
  printf '%s\n' $3 >"$folder/known"
  printf '%s\n' $4 >"$folder/installed"
  : >"$folder/virtual"
}
ask() {
  : >"$folder/calls"
  PATH=$bin "$bin/bash" "$script" "$@" >"$folder/out" 2>"$folder/err"
  code=$?
}
ends_with() { [ "$code" -eq "$1" ] || wrong "exit code $code, not $1"; }
installs() { # exactly these, once; nothing: no installation
  local found
  found=$(sed -n 's/.* install -y --no-install-recommends //p' "$folder/calls")
  [ "$found" = "$*" ] || wrong "installs '$found', not '$*'"
}
says() { grep -qxF -- "$1" "$folder/err" || wrong "does not say: $1"; }
one_sentence() { [ "$(cat "$folder/out" "$folder/err" | wc -l)" -eq 1 ] || wrong 'not one sentence'; }

boost='libboost-json1.83-dev|libboost-json1.81-dev|libboost-json-dev'
clang='clang-19,llvm-19,libclang-rt-19-dev|clang-18,llvm-18,libclang-rt-18-dev'

begin 'all is there' 0 'fortunes doctest-dev' 'fortunes doctest-dev'
ask bash=bash-of-another-name fortunes 'absent|doctest-dev'
ends_with 0
[ ! -s "$folder/calls" ] || wrong 'apt-get was called'
[ ! -s "$folder/out" ] && [ ! -s "$folder/err" ] || wrong 'says something'

begin 'one is missing' 0 'fortunes doctest-dev' fortunes
ask bash=bash fortunes doctest-dev
ends_with 0
installs doctest-dev
says 'installing doctest-dev'
grep -q update <(head -n 1 "$folder/calls") || wrong 'no update before'

begin 'a command that is not there' 0 'ninja-build cmake' 'ninja-build'
ask no-such-ninja=ninja-build no-such-cmake=cmake
ends_with 0
installs cmake # a package may bring its command under another name

begin 'Debian 12' 0 'libboost-json1.81-dev libboost-json-dev clang-19 llvm-19 libclang-rt-19-dev' ''
ask "$boost" "$clang"
ends_with 0
installs libboost-json1.81-dev clang-19 llvm-19 libclang-rt-19-dev

begin 'Ubuntu 24.04' 0 'libboost-json1.83-dev libboost-json-dev clang-19 llvm-19 clang-18 llvm-18 libclang-rt-18-dev' ''
ask "$boost" "$clang"
ends_with 0
installs libboost-json1.83-dev clang-18 llvm-18 libclang-rt-18-dev # of 19 one package is not there

begin 'a name without a candidate' 0 libboost-json-dev ''
echo libboost-json1.83-dev >"$folder/virtual"
ask "$boost"
installs libboost-json-dev

begin 'a later alternative is installed' 0 'libboost-json1.83-dev libboost-json-dev' libboost-json-dev
ask "$boost"
ends_with 0
installs

begin 'unknown' 0 fortunes ''
ask fortunes "$boost"
ends_with 1
installs
says "this distribution has no package $boost"

begin 'sudo' 1000 fortunes ''
ask fortunes
ends_with 0
installs fortunes
[ "$(grep -c sudo "$folder/calls")" -eq "$(grep -c apt-get "$folder/calls")" ] || wrong 'apt-get without sudo'

begin 'an old list' 0 fortunes ''
: >"$folder/no_update"
ask fortunes
ends_with 0
installs fortunes

begin 'apt-get fails' 0 'fortunes libboost-json-dev' ''
: >"$folder/no_install"
ask fortunes "$boost"
ends_with 1
says 'E: no room'
says 'apt-get could not install fortunes libboost-json-dev'

rm "$bin/sudo"
begin 'neither root nor sudo' 1000 'fortunes libboost-json1.81-dev' ''
ask fortunes "$boost" "$clang"
ends_with 1
one_sentence
says 'please install, as root: apt-get install fortunes libboost-json1.81-dev clang-19 llvm-19 libclang-rt-19-dev'
[ ! -s "$folder/calls" ] || wrong 'apt-get was called'

rm "$bin/apt-get"
begin 'no apt-get' 0 '' ''
ask fortunes
ends_with 1
one_sentence
says 'please install what these Debian packages hold: fortunes'
exit $failed
