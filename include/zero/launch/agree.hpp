// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ranks that decide together: whether all have another batch, whether any was told to stop, how
// many steps everyone can make. A rank that leaves its loop alone leaves the others waiting in the
// next collective.

#include <zero/comm/communicator.hpp>
#include <zero/core/dtype.hpp>

#include <concepts>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

namespace zero {

namespace detail {

/// The element type in which a communicator can bring every rank's numbers to every rank: void
/// where it can none.
template <class C>
using AgreementElement = std::conditional_t<
    CanAllGather<C, double>, double,
    std::conditional_t<
        CanAllGather<C, float> || CanAllReduce<C, float>, float,
        std::conditional_t<
            CanAllReduce<C, double>, double,
            std::conditional_t<CanAllGather<C, bf16> || CanAllReduce<C, bf16>, bf16, void>>>>;

}  // namespace detail

/// Makes decisions over the ranks of a communicator, on channel 3, which no step uses. Every rank
/// makes its own and asks it the same questions in the same order.
///
///     zero::Agreement agreement{communicator};
///     while (agreement.all(batches.has_next())) trainer.step(batches.next());
///
/// Communication: a question moves 8 elements a rank by the first of these that the communicator
/// has: all_gather of double or float, all_reduce of float or double, either of bf16. Waits.
/// @tparam C the communicator
template <Communicator C>
class Agreement {
  using D = typename C::Device;
  using T = detail::AgreementElement<C>;
  static_assert(!std::is_void_v<T>,
                "Agreement: the communicator needs all_gather or all_reduce of double, float or "
                "bf16");

 public:
  /// Allocates 8 elements a rank on the device.
  explicit Agreement(C const& communicator)
      : communicator_(communicator.channel(3)),
        stream_(communicator_.device().stream()),
        bytes_(width * communicator_.size() * Index{sizeof(T)}),
        buffer_(communicator_.device().allocate(bytes_, "agreement")),
        slot_(buffer_.address(), bytes_, communicator_.device().event()),
        host_(at(width * communicator_.size()), T(0.0f)) {}
  Agreement(Agreement const&) = delete;
  Agreement& operator=(Agreement const&) = delete;

  /// Whether every rank says yes.
  /// @throws CommunicationError when a rank does not come
  bool all(bool yes) { return least(yes ? 1 : 0) == 1; }
  /// Whether a rank says yes.
  /// @throws CommunicationError when a rank does not come
  bool any(bool yes) { return least(yes ? 0 : 1) == 0; }
  /// The least of the ranks' counts, such as the batches each has.
  /// @param count not negative
  /// @throws InvalidArgument for a negative count; CommunicationError when a rank does not come
  Index least(Index count) {
    if (count < 0) {
      throw InvalidArgument("agreement: a count is not negative, unlike " + std::to_string(count));
    }
    ++questions_;
    if (communicator_.size() == 1) return count;
    exchange(count);
    Index smallest = count;
    for (Index r = 0; r < communicator_.size(); ++r) {
      std::uint64_t value = 0;
      for (Index i = 0; i < width; ++i) {
        auto const byte = static_cast<std::uint64_t>(static_cast<float>(host_[at(r * width + i)]));
        value |= byte << (8 * i);
      }
      smallest = std::min(smallest, static_cast<Index>(value));
    }
    return smallest;
  }

 private:
  static constexpr Index width = 8;  // a byte an element, which every type holds exactly

  /// Every rank's count, in rank order, as bytes in host_.
  void exchange(Index count) {
    Index const rank = communicator_.rank();
    Index const all = width * communicator_.size();
    for (T& element : host_) element = T(0.0f);
    for (Index i = 0; i < width; ++i) {
      auto const byte = (static_cast<std::uint64_t>(count) >> (8 * i)) & 0xff;
      host_[at(rank * width + i)] = T(static_cast<float>(byte));
    }
    auto claim = slot_.template on<T>(stream_);
    copy_in(stream_, claim.view(0, all), host_.data());
    Where const where{"agree", "agreement", questions_};
    if constexpr (CanAllGather<C, T>) {
      communicator_.all_gather(claim.source(rank * width, width), claim.target(0, all), where);
    } else {
      communicator_.all_reduce(claim.target(0, all), where);
    }
    copy_out(stream_, host_.data(), View<T const, D>(claim.view(0, all)));
    claim.end();
    stream_.synchronize();
  }

  C communicator_;
  typename D::Stream stream_;
  Index bytes_;
  typename D::Buffer buffer_;
  Slot<D> slot_;
  std::vector<T> host_;
  Index questions_ = 0;
};

/// Whether every rank says yes, asked once; every rank calls it. A loop keeps an Agreement, which
/// allocates once.
template <Communicator C>
bool agree(C const& communicator, bool yes) {
  return Agreement<C>(communicator).all(yes);
}

}  // namespace zero
