// SPDX-License-Identifier: Apache-2.0
#pragma once
// A communicator that writes down what goes through it: how the wire volume of a step is measured
// and proved.

#include <zero/comm/communicator.hpp>
#include <zero/core/collective_log.hpp>

#include <utility>

namespace zero {

/// Decorates a communicator; has exactly the collectives of the communicator it wraps.
template <Communicator C>
class Recording {
 public:
  using Device = typename C::Device;  ///< of the communicator it wraps

  /// @param inner does what is asked
  /// @param log outlives every copy
  Recording(C inner, CollectiveLog& log) : inner_(std::move(inner)), log_(&log) {}

  int rank() const { return inner_.rank(); }          ///< of the communicator it wraps
  int size() const { return inner_.size(); }          ///< of the communicator it wraps
  Device& device() const { return inner_.device(); }  ///< of the communicator it wraps
  Recording channel(int i) const { return {inner_.channel(i), *log_}; }  ///< writes to the same log
  /// As the communicator it wraps.
  void abort(std::string_view text) const noexcept { inner_.abort(text); }

  bool gathers_own_memory() const { return inner_.gathers_own_memory(); }  ///< as that one
  /// As the communicator it wraps.
  auto gathered_memory(Index bytes, std::string_view kind) requires BringsGatheredMemory<C> {
    return inner_.gathered_memory(bytes, kind);
  }
  /// Enters slice x (size - 1) elements, then does what the communicator it wraps does.
  template <class T>
  requires CanAllGather<C, T>
  void all_gather(Ordered<T const, Device> slice, Ordered<T, Device> full, Where where) {
    log_->write(Collective::all_gather, where, slice.view().size() * (size() - 1), sizeof(T));
    inner_.all_gather(slice, full, where);
  }
  /// Enters slice x (size - 1) elements, then does what the communicator it wraps does.
  template <class T>
  requires CanReduceScatter<C, T>
  void reduce_scatter(Ordered<T const, Device> full, Ordered<T, Device> slice, Where where) {
    log_->write(Collective::reduce_scatter, where, slice.view().size() * (size() - 1), sizeof(T));
    inner_.reduce_scatter(full, slice, where);
  }
  /// Enters 2 x full / size x (size - 1) elements, then does what the communicator it wraps does.
  template <class T>
  requires CanAllReduce<C, T>
  void all_reduce(Ordered<T, Device> full, Where where) {
    log_->write(Collective::all_reduce, where, 2 * (full.view().size() / size()) * (size() - 1),
                sizeof(T));
    inner_.all_reduce(full, where);
  }
  /// Collectives up to group_end() are one group of the log, and of what can group.
  void group_start() {
    log_->group_start();
    if constexpr (CanGroup<C>) inner_.group_start();
  }
  /// Ends what the matching group_start() began.
  void group_end() {
    log_->group_end();
    if constexpr (CanGroup<C>) inner_.group_end();
  }

 private:
  C inner_;
  CollectiveLog* log_;
};

}  // namespace zero
