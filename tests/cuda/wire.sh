#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# wire.sh PROGRAM [STAGES]: gpt2 by four processes over NCCL's sockets on the loopback, whose counter of sent bytes must grow by what the
# library says it sends, within 3 % (headers of IP and TCP, acknowledgements). Each stage runs 20 and 40 steps, which validate
# equally often, so that what is beside the steps falls out. The counter has what TCP sends again, too, and what others send: of up to
# three such runs the least counts.
set -uo pipefail
program=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1 || { echo 'skipped: there is no GPU'; exit 77; }
counter=/sys/class/net/lo/statistics/tx_bytes
[ -r "$counter" ] || { echo "skipped: $counter cannot be read"; exit 77; }
text=$(mktemp)
trap 'rm -f "$text"' EXIT
for i in $(seq 3000); do echo "line $((i % 17)) of a text that is easy to learn"; done >"$text"
export NCCL_ALGO=Ring NCCL_PROTO=Simple
ranks=4
failed=0
for stage in ${2:-0 1 2 3}; do
  sent=()
  good=1
  for try in 1 2 3; do
    for steps in 20 40; do
      before=$(cat "$counter")
      output=$(bash "$here/several_ranks.sh" $ranks "$program" --device cuda --stage "$stage" --steps "$steps" --batch 1 --layers 2 \
        --width 256 --heads 4 --context 32 --text "$text" --json 2>&1) || { echo "stage $stage: $output" | tail -n 20; exit 1; }
      now=$(($(cat "$counter") - before))
      [ "${sent[steps]:-$now}" -lt "$now" ] || sent[steps]=$now
    done
    elements=$(sed -n 's/.*"wire_elements_per_step":\([0-9]*\).*/\1/p' <<<"$output" | head -n 1)
    expected=$((elements * 2 * ranks)) # bf16
    found=$(((sent[40] - sent[20]) / 20))
    awk "BEGIN { r = $found / $expected; printf \"stage $stage, try $try: %d bytes a step of all ranks, expected %d, ratio %.4f\n\", $found, $expected, r
                 exit !(r > 0.97 && r < 1.03) }" && good=0 && break
  done
  [ $good = 0 ] || failed=1
done
exit "$failed"
