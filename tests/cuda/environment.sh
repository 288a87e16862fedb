#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# environment.sh ZERO_ENVIRONMENT: on a machine with a GPU it finds nothing wrong, and says the GPU's name, that of nvidia-smi, and the
# versions of NCCL that it was built with and that are loaded, of CUDA's runtime, and of the driver.
set -uo pipefail
program=$1
command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1 || { echo 'skipped: there is no GPU'; exit 77; }
output=$("$program" 2>&1)
code=$?
echo "$output"
[ "$code" -eq 0 ] || { echo "it ended with $code: something is wrong on this machine"; exit 1; }
fact() { sed -n "s/^$1\t//p" <<<"$output"; }
nvidia-smi --query-gpu=name --format=csv,noheader | grep -qxF -- "$(fact gpu.0.name)" ||
  { echo "gpu.0.name: '$(fact gpu.0.name)', which nvidia-smi does not know"; exit 1; }
for name in nccl.built nccl.loaded cuda.built cuda.runtime cuda.driver; do
  grep -qE '^[0-9]+[.][0-9]+' <<<"$(fact $name)" || { echo "$name: '$(fact $name)' is no version"; exit 1; }
done
