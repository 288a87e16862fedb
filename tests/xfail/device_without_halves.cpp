// SPDX-License-Identifier: Apache-2.0
// expected-error: zero: the communicator's device lacks initialise for the halves of a float; see
// expected-error: zero/core/halves.hpp

#include <archetypes/trainer.hpp>

using Device = archetype::DeviceFor<zero::Bf16Split>;

namespace archetype {
template <class P>
void update(::Device::Stream&, zero::Update<Optimizer, zero::bf16, P, ::Device>);
template <class P>
void update(::Device::Stream&, zero::Update<Optimizer, float, P, ::Device>);
#ifdef ZERO_XFAIL_PASS
template <class T>
requires OneOf<T, zero::UpperHalf, zero::LowerHalf>
void initialise(::Device::Stream&, zero::View<T, ::Device>, zero::Initial const&, std::uint64_t,
                zero::Index, zero::Index);
#endif
}  // namespace archetype

using Trainer = archetype::Deduced<archetype::Model, archetype::Complete<zero::Bf16Split>,
                                   archetype::Optimizer, zero::Sharded<2>, zero::Bf16Split>;
