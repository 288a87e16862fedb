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
