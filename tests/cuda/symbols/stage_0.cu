// SPDX-License-Identifier: Apache-2.0
// Stage 0 calls ncclAllReduce and no other collective.
//
// symbols-required: U ncclAllReduce$
// symbols-forbidden: U nccl(ReduceScatter|AllGather|Send|Recv|Broadcast|Bcast|Reduce|AlltoAll)$

#include <cuda/symbols/trainer.cuh>

template void zero_test::train<0, zero::Fp32>(zero::cuda::NcclCommunicator);
template void zero_test::train<0, zero::Bf16Mixed>(zero::cuda::NcclCommunicator);
