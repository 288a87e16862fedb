// SPDX-License-Identifier: Apache-2.0
#pragma once
// Communicators made of exactly the operations that are named: none at all, those of one stage, all
// of them, or some that are there and must not be used. Nothing is defined; collectives are not
// templates, so what a stage sends is exact to the type.

#include <zero/comm/communicator.hpp>

#include <archetypes/device.hpp>

#include <string_view>

namespace archetype {

using zero::Ordered;
using zero::Where;

/// Operation: all_reduce of each of the types T.
template <class D, class... T>
struct AllReduces;
template <class D, class T>
struct AllReduces<D, T> {
  void all_reduce(Ordered<T, D> full, Where);
};
template <class D, class T, class U, class... V>
struct AllReduces<D, T, U, V...> : AllReduces<D, T>, AllReduces<D, U, V...> {
  using AllReduces<D, T>::all_reduce;
  using AllReduces<D, U, V...>::all_reduce;
};

/// Operation: reduce_scatter of each of the types T.
template <class D, class... T>
struct ReduceScatters;
template <class D, class T>
struct ReduceScatters<D, T> {
  void reduce_scatter(Ordered<T const, D> full, Ordered<T, D> slice, Where);
};
template <class D, class T, class U, class... V>
struct ReduceScatters<D, T, U, V...> : ReduceScatters<D, T>, ReduceScatters<D, U, V...> {
  using ReduceScatters<D, T>::reduce_scatter;
  using ReduceScatters<D, U, V...>::reduce_scatter;
};

/// Operation: all_gather of each of the types T.
template <class D, class... T>
struct AllGathers;
template <class D, class T>
struct AllGathers<D, T> {
  void all_gather(Ordered<T const, D> slice, Ordered<T, D> full, Where);
};
template <class D, class T, class U, class... V>
struct AllGathers<D, T, U, V...> : AllGathers<D, T>, AllGathers<D, U, V...> {
  using AllGathers<D, T>::all_gather;
  using AllGathers<D, U, V...>::all_gather;
};

/// Operation: several collectives launched together.
struct Groups {
  void group_start();
  void group_end();
};

/// Offered, and a compile error where it is used: the concept holds, the body must never be made.
template <class D>
struct PoisonedAllReduce {
  template <class T>
  void all_reduce(Ordered<T, D>, Where) {
    static_assert(sizeof(T) == 0, "archetype: all_reduce is used where it must not be");
  }
};
template <class D>
struct PoisonedReduceScatter {
  template <class T>
  void reduce_scatter(Ordered<T const, D>, Ordered<T, D>, Where) {
    static_assert(sizeof(T) == 0, "archetype: reduce_scatter is used where it must not be");
  }
};
template <class D>
struct PoisonedAllGather {
  template <class T>
  void all_gather(Ordered<T const, D>, Ordered<T, D>, Where) {
    static_assert(sizeof(T) == 0, "archetype: all_gather is used where it must not be");
  }
};

/// A rank in a world that can do the named operations and nothing else.
/// @tparam D its device
template <class D, class... Operations>
struct Communicator : Operations... {
  using Device = D;
  Communicator() = delete;
  Communicator(Communicator const&);
  Communicator& operator=(Communicator const&);
  int rank() const;
  int size() const;
  D& device() const;
  Communicator channel(int i) const;
  void abort(std::string_view text) const noexcept;
};

/// What the stages use, over the archetype device of a precision R.
template <class R>
using DeviceFor = Device<typename R::Parameter, typename R::Gradient>;

/// Exactly what stage 0 uses, and what it uses with the collectives of other stages poisoned.
template <class R, class D = DeviceFor<R>>
using ForReplicated = Communicator<D, AllReduces<D, typename R::Gradient>>;
template <class R, class D = DeviceFor<R>>
using ForReplicatedPoisoned = Communicator<D, AllReduces<D, typename R::Gradient>,
                                           PoisonedReduceScatter<D>, PoisonedAllGather<D>>;

/// Exactly what stages 1, 2 and 3 use, and the same with stage 0's collective poisoned.
template <class R, class D = DeviceFor<R>>
using ForSharded = Communicator<D, ReduceScatters<D, typename R::Gradient>,
                                AllGathers<D, typename R::Parameter, double>>;
template <class R, class D = DeviceFor<R>>
using ForShardedPoisoned =
    Communicator<D, ReduceScatters<D, typename R::Gradient>,
                 AllGathers<D, typename R::Parameter, double>, PoisonedAllReduce<D>>;

/// Everything, grouped as well.
template <class R, class D = DeviceFor<R>>
using Complete = Communicator<D, AllReduces<D, typename R::Gradient, double>,
                              ReduceScatters<D, typename R::Gradient, double>,
                              AllGathers<D, typename R::Parameter, double>, Groups>;

}  // namespace archetype
