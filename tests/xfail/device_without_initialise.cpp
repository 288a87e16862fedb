// SPDX-License-Identifier: Apache-2.0
// expected-error: zero: the communicator's device lacks initialise(stream, View<T> to, Initial,
// expected-error: seed, tensor, first)

#include <archetypes/trainer.hpp>

using Device = archetype::Device<float, float>;

#ifndef ZERO_XFAIL_PASS
namespace archetype {
void initialise(::Device::Stream&, zero::View<float, ::Device>, zero::Initial const&, std::uint64_t,
                zero::Index, zero::Index) = delete;
}  // namespace archetype
#endif

using Trainer = archetype::Deduced<archetype::Model, archetype::Complete<zero::Fp32>,
                                   archetype::Optimizer, zero::Sharded<2>>;
