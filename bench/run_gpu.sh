#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures on this machine's GPU: bash bench/run_gpu.sh [BIN]
# BIN is a folder of programs built elsewhere (build/cuda/bin); without it they are built here. Prints what docs/benchmarks/ keeps:
# date, hardware, versions, then each program's own report.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bin=${1-}
if [ -z "$bin" ]; then
  cmake --preset cuda -DCMAKE_CUDA_ARCHITECTURES=native
  cmake --build --preset cuda -j "$(nproc)"
  bin=build/cuda/bin
fi
date -u +%Y-%m-%d
nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader
"$bin/bench_cuda_kernels"
"$bin/bench_enqueue"
gpt=$([ -x "$bin/bench_gpt_step" ] && echo true || echo false) # needs cuDNN
if ! $gpt; then
  echo "no bench_gpt_step: the GPT was not built, for want of cuDNN, and was not measured"
elif python3 -c 'import torch' 2>/dev/null; then # beside PyTorch where there is one
  bash bench/peers/gpt_step.sh "$bin" 1.5b 8
  python3 bench/peers/gpt_losses.py "$bin/bench_gpt_losses"
  bash bench/peers/gpt_ranks.sh "$bin" 350m 4 4 3 1
else
  "$bin/bench_gpt_step" 1.5b 8 03
fi

# Two ranks that share the first GPU and talk over the loopback: their hosts' time, and what overlap hides where the network is slow.
two() { CUDA_VISIBLE_DEVICES=0 SECONDS_EACH=900 bash tests/cuda/several_ranks.sh 2 "$@"; }
two "$bin/bench_enqueue" 6 | grep -F '[0]' || echo "bench_enqueue of two ranks ended with $?"
if $gpt; then
  two "$bin/bench_gpt_overlap" 350m 4 0123 cheap 5 2 || echo "bench_gpt_overlap of two ranks ended with $?"
fi

# State below the GPU: steps, the largest model (LARGEST=device,shared,... trains it, HOST_GIB is written to before), the host's update beside PyTorch's.
if $gpt; then
  "$bin/bench_gpt_offload" 1.5b 8 || echo "bench_gpt_offload ended with $?"
  "$bin/bench_gpt_offload" 350m 8 nvme 3 1 "${TMPDIR:-/tmp}" || echo "bench_gpt_offload with files ended with $?"
  "$bin/bench_gpt_largest" "${LARGEST:-none}" 4096 32 "${TMPDIR:-/tmp}" "${HOST_GIB:-0}" || echo "bench_gpt_largest ended with $?"
fi
if [ ! -x "$bin/bench_update" ]; then
  echo "no bench_update: the host's update was not measured"
else
  "$bin/bench_update"
  status=0
  python3 bench/peers/host_adam.py "$bin/bench_update" || status=$? # skipped, with the reason, without PyTorch
  [ "$status" -eq 0 ] || echo "host_adam.py ended with $status"
fi

# Several GPUs come last: what stops there leaves the report of one whole.
gpus=$(nvidia-smi -L | wc -l)
torchrun=$(command -v torchrun || true) # starts a process a GPU; comes with PyTorch
if [ "$gpus" -gt 1 ]; then
  "$bin/bench_nccl_buffers"
  if [ -z "$torchrun" ]; then
    echo "no torchrun: nothing was measured with a process a GPU"
  else
    "$torchrun" --no_python --nproc_per_node "$gpus" "$bin/bench_enqueue"
    if $gpt; then
      "$torchrun" --no_python --nproc_per_node "$gpus" "$bin/bench_gpt_overlap" 1.5b 4 0123 cheap 8 3 | grep -E "stage|step"
      for stage in 2 3; do # what else runs beside what
        for way in checked unchecked copy-engines replay; do
          "$torchrun" --no_python --nproc_per_node "$gpus" "$bin/bench_gpt_step" 1.5b 4 "$stage" cheap 8 3 "$way" | grep stage
        done
      done
    fi
  fi
fi
