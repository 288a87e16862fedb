#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# sanitize.sh BIN: compute-sanitizer's four tools over the tests of single kernels, ours (those of collectives between threads
# among them) and the GPT's. Sizes above 2^31 are left out. AT_ONCE tools run at once (as many as there are GPUs), each on the next
# GPU; SECONDS_EACH limits each (400). Ends with 1 where one finds something.
set -uo pipefail
bin=$1
command -v compute-sanitizer >/dev/null || { echo 'skipped: compute-sanitizer is not found'; exit 77; }
gpus=$(nvidia-smi -L 2>/dev/null | grep -c GPU)
[ "$gpus" -gt 0 ] || { echo 'skipped: there is no GPU'; exit 77; }
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
tools=(memcheck racecheck initcheck synccheck)
one() {
  local tool=$1 code gpt2='*layers_test*'
  # A whole model runs cuBLASLt's and cuDNN's kernels too, which read what they pad: addresses alone are looked at there.
  [ "$tool" != memcheck ] || gpt2+=',*model_test*'
  {
    timeout "${SECONDS_EACH:-400}" compute-sanitizer --tool "$tool" --error-exitcode 9 "$bin/cuda_tests" \
      '-sf=*elementwise_test*,*squares_test*,*update_test*,*optimizers_test*,*shared_device_test*' '-tce=*2^31*,*stalls*' -m &&
      { [ ! -x "$bin/gpt2_cuda_tests" ] || timeout "${SECONDS_EACH:-400}" compute-sanitizer --tool "$tool" --error-exitcode 9 \
        "$bin/gpt2_cuda_tests" "-sf=$gpt2" -m; }
  } >"$logs/$tool" 2>&1
  code=$?
  grep -E '^=========|test cases:|assertions:' "$logs/$tool" | grep -v 'COMPUTE-SANITIZER' | tail -n "$([ $code = 0 ] && echo 8 || echo 60)" | sed "s/^/$tool: /"
  echo "$tool: exit $code, $SECONDS s"
  return "$code"
}
failed=0
pids=()
for i in "${!tools[@]}"; do
  CUDA_VISIBLE_DEVICES=$((i % gpus)) one "${tools[i]}" &
  pids+=($!)
  if [ "${#pids[@]}" -ge "${AT_ONCE:-$gpus}" ]; then
    for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
    pids=()
  fi
done
for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
exit "$failed"
