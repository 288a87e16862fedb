// SPDX-License-Identifier: Apache-2.0
// expected-error: zero: the communicator's device lacks flatten(stream, View<Gradient> to,
// expected-error: OwnBuffers<T const> from, adds); see zero/device/flatten.hpp

#include <archetypes/trainer.hpp>

#include <span>

using Device = archetype::Device<float, float>;

#ifdef ZERO_XFAIL_PASS
namespace archetype {
void flatten(::Device::Stream&, zero::View<float, ::Device>,
             zero::OwnBuffers<float const, ::Device>, bool);
}  // namespace archetype
#endif

// A model whose gradients lie in buffers of its own.
template <class Pass>
void backward(Pass& pass, std::span<zero::View<float, Device> const> own) {
  pass.backward(0, own);
}

using Context = archetype::ContextOf<archetype::Complete<zero::Fp32>, zero::Sharded<2>, zero::Fp32>;
template void backward(zero::Pass<Context, true>&, std::span<zero::View<float, Device> const>);
