#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Trains a small GPT-2 on English text, its training state sharded over four ranks: bash examples/quickstart.sh [flags of gpt2]
# Installs what is missing (Debian 12 or Ubuntu 24.04), builds into build/host, and passes its flags on. --help lists them.
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

bash "$top/examples/install_packages.sh" g++=g++ cmake=cmake ninja=ninja-build libopenblas-dev fortunes

log=$top/build/quickstart.log
mkdir -p "$top/build"
quietly() { # what it prints is kept in the log, and shown only if it fails
  "$@" >"$log" 2>&1 || {
    tail -n 40 "$log" >&2
    echo "quickstart: this failed, all of it is in $log: $*" >&2
    exit 1
  }
}
in_top() { (cd "$top" && "$@"); }
if [ ! -x "$top/build/host/bin/gpt2" ]; then
  echo 'building gpt2, once: some minutes, in which build/quickstart.log tells what is done' >&2
  quietly in_top cmake --preset host # also where it was configured before OpenBLAS was there
fi
quietly in_top cmake --build --preset host --target gpt2
exec "$top/build/host/bin/gpt2" "$@"
