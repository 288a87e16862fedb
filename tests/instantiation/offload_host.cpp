// SPDX-License-Identifier: Apache-2.0
// State in host memory: nothing of files is compiled.
// symbols-required: zero::OffloadedState<
// symbols-required: zero::Tiers<
// symbols-forbidden: zero::StorageFile::
// symbols-forbidden: zero::ThreadTransfers::
// symbols-forbidden: zero::detail::BlockRing<
// symbols-forbidden: (pread|pwrite|fallocate)

#include <zero/zero.hpp>

#include <cases/given_gradients.hpp>

template class zero::Trainer<
    cases::GivenGradients, zero::SingleRank<zero::Host>, zero::AdamW,
    zero::Policies<zero::Sharded<3, zero::Offload<zero::OnHost, zero::OnHost>>, zero::Bf16Mixed>>;
