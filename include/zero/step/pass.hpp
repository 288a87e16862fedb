// SPDX-License-Identifier: Apache-2.0
#pragma once
// One micro-batch as the model sees it. The model's visits are matched to the schedule; whatever it
// leaves out is performed empty, so that this rank issues the collectives that the others issue.

#include <zero/step/lease.hpp>
#include <zero/step/optimizer_state.hpp>

#include <cstddef>
#include <string>

namespace zero {

/// A pass over one micro-batch: made, handed to the model, ended. Not movable; leases end first.
/// - A model whose visits are a subsequence of the schedule leaves visits out: those are performed
///   empty, that is, gathers are made and zero gradients reduced. A forward visit never leaves out
///   a backward one.
/// - A visit that is not in the rest of the schedule is extra: gathered on demand; its gradients,
///   if the unit was reduced, are reduced and added again. All ranks must make it alike, else every
///   rank throws: within the timeout where a collective is missing, else at the step's decision, or
///   at the next exchange where the optimizer is replicated.
/// @tparam X a Context
/// @tparam Trains whether there is a backward
template <class X, bool Trains>
class Pass {
 public:
  static constexpr bool trains = Trains;    ///< a backward follows
  using Context = X;                        ///< what it is made from
  using Device = typename X::Device;        ///< of this rank
  using Parameter = typename X::Parameter;  ///< of a lease's elements
  using Gradient = typename X::Gradient;    ///< of a lease's elements

  /// A forward-only pass.
  explicit Pass(Parameters<X>& parameters) requires(!Trains)
      : Pass(parameters, nullptr, MicroBatch{}) {}
  /// A training pass; the first micro-batch begins a step.
  /// @throws InvalidArgument when the micro-batch is not one of 1 to Options::accumulation, or not
  ///   the next one of its step; Error, for either kind, while another pass of the context is open
  Pass(Parameters<X>& parameters, Gradients<X>& gradients, MicroBatch micro = {}) requires(Trains)
      : Pass(parameters, &gradients.reduce(), micro) {}
  /// A training pass that was not ended leaves its step undecidable.
  ~Pass() { close(); }
  Pass(Pass const&) = delete;
  Pass& operator=(Pass const&) = delete;

  /// The unit's full parameters, for its forward computation, until the lease ends.
  /// @throws what a lease's end could not; InvalidArgument for a unit that does not exist
  [[nodiscard]] ParameterLease<Pass> forward(int unit) {
    int const visit = advance(unit, Phase::forward);
    return {*this, unit, visit, {"forward", context_.layout[unit].name}};
  }

  /// The unit's full parameters and the place of its gradients.
  /// @throws as forward
  [[nodiscard]] BackwardLease<Pass> backward(int unit, Fill fill = Fill::add) requires(Trains) {
    int const visit = advance(unit, Phase::backward);
    return {ParameterLease<Pass>(*this, unit, visit),
            GradientLease<Pass>(*this, unit, visit, fill == Fill::overwrite)};
  }

  /// The same for a model whose gradients lie in buffers of its own, which are brought into the
  /// unit's place, and cast, when the gradient lease ends; the first visit's replace what is there.
  /// @param own one View a tensor of the unit, of any scalar type, empty where the
  ///   tensor is frozen; range and buffers live until the lease ends
  /// @throws InvalidArgument naming the tensor, when a view has another size
  /// @param unit of the model
  template <OwnGradients<Device> Own>
  [[nodiscard]] BackwardLease<Pass> backward(int unit, Own const& own) requires(Trains) {
    int const visit = advance(unit, Phase::backward);
    return {ParameterLease<Pass>(*this, unit, visit), GradientLease<Pass>(*this, unit, visit, own)};
  }

  /// A forward-only pass has none; says so where it is called.
  template <class... A>
  auto backward(A const&...) requires(!Trains) {
    static_assert(Trains && sizeof...(A) == 0,
                  "Pass: a forward-only pass has no backward; put the model's backward under `if "
                  "constexpr (Pass::trains)`");
  }

  /// One element of device memory: the model adds its loss to it on stream().
  View<double, Device> loss() const { return loss_.view(0, 1); }
  /// One element of device memory, which multiplies the gradient of the loss.
  View<float const, Device> loss_scale() const {
    View<Decision, Device> const decision = decision_.view(0, 1);
    std::byte* const scale =
        reinterpret_cast<std::byte*>(decision.address()) + offsetof(Decision, loss_scale);
    return {reinterpret_cast<float const*>(scale), 1};
  }
  /// The stream on which the model enqueues its work.
  typename Device::Stream& stream() { return context_.compute; }
  X& context() const { return context_; }  ///< what it was made from

  /// Ends the pass: performs the visits that are left, empty.
  /// @throws Error when a lease is still open; what a lease's end could not throw
  void end() {
    rethrow();
    if (leases_ > 0)
      throw Error("pass: " + std::to_string(leases_) + " leases are still open at its end");
    skip_to(visits_);
    if constexpr (Trains) {
      reduce_->flush(visits_);
      if (context_.loss_scale.given()) {
        mark_not_finite(context_.compute, View<double const, Device>(loss_.view(0, 1)),
                        loss_.view(1, 1));
      }
    }
    loss_.end();
    decision_.end();
    rethrow();
    if (close() && Trains) ++context_.passes_ended;
  }

