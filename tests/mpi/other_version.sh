#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# other_version.sh MPIEXEC PROGRAM PROGRAM_OF_ANOTHER_VERSION: a rank that was built with another version is named on all ranks.
set -uo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/launcher.sh"
timeout -k 5 30 "$1" -n 1 "$2" : -n 2 "$2" >"$folder/same" 2>&1 || { echo "equal versions fail"; cat "$folder/same"; exit 1; }
timeout -k 5 30 "$1" -n 1 "$2" : -n 1 "$3" : -n 1 "$2" >"$folder/other" 2>&1
code=$?
text="ranks were built differently: rank 1 differs from rank 0 in the library's version"
if [ $code -eq 0 ] || [ "$(grep -cF "$text" "$folder/other")" -ne 3 ]; then
  echo "mpirun exits with $code and not all three say: $text"
  cat "$folder/other"
  exit 1
fi
