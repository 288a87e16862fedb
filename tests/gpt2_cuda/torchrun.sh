#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gpt2 --device cuda as torchrun starts it, one process and two, on one GPU. torchrun's agent listens at MASTER_PORT itself, so NCCL
# has to take another port. Losses fall, rank 0 alone prints, and one process ends with the same bits at stages 0 and 3.
# Usage: torchrun.sh PROGRAM
set -uo pipefail
program=$1
command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1 || { echo 'skipped: there is no GPU'; exit 77; }
command -v torchrun >/dev/null || { echo 'skipped: there is no torchrun, which comes with PyTorch'; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for i in $(seq 3000); do echo "line $((i % 17)) of a text that is easy to learn"; done >"$folder/text"
CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-0}
export CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES%%,*} OMP_NUM_THREADS=1
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT

# What each process does: says whether somebody listens at MASTER_PORT, claims a host of its own where two share the GPU (as
# several_ranks.sh), and becomes the program.
process='
if [ "$RANK" = 0 ]; then
  if (exec 3<>"/dev/tcp/$MASTER_ADDR/$MASTER_PORT") 2>/dev/null; then state=held; else state=free; fi
  echo "MASTER_PORT is $state, at $MASTER_ADDR:$MASTER_PORT"
fi
[ "$WORLD_SIZE" = 1 ] || export NCCL_HOSTID=host$RANK NCCL_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1 NCCL_NVLS_ENABLE=0
exec "$@"'
held=no
# run NAME PROCESSES RENDEZVOUS FLAG...: leaves its hash in $hash; RENDEZVOUS are flags of torchrun's
run() {
  local name=$1 processes=$2 rendezvous=$3
  shift 3
  # shellcheck disable=SC2086
  timeout 120 torchrun $rendezvous --nproc_per_node "$processes" --no_python bash -c "$process" bash "$program" --device cuda \
    --steps 40 --batch 4 --layers 2 --width 64 --heads 2 --context 64 --text "$folder/text" --json "$@" \
    >"$folder/output" 2>"$folder/error" || { echo "$name ended with $?"; tail -n 20 "$folder/output"; head -n 30 "$folder/error"; exit 1; }
  local lines first last
  lines=$(grep '"parameters_hash"' "$folder/output")
  echo "$name: $(grep '^MASTER_PORT' "$folder/output"): $lines"
  [ "$(wc -l <<<"$lines")" -eq 1 ] && [ -n "$lines" ] || { echo "$name: not one line of JSON"; exit 1; }
  [ "$(sed -n 's/.*"world":\([0-9]*\).*/\1/p' <<<"$lines")" = "$processes" ] || { echo "$name: another world"; exit 1; }
  hash=$(sed -n 's/.*"parameters_hash":"\([0-9a-fx]*\)".*/\1/p' <<<"$lines")
  first=$(sed -n 's/.*"first_loss":\([0-9.e+-]*\).*/\1/p' <<<"$lines")
  last=$(sed -n 's/.*"last_loss":\([0-9.e+-]*\).*/\1/p' <<<"$lines")
  [ -n "$hash" ] || { echo "$name: no hash"; exit 1; }
  awk "BEGIN { exit !($last < $first / 2) }" || { echo "$name does not learn: $first to $last"; exit 1; }
  if [ "$processes" -gt 1 ] && grep -q '^MASTER_PORT is held' "$folder/output"; then held=yes; fi
}
alone=--standalone\ --local_addr\ 127.0.0.1
named="--master_addr 127.0.0.1 --master_port $((20000 + RANDOM % 20000))"
run "one process, stage 0" 1 "$alone" --ranks 1 --stage 0
zero=$hash
run "one process, stage 3" 1 "$alone" --ranks 1 --stage 3
[ "$hash" = "$zero" ] || { echo "one process ends with other bits at stage 3 than at stage 0"; exit 1; }
run "two processes, stage 3, an address of torchrun's choice" 2 "$alone" --stage 3
three=$hash
run "two processes, stage 3, a given address" 2 "$named" --stage 3
[ "$hash" = "$three" ] || { echo "two processes end with other bits at another address"; exit 1; }
run "two processes, stage 0" 2 "$alone" --stage 0
[ $held = yes ] || { echo "nobody held MASTER_PORT beside two processes: NCCL's other port was not tried"; exit 1; }
