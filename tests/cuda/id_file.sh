#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# id_file.sh CUDA_RANKS [RANKS]: ranks over NCCL that meet through a file, where an earlier run was ended in the middle: its answer, as
# long as one of this world, lies there, with the questions and acknowledgements that fit it. Nothing stays there.
set -uo pipefail
program=$1 ranks=${2:-2}
command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1 || { echo 'skipped: there is no GPU'; exit 77; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
own=0123456789abcdef number=7777777777777777 # rank 0's, and the others'
{
  printf '%s' "$own"
  for ((rank = 1; rank < ranks; ++rank)); do printf '%s' "$number"; done
  head -c 128 /dev/zero | tr '\0' x
} >"$folder/id"
for ((rank = 1; rank < ranks; ++rank)); do printf '%s' "$number$own" >"$folder/id.$rank"; done
ZERO_NCCL_ID_FILE=$folder/id bash "$here/several_ranks.sh" "$ranks" "$program" id-file || exit
[ -z "$(ls -A "$folder")" ] || { echo "files stayed: $(ls -A "$folder")"; exit 1; }
