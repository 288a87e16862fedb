// SPDX-License-Identifier: Apache-2.0
// Stage 2 calls ncclReduceScatter and ncclAllGather and no other collective.
//
// symbols-required: U ncclReduceScatter$
// symbols-required: U ncclAllGather$
// symbols-forbidden: U nccl(AllReduce|Send|Recv|Broadcast|Bcast|Reduce|AlltoAll)$

#include <cuda/symbols/trainer.cuh>

template void zero_test::train<2, zero::Fp32>(zero::cuda::NcclCommunicator);
template void zero_test::train<2, zero::Bf16Mixed>(zero::cuda::NcclCommunicator);
