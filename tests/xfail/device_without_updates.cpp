// SPDX-License-Identifier: Apache-2.0
// expected-error: zero: the communicator's device lacks start_record, mark_not_finite, decide or
// expected-error: update for this optimizer, or measure_norms for its trust ratios; see
// expected-error: zero/optim/optimizer.hpp

#include <archetypes/trainer.hpp>

// Looks like an optimizer, but the device's update is for one that is found beside it.
namespace archetype {
struct Foreign : Optimizer {};
template <class P, class G, class T>
#ifdef ZERO_XFAIL_PASS
void update(typename Device<P, G>::Stream&, zero::Update<Foreign, T, P, Device<P, G>>);
#else
void update(typename Device<P, G>::Stream&, zero::Update<Foreign, T, P, Device<P, G>>) = delete;
#endif
}  // namespace archetype

using Ranks = archetype::Complete<zero::Fp32>;

using Trainer = archetype::Deduced<archetype::Model, Ranks, archetype::Foreign, zero::Sharded<2>>;
