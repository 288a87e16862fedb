// SPDX-License-Identifier: Apache-2.0
// expected-error: Agreement: the communicator needs all_gather or all_reduce of double, float or
// expected-error: bf16

#include <zero/launch/agree.hpp>

#include <archetypes/communicator.hpp>

using Device = archetype::Device<float, float>;
#ifdef ZERO_XFAIL_PASS
using Ranks = archetype::Communicator<Device, archetype::AllGathers<Device, float>>;
#else
using Ranks = archetype::Communicator<Device>;
#endif

template class zero::Agreement<Ranks>;
