// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a pass hands to a model: a unit's parameters, or the place of its gradients, until the lease
// ends. A lease that ends gives its memory back; ending never throws, what fails is thrown by the
// next call on the pass.

#include <zero/step/gather.hpp>
#include <zero/step/reduce.hpp>

#include <concepts>
#include <exception>
#include <memory>
#include <ranges>
#include <string>

namespace zero {

/// The pass of a lease, not owned; empty once the lease has ended or moved away.
struct NotOwned {
  /// Waits for nothing: the address is another object's.
  void operator()(void const*) const noexcept {}
};
template <class Pass>
using LeasedFrom = std::unique_ptr<Pass, NotOwned>;  ///< null once moved from

/// A unit's full parameters. Movable; must end before its pass.
/// @tparam Pass the pass that made it
template <class Pass>
class ParameterLease {
 public:
  using X = typename Pass::Context;         ///< what it is made from
  using D = typename X::Device;             ///< of this rank
  using Parameter = typename X::Parameter;  ///< element type

  /// Opens visit `visit` of unit u, -1 outside the schedule; `pass` outlives it, and the range ends
  /// with it.
  ParameterLease(Pass& pass, int u, int visit, RangeOf<D> range = {})
      : pass_(&pass),
        unit_(u),
        visit_(visit),
        slot_(&pass.gather().open(visit, u)),
        claim_(slot_->template on<Parameter>(pass.stream())),
        unwinding_(std::uncaught_exceptions()),
        range_(std::move(range)) {
    pass.lease_begins();
  }
  ParameterLease(ParameterLease&&) noexcept = default;  ///< Takes over the visit.
  ParameterLease& operator=(ParameterLease&&) = delete;
  ~ParameterLease() {
    if (pass_ != nullptr && std::uncaught_exceptions() > unwinding_) pass_->fail();
    end();
  }

  /// Ends the lease: the memory may be given to another unit once the work enqueued so far is done.
  void end() noexcept {
    Pass* const pass = pass_.release();
    if (pass == nullptr) return;
    range_ = {};
    claim_.end();
    pass->gather().close(visit_, unit_, *slot_);
    pass->lease_ends();
  }

  /// Tensor i of the unit, row-major.
  View<Parameter const, D> operator[](Index i) const& {
    Layout const& layout = pass_->context().layout;
    return claim_.view(layout.offset(unit_, i), layout[unit_].tensors[at(i)].elements);
  }
  /// A view of a lease that ends at once is a view of memory given away.
  View<Parameter const, D> operator[](Index i) const&& = delete;
  /// The whole unit, padding included, laid out as Layout says.
  View<Parameter const, D> flat() const& {
    return claim_.view(0, pass_->context().layout.elements(unit_));
  }
  View<Parameter const, D> flat() const&& = delete;
  /// Casts the unit into buffers of the model's own on the pass's stream.
  /// @param own one view a tensor; an empty one is left out
  /// @throws InvalidArgument naming the tensor, when a view has another size
  template <class T>
  void copy_to(std::span<View<T, D> const> own) const {
    X& context = pass_->context();
    PlacedUnit const& unit = context.layout[unit_];
    context.pieces.clear();
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (own[i].size() == 0) continue;
      if (i >= unit.tensors.size() || own[i].size() != unit.tensors[i].elements) {
        throw InvalidArgument("copy_to of unit '" + unit.name + "': buffer " + std::to_string(i) +
                              " has " + std::to_string(own[i].size()) +
                              " elements, unlike the tensor of that number");
      }
      context.pieces.push_back(
          {own[i].address(), context.layout.offset(unit_, static_cast<Index>(i)), own[i].size()});
    }
    unflatten(pass_->stream(), OwnBuffers<T, D>{context.pieces}, flat());
  }

 private:
  LeasedFrom<Pass> pass_;
  int unit_;
  int visit_;
  Slot<D>* slot_;
  Claim<Parameter, D> claim_;
  int unwinding_;
  [[no_unique_address]] RangeOf<D> range_;
};

/// Views of a model's own buffers: a contiguous range of View<T, D>.
template <class R, class D>
concept OwnGradients = std::ranges::contiguous_range<R> && std::ranges::sized_range<R> &&
    requires(std::ranges::range_value_t<R> view) {
  requires Scalar<std::remove_const_t<typename decltype(view)::Element>>;
  requires std::same_as<decltype(view), View<typename decltype(view)::Element, D>>;
};

/// Where a unit's gradients are added. When the lease of the last backward visit ends they are
/// reduced. Movable.
/// @tparam Pass the pass that made it
template <class Pass>
class GradientLease {
 public:
  using X = typename Pass::Context;       ///< what it is made from
  using D = typename X::Device;           ///< of this rank
  using Gradient = typename X::Gradient;  ///< element type