  /// For leases.
  Gather<X>& gather() { return gather_; }
  Reduce<X>& reduce() requires(Trains) { return *reduce_; }  ///< the phase
  void lease_begins() { ++leases_; }                         ///< told by a lease
  void lease_ends() noexcept { --leases_; }                  ///< told by a lease
  /// Told by a lease: the model adds nothing more in this visit.
  /// @param finish what the lease has left to do on its slot
  /// @param u, visit of the lease
  template <class Finish>
  void gradients_end(int u, int visit, Finish finish) noexcept {
    try {
      if (!failed_) finish();
      reduce_->close(u, visit);
      if (!failed_ && !error_) reduce_->flush(cursor_ - 1);
    } catch (...) {
      if (!error_) error_ = std::current_exception();
    }
  }
  /// An exception unwinds through the model: no collective is issued any more.
  void fail() noexcept { failed_ = true; }

 private:
  Pass(Parameters<X>& parameters, Reduce<X>* reduce, MicroBatch micro)
      : context_(parameters.context()), gather_(parameters.gather()), reduce_(reduce) {
    Timeline const& timeline = context_.timeline;
    if (micro.count < 1 || micro.count > context_.options.accumulation || micro.number < 0 ||
        micro.number >= micro.count) {
      throw InvalidArgument("pass: micro-batch " + std::to_string(micro.number) + " of " +
                            std::to_string(micro.count) + "; the context was made for 1 to " +
                            std::to_string(context_.options.accumulation));
    }
    if (context_.in_pass) throw Error("pass: another pass of this context is still open");
    if (Trains && micro.number > 0 &&
        (micro.number != context_.passes_ended || micro.count != context_.passes)) {
      throw InvalidArgument("pass: micro-batch " + std::to_string(micro.number) + " of " +
                            std::to_string(micro.count) + "; of this step " +
                            std::to_string(context_.passes_ended) + " of " +
                            std::to_string(context_.passes) + " passes have ended");
    }
    visits_ = Trains ? timeline.visits() : timeline.forward_visits();
    if (Trains && micro.number == 0) {
      ++context_.step;
      context_.passes = micro.count;
      context_.passes_ended = 0;
    }
    context_.micro_batches = Trains ? micro.count : 0;
    gather_.begin(visits_);
    if constexpr (Trains) reduce_->begin(micro.number == 0, micro.number + 1 == micro.count);
    loss_ = context_.loss().template on<double>(context_.compute);
    if (micro.number == 0) fill_zero(context_.compute, loss_.view(0, 1));
    // Not with an evaluation's: it may come between the micro-batches of a step.
    if (Trains && micro.number == 0) fill_zero(context_.compute, loss_.view(1, 1));
    decision_ = context_.decision().template on<Decision>(context_.compute);
    if (Trains && micro.number == 0)
      context_.tiers.begin(context_.compute, decision_.view(), micro.count);
    context_.in_pass = true;
  }

  /// @return whether it was open
  bool close() noexcept {
    if (std::exchange(closed_, true)) return false;
    context_.in_pass = false;
    return true;
  }

  void rethrow() {
    if (error_) std::rethrow_exception(error_);
    if (failed_)
      throw Error("pass: a lease ended while an exception unwound; the pass cannot go on");
  }

  /// The visit of the schedule that this is, or -1.
  int advance(int unit, Phase phase) {
    rethrow();
    if (unit < 0 || unit >= context_.layout.size()) {
      throw InvalidArgument("pass: unit " + std::to_string(unit) + "; the model has units 0 to " +
                            std::to_string(context_.layout.size() - 1));
    }
    Schedule const& schedule = context_.timeline.schedule();
    for (int i = cursor_; i < visits_; ++i) {
      Visit const& v = schedule[at(i)];
      if (v.unit == unit && v.phase == phase) {
        skip_to(i);
        cursor_ = i + 1;
        opens(i);
        return i;
      }
      if (phase == Phase::forward && v.phase == Phase::backward) break;
    }
    context_.extra_visit(phase, unit);
    return -1;
  }

  void opens(int visit) {
    gather_.ahead(visit);
    if constexpr (Trains) reduce_->flush(visit);
  }

  void skip_to(int visit) {
    for (; cursor_ < visit; ++cursor_) {
      ++context_.deviations.skipped_visits;
      opens(cursor_);
      if constexpr (Trains) {
        Visit const& v = context_.timeline.schedule()[at(cursor_)];
        if (v.phase == Phase::backward) reduce_->skip(v.unit, cursor_);
        reduce_->flush(cursor_);
      }
    }
  }

  X& context_;
  Gather<X>& gather_;
  Reduce<X>* reduce_;
  Claim<double, Device> loss_;
  Claim<Decision, Device> decision_;
  int cursor_ = 0;
  int visits_ = 0;
  int leases_ = 0;
  bool closed_ = false;
  bool failed_ = false;
  std::exception_ptr error_;
};

template <class X>
Pass(Parameters<X>&) -> Pass<X, false>;  ///< forward only
template <class X>
Pass(Parameters<X>&, Gradients<X>&) -> Pass<X, true>;  ///< trains
template <class X>
Pass(Parameters<X>&, Gradients<X>&, MicroBatch) -> Pass<X, true>;  ///< trains

}  // namespace zero
