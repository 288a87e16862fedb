// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reads what one rank keeps into the full tensors of a Result. It goes to the slots themselves, and
// holds the trainer's own readers against what it saw.

#include <zero/report/slices.hpp>

#include <support/loops.hpp>
#include <support/result.hpp>

#include <algorithm>
#include <span>

namespace zero_test {

/// @tparam X a Context
template <class X>
class Observer {
 public:
  using D = typename X::Device;
  using Parameter = typename X::Parameter;
  using Gradient = typename X::Gradient;
  using Index = zero::Index;

  Observer(Parts<X> parts, RankNumbers& numbers) : parts_(parts), numbers_(numbers) {}

  /// This rank's slices of everything that is trained. `to` has room for all tensors.
  void snapshot(Snapshot& to) {
    for (int u = 0; u < layout().size(); ++u) {
      Index const n = layout().slice(u);
      Index const begin = layout().slice_begin(u, context().rank());
      if (n == 0) continue;
      Index const shift = begin - context().shares.owned_begin(u, context().rank());
      put<float>(u, true, begin, weights(u, shift, n), to.weights);
      for (Index k = 0; k < 2; ++k) {
        Index const first = k * context().shares.owned(u) + shift;
        put<float>(u, true, begin,
                   read_slot<float>(context(), parts_.state.state_slot(u), first, n),
                   to.moments[zero::at(k)]);
      }
      parts_.gradients.with_sums(u, begin, n, [&](auto sums) {
        using T = std::remove_const_t<typename decltype(sums)::Element>;
        std::vector<T> host(zero::at(n));
        copy_out(context().compute, host.data(), sums);
        context().compute.synchronize();
        put<T>(u, true, begin, host, to.gradients);
      });
    }
  }

  /// This rank's slices of frozen tensors.
  void frozen(Tensors& to) {
    for (int u = 0; u < layout().size(); ++u) {
      Index const n = layout().frozen_slice(u);
      Index const begin = layout().frozen_slice_begin(u, context().rank());
      if (n == 0) continue;
      Index const first = context().shares.sharded_parameters(u) ? 0 : begin;
      put<Parameter>(u, false, begin,
                     read_slot<Parameter>(context(), parts_.parameters.kept(u),
                                          context().shares.frozen_begin(u) + first, n),
                     to);
    }
  }

  /// Full tensors as this rank's leases show them.
  template <class Loop>
  void replicas(Loop& loop, Tensors& to) {
    std::vector<std::vector<Parameter>> host(to.size());
    loop.look([&](auto& pass) {
      for (int u = 0; u < layout().size(); ++u) {
        auto lease = pass.forward(u);
        for (std::size_t i = 0; i < layout()[u].tensors.size(); ++i) {
          auto const view = lease[static_cast<Index>(i)];
          auto& tensor = host[zero::at(layout()[u].tensors[i].number)];
          tensor.resize(zero::at(view.size()));
          copy_out(pass.stream(), tensor.data(), view);
        }
      }
    });
    context().compute.synchronize();
    for (std::size_t t = 0; t < host.size(); ++t) {
      for (Parameter x : host[t]) to[t].push_back(static_cast<float>(x));
    }
  }

  /// Whether the trainer's readers show what the slots hold.
  template <class Trainer>
  bool readers_agree(Trainer& trainer, Snapshot const& seen, Tensors const& seen_frozen) {
    bool agree = true;
    auto const compare = [&](Tensors const& with) {
      return [&agree, &with](zero::PlacedTensor const& t, Index first, auto values) {
        std::vector<float> const& tensor = with[zero::at(t.number)];
        for (std::size_t i = 0; i < values.size(); ++i) {
          float const value = static_cast<float>(values[i]);
          agree = agree && std::bit_cast<std::uint32_t>(value) ==
                               std::bit_cast<std::uint32_t>(tensor[zero::at(first) + i]);
        }
      };
    };
    zero::read_weights(trainer, compare(seen.weights));
    for (int k = 0; k < 2; ++k) zero::read_state(trainer, k, compare(seen.moments[zero::at(k)]));
    zero::read_frozen(trainer, compare(seen_frozen));
    return agree;
  }

 private:
  X& context() { return parts_.context; }
  zero::Layout const& layout() { return parts_.context.layout; }

  /// @param shift from the start of what is owned here
  std::vector<float> weights(int u, Index shift, Index n) {
    if constexpr (X::has_master) {
      return read_slot<float>(context(), parts_.state.master_slot(u), shift, n);
    } else {
      Index const first = context().shares.owned_in_parameters(u, context().rank()) + shift;
      return read_slot<float>(context(), parts_.parameters.kept(u), first, n);
    }
  }

  /// Puts a range of a unit's part where it belongs; the rest of it is padding.
  template <class T>
  void put(int u, bool trainable, Index begin, std::vector<T> const& values, Tensors& to) {
    Index covered = 0;
    auto const padding_until = [&](Index end) {
      for (; covered < end; ++covered) {
        numbers_.padding_is_zero =
            numbers_.padding_is_zero && static_cast<float>(values[zero::at(covered)]) == 0.0f;
      }
    };
    Index const n = static_cast<Index>(values.size());
    layout().pieces(u, trainable, begin, n, [&](zero::PlacedTensor const& t, zero::Piece const& p) {
      padding_until(p.begin);
      for (Index i = 0; i < p.elements; ++i) {
        to[zero::at(t.number)][zero::at(p.first + i)] =
            static_cast<float>(values[zero::at(p.begin + i)]);
      }
      covered = p.begin + p.elements;
    });
    padding_until(n);
  }

  Parts<X> parts_;
  RankNumbers& numbers_;
};

}  // namespace zero_test
