#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# install_packages.sh NEED...
# Installs with apt what is missing of each NEED; says and does nothing where nothing is. A NEED is
#   package            the package is installed
#   command=package    the command is there, whoever brought it
#   a|b,c              alternatives, the first that the distribution has; a comma joins packages that belong together
set -euo pipefail

installed() { # of one alternative
  local package
  for package in ${1//,/ }; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || return 1
  done
}
available() {
  local package policy
  for package in ${1//,/ }; do
    policy=$(apt-cache policy "$package" 2>/dev/null)
    grep -q '^  Candidate: [^(]' <<<"$policy" || return 1
  done
}
chosen() { # the packages of the first alternative of a need that the distribution has
  local alternative
  for alternative in $(tr '|' ' ' <<<"$1"); do
    available "$alternative" || continue
    echo "${alternative//,/ }"
    return 0
  done
  return 1
}
satisfied() { # the whole need
  local need=$1 alternative
  case $need in *=*) command -v "${need%%=*}" >/dev/null && return 0 ;; esac
  for alternative in $(tr '|' ' ' <<<"${need#*=}"); do
    installed "$alternative" && return 0
  done
  return 1
}

missing=()
for need in "$@"; do
  satisfied "$need" || missing+=("${need#*=}")
done
[ "${#missing[@]}" -gt 0 ] || exit 0

if ! command -v apt-get >/dev/null; then
  echo "please install what these Debian packages hold: ${missing[*]}" >&2
  exit 1
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || {
    names=()
    for need in "${missing[@]}"; do
      first=${need%%|*}
      names+=("$(chosen "$need" || echo "${first//,/ }")")
    done
    echo "please install, as root: apt-get install ${names[*]}" >&2
    exit 1
  }
  as_root=(sudo)
fi
echo "installing ${missing[*]}" >&2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=120 "$@" >>"$log" 2>&1; }

apt update || true # one dead source among several need not matter; the installation below says if it does
packages=()
for need in "${missing[@]}"; do
  names=$(chosen "$need") || { echo "this distribution has no package $need" >&2; tail -n 5 "$log" >&2; exit 1; }
  packages+=($names)
done
apt install -y --no-install-recommends "${packages[@]}" || {
  tail -n 20 "$log" >&2
  echo "apt-get could not install ${packages[*]}" >&2
  exit 1
}
