#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench_gpt_step and PyTorch on the same GPU in one go: bash bench/peers/gpt_step.sh BIN [SIZE [BATCH [MODES]]]
# BIN is a folder with bench_gpt_step; MODES are those of torch_gpt.py.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bin=$1 size=${2:-1.5b} batch=${3:-8}
modes=${4:-ddp ddpc fsdp3 fsdp3c fsdp2c}
date -u +%Y-%m-%d
nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader
python3 -c 'import torch; print("PyTorch", torch.__version__, "cuDNN", torch.backends.cudnn.version())'
"$bin/bench_gpt_step" "$size" "$batch" 03
for mode in $modes; do
  torchrun --nproc_per_node 1 "$here/torch_gpt.py" "$mode" "$size" "$batch" 2>/dev/null ||
    echo "$size PyTorch $mode ended with $?"
done