  /// Opens visit `visit` of unit u, -1 outside the schedule; `pass` outlives it. With `overwrite`
  /// the model writes every element of the unit's trainable tensors where first() says so.
  GradientLease(Pass& pass, int u, int visit, bool overwrite)
      : pass_(&pass),
        unit_(u),
        visit_(visit),
        unwinding_(std::uncaught_exceptions()),
        range_("backward", pass.context().layout[u].name) {
    if (elements() > 0) {
      first_ = pass.reduce().first_visit(u);
      claim_ = pass.reduce().open(u, overwrite).template on<Gradient>(pass.stream());
    }
    pass.lease_begins();
  }
  /// @param own the buffers in which the model computes; see Pass::backward
  /// @param pass that makes it
  /// @param u the unit
  /// @param visit of the schedule, or -1
  template <OwnGradients<D> Own>
  GradientLease(Pass& pass, int u, int visit, Own const& own)
      : pass_(&pass),
        unit_(u),
        visit_(visit),
        unwinding_(std::uncaught_exceptions()),
        range_("backward", pass.context().layout[u].name) {
    using T = std::remove_const_t<typename std::ranges::range_value_t<Own>::Element>;
    static_assert(CanFlatten<D, T, Gradient>,
                  "zero: the communicator's device lacks flatten(stream, View<Gradient> to, "
                  "OwnBuffers<T const> from, adds); see zero/device/flatten.hpp");
    auto const& unit = pass.context().units[at(u)];
    if (std::ranges::size(own) != unit.tensors.size()) {
      throw InvalidArgument("backward of unit '" + unit.name +
                            "': " + std::to_string(std::ranges::size(own)) + " buffers; it has " +
                            std::to_string(unit.tensors.size()) + " tensors");
    }
    for (std::size_t i = 0; i < unit.tensors.size(); ++i) {
      Tensor const& tensor = unit.tensors[i];
      Index const expected = tensor.trainable ? tensor.elements() : 0;
      Index const found = std::ranges::data(own)[i].size();
      if (found == expected) continue;
      throw InvalidArgument("backward of tensor '" + tensor.name + "': a buffer of " +
                            std::to_string(found) + " elements; expected " +
                            std::to_string(expected));
    }
    own_ = std::ranges::data(own);
    flatten_ = &GradientLease::template flatten_own<std::ranges::range_value_t<Own>>;
    if (elements() > 0) {
      first_ = pass.reduce().first_visit(u);
      pass.reduce().hold(u);
    }
    pass.lease_begins();
  }
  GradientLease(GradientLease&&) noexcept = default;  ///< Takes over the visit.
  GradientLease& operator=(GradientLease&&) = delete;
  ~GradientLease() {
    if (pass_ != nullptr && std::uncaught_exceptions() > unwinding_) pass_->fail();
    end();
  }

  /// Ends the lease: this visit's gradients are complete once the work enqueued so far is done.
  void end() noexcept {
    bool const holds = pass_ != nullptr && elements() > 0;
    Pass* const pass = pass_.release();
    if (pass == nullptr) return;
    range_ = {};
    claim_.end();
    if (holds) {
      pass->gradients_end(unit_, visit_, [&] {
        if (flatten_ != nullptr) flatten_(*pass, unit_, own_);
      });
    }
    pass->lease_ends();
  }

  /// Gradient of tensor i of the unit, row-major; empty where the tensor is frozen, and where the
  /// model has buffers of its own.
  View<Gradient, D> operator[](Index i) const& {
    PlacedTensor const& t = pass_->context().layout[unit_].tensors[at(i)];
    return t.trainable && elements() > 0 && own_ == nullptr ? claim_.view(t.begin, t.elements)
                                                            : View<Gradient, D>();
  }
  View<Gradient, D> operator[](Index i) const&& = delete;
  /// The unit's trainable part, padding included; padding must stay 0.
  View<Gradient, D> flat() const& {
    return elements() > 0 && own_ == nullptr ? claim_.view(0, elements()) : View<Gradient, D>();
  }
  View<Gradient, D> flat() const&& = delete;
  /// The first visit in this micro-batch: a model that asked to overwrite assigns, else it adds.
  bool first() const { return first_; }

 private:
  Index elements() const { return pass_->context().layout[unit_].trainable; }

  /// Brings the model's buffers into the slot. @param own the first of the unit's views
  /// @param pass, u of the lease
  template <class OwnView>
  static void flatten_own(Pass& pass, int u, void const* own) {
    using T = std::remove_const_t<typename OwnView::Element>;
    X& context = pass.context();
    bool const first = pass.reduce().first_visit(u);
    [[maybe_unused]] typename X::Range const range("flatten", context.layout[u].name);
    context.pieces.clear();
    PlacedUnit const& unit = context.layout[u];
    for (std::size_t i = 0; i < unit.tensors.size(); ++i) {
      OwnView const& view = static_cast<OwnView const*>(own)[i];
      if (view.size() > 0)
        context.pieces.push_back({view.address(), unit.tensors[i].begin, view.size()});
    }
    auto claim = pass.reduce().slot(u, true).template on<Gradient>(pass.stream());
    flatten(pass.stream(), claim.view(0, unit.trainable), OwnBuffers<T const, D>{context.pieces},
            !first);
  }

  LeasedFrom<Pass> pass_;
  int unit_;
  int visit_;
  int unwinding_;
  bool first_ = true;
  void const* own_ = nullptr;  // the model's views
  void (*flatten_)(Pass&, int, void const*) = nullptr;
  Claim<Gradient, D> claim_;
  [[no_unique_address]] RangeOf<D> range_;
};

/// Both leases of a backward visit: auto [parameters, gradients] = pass.backward(unit). They may
/// end apart.
template <class Pass>
struct BackwardLease {
  ParameterLease<Pass> parameters;  ///< what the forward computed with
  GradientLease<Pass> gradients;    ///< what the model adds to
};

}  // namespace zero
