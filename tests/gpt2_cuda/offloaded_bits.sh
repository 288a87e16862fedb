#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gpt2 --device cuda with state below the GPU, on two ranks that share it: the parameters end with the bits of the run without,
# peaks are the plans, the device's falls with every kind of state that leaves it, and what is not compiled is refused.
# Usage: offloaded_bits.sh PROGRAM
set -uo pipefail
program=$1
command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1 || { echo 'skipped: there is no GPU'; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for i in $(seq 3000); do echo "line $((i % 17)) of a text that is easy to learn"; done >"$folder/text"

# train FLAG...: leaves the last line of its output in $line, and in $below_line the one on memory below the device
train() {
  "$program" --device cuda --ranks 2 --steps 12 --batch 4 --layers 2 --width 64 --heads 2 --context 64 \
    --text "$folder/text" --json "$@" >"$folder/output" 2>"$folder/error"
  line=$(tail -n 1 "$folder/output")
  below_line=$(grep -h '^below the device .* of them locked' "$folder/output" "$folder/error" | tr -d ,)
}
# value KEY: of $line
value() { sed -n "s/.*\"$1\":\"\{0,1\}\([0-9a-fx]*\).*/\1/p" <<<"$line"; }

below=0
# check NAME FILES FLAG...: the run with these flags against the one without; FILES says whether it has files
check() {
  local name=$1 files=$2
  shift 2
  train "$@" --nvme-path "$folder" --tile 3000
  echo "$name: $line"
  [ "$(value parameters_hash)" = "$hash" ] || { echo "$name ends with other bits than $hash"; cat "$folder/error"; exit 1; }
  [ "$(value planned_bytes)" = "$(value measured_bytes)" ] || { echo "$name: the peak on the device is not the plan"; exit 1; }
  [ "$(value host_bytes)" -gt 0 ] || { echo "$name has nothing in host memory"; exit 1; }
  [ "$files" = "$([ "$(value nvme_bytes)" -gt 0 ] && echo yes || echo no)" ] || { echo "$name: bytes in files"; exit 1; }
  # Host memory, what of it is locked, and files: each is its plan, and beside a GPU all host memory is locked.
  local peaks plans
  peaks=$(sed -n 's/^below the device \([0-9]*\) bytes.* memory \([0-9]*\) of them locked and \([0-9]*\) bytes.*/\1 \2 \3/p' <<<"$below_line")
  plans=$(sed -n 's/.*; planned \([0-9]*\) \([0-9]*\) and \([0-9]*\)$/\1 \2 \3/p' <<<"$below_line")
  [ -n "$peaks" ] && [ "$peaks" = "$plans" ] || { echo "$name: '$below_line' is not as planned"; exit 1; }
  [ "$(cut -d ' ' -f 1 <<<"$peaks")" = "$(cut -d ' ' -f 2 <<<"$peaks")" ] || { echo "$name: not all is locked"; exit 1; }
  below=$(value measured_bytes)
}

for stage in 1 2 3; do
  train --stage "$stage"
  echo "stage $stage: $line"
  hash=$(value parameters_hash)
  whole=$(value measured_bytes)
  [ -n "$hash" ] || { echo "stage $stage printed no hash"; cat "$folder/error"; exit 1; }
  check "stage $stage, optimizer nvme" yes --stage "$stage" --offload-optimizer nvme
  check "stage $stage, optimizer host" no --stage "$stage" --offload-optimizer host
  [ "$below" -lt "$whole" ] || { echo "stage $stage: the device's peak does not fall, $whole to $below"; exit 1; }
done
optimizer=$below
check "stage 3, parameters nvme" yes --stage 3 --offload-parameters nvme
check "stage 3, parameters host" no --stage 3 --offload-parameters host
check "stage 3, nvme and host" yes --stage 3 --offload-optimizer nvme --offload-parameters host
check "stage 3, host and nvme" yes --stage 3 --offload-optimizer host --offload-parameters nvme
check "stage 3, both nvme" yes --stage 3 --offload-optimizer nvme --offload-parameters nvme
check "stage 3, both host" no --stage 3 --offload-optimizer host --offload-parameters host
[ "$below" -lt "$optimizer" ] || { echo "the device's peak does not fall with parameters, $optimizer to $below"; exit 1; }
[ -z "$(find "$folder" -name 'zero_*')" ] || { echo "files stayed in $folder"; exit 1; }

train --stage 3 --offload-optimizer host --precision fp32
grep -q 'for --precision bf16 alone' "$folder/error" || { echo 'fp32 below a GPU is not refused'; cat "$folder/error"; exit 1; }
