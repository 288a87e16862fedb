// SPDX-License-Identifier: Apache-2.0
#pragma once
// The gradients of a sharded model: what a step leaves to this rank, and what brings it there.

#include <zero/step/reduce.hpp>

namespace zero {

/// The reduced gradients this rank keeps: in the gradient type with one micro-batch a step, else in
/// float sums.
/// @tparam X a Context
template <class X>
class Gradients {
 public:
  using Context = X;                      ///< what it is made from
  using D = typename X::Device;           ///< of this rank
  using Gradient = typename X::Gradient;  ///< type of a lease's elements

  /// Allocates. @throws OutOfMemory
  explicit Gradients(X& context)
      : context_(context),
        kept_(context.device(), context.plan.gradients),
        accumulators_(context.device(), context.plan.accumulators),
        reduce_(context, kept_, accumulators_) {}
  /// Waits for the work on it.
  ~Gradients() { context_.settle(); }
  Gradients(Gradients const&) = delete;
  Gradients& operator=(Gradients const&) = delete;

  X& context() const { return context_; }   ///< what it was made from
  Index number() const { return number_; }  ///< Context::new_number()
  Reduce<X>& reduce() { return reduce_; }   ///< the phase

  /// Calls f(View<T>) with the sums of elements [begin, begin + count) of a unit's trainable part,
  /// claimed on the compute stream; T is float or Gradient. The range lies in what this rank keeps:
  /// its owned elements.
  template <class F>
  void with_sums(int u, Index begin, Index count, F f) {
    Index const shift = context_.shares.owned_in_gradients(u, context_.rank()) -
                        context_.shares.owned_begin(u, context_.rank());
    if (context_.shares.accumulates()) {
      auto claim = accumulators_[u].template on<float>(context_.compute);
      f(View<float const, D>(claim.view(begin + shift, count)));
    } else {
      auto claim = kept_[u].template on<Gradient>(context_.compute);
      f(View<Gradient const, D>(claim.view(begin + shift, count)));
    }
  }

 private:
  X& context_;
  Index const number_ = context_.new_number();
  SlotArray<D> kept_;
  SlotArray<D> accumulators_;
  Reduce<X> reduce_;
};

template <class X>
Gradients(X&) -> Gradients<X>;  ///< of a context

}  // namespace zero
