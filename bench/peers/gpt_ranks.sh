#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Several NCCL ranks of bench_gpt_step and of PyTorch, each stage beside its counterpart, in one go:
#   bash bench/peers/gpt_ranks.sh BIN [SIZE [BATCH [RANKS [STEPS [WARM_UPS]]]]]
# On one GPU each rank claims a host of its own and NCCL talks over the loopback, which stands for a cluster bound by its network.
# SHARED=0 leaves the ranks a GPU each and NCCL its links. On the wire: ours gradients and parameters in bf16; ddp and zero1
# gradients and parameters in float, fsdp2 and fsdp3 both in bf16.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bin=$1 size=${2:-350m} batch=${3:-4} ranks=${4:-4} steps=${5:-5} warm_ups=${6:-2}
start=("torchrun" --no_python --nproc_per_node "$ranks")
[ "${SHARED:-1}" = 0 ] || start=(bash "$here/../../tests/cuda/several_ranks.sh" "$ranks")
date -u +%Y-%m-%d
nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader
python3 -c 'import torch; print("PyTorch", torch.__version__, "NCCL", torch.cuda.nccl.version())'
peers=(ddp zero1 fsdp2 fsdp3)
for stage in 0 1 2 3; do
  "${start[@]}" "$bin/bench_gpt_step" "$size" "$batch" "$stage" cheap "$steps" "$warm_ups" 2>&1 | grep -E "stage|rror"
  mode=${peers[stage]}
  "${start[@]}" python3 "$here/torch_gpt.py" "$mode" "$size" "$batch" "$steps" "$warm_ups" 2>&1 | grep -E "PyTorch|Error" ||
    echo "PyTorch $mode printed nothing"
done
