// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a stage demands of the communicator and its device, each as one sentence.

#include <zero/comm/communicator.hpp>
#include <zero/core/halves.hpp>
#include <zero/device/elementwise.hpp>
#include <zero/model/initial.hpp>
#include <zero/policy/policies.hpp>
#include <zero/tier/host_side.hpp>

namespace zero {

/// Instantiating it checks a communicator against a policy bundle.
template <Communicator C, class P>
struct Requirements {
  using S = typename P::Sharding;                      ///< who keeps what
  using Parameter = typename P::Precision::Parameter;  ///< on the wire
  using Gradient = typename P::Precision::Gradient;    ///< on the wire
  using D = typename C::Device;                        ///< that the ranks bring

  static_assert((S::optimizer_tier == Tier::device && S::parameter_tier == Tier::device) ||
                    RunsHostCode<HostSide<D>>,
                "zero: tiers other than OnDevice need a device whose streams run host code, "
                "stream.enqueue(f); see zero/tier/host_side.hpp");
  static_assert(P::Checking::checks || !std::same_as<Gradient, fp16>,
                "zero: UncheckedGradients cannot train in fp16, whose loss scale is moved by "
                "gradients that are not finite");
  static_assert(HasElementwise<D, Parameter, Gradient>,
                "zero: the communicator's device lacks element-wise work for this precision; see "
                "zero/device/elementwise.hpp");
  static_assert(CanInitialise<D, Parameter> && CanInitialise<D, float>,
                "zero: the communicator's device lacks initialise(stream, View<T> to, Initial, "
                "seed, tensor, first)");
  static_assert(std::same_as<typename P::State::Type, float> ||
                    HasElementwise<D, typename P::State::Type, Gradient>,
                "zero: the communicator's device lacks element-wise work for optimizer state of "
                "this type; see zero/device/elementwise.hpp");
  static_assert(!splits_master<typename P::Precision> ||
                    (CanInitialise<D, UpperHalf> && CanInitialise<D, LowerHalf>),
                "zero: the communicator's device lacks initialise for the halves of a float; see "
                "zero/core/halves.hpp");
  static_assert(S::shards_optimizer || CanAllReduce<C, Gradient>,
                "zero: ZeRO stage 0 needs communicator.all_reduce(Ordered<Gradient> full, Where)");
  static_assert(
      !S::shards_optimizer || CanReduceScatter<C, Gradient>,
      "zero: ZeRO stages 1-3 need communicator.reduce_scatter(Ordered<Gradient const> full, "
      "Ordered<Gradient> slice, Where)");
  static_assert(
      !S::shards_optimizer || CanAllGather<C, Parameter>,
      "zero: ZeRO stages 1-3 need communicator.all_gather(Ordered<Parameter const> slice, "
      "Ordered<Parameter> full, Where)");
  static_assert(!S::shards_optimizer || CanAllGather<C, double>,
                "zero: ZeRO stages 1-3 need communicator.all_gather(Ordered<double const> slice, "
                "Ordered<double> full, Where), for norm records");
};

}  // namespace zero
