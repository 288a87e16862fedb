// SPDX-License-Identifier: Apache-2.0
#pragma once
// Work that is enqueued in the same way in every step: recorded once, then enqueued as a whole.
// What changes from step to step lies in the device's memory, so that it need not be known here.

#include <zero/device/device.hpp>

#include <array>
#include <string>
#include <type_traits>
#include <utility>

namespace zero {

/// A device that records. D::Replay is default-constructible and movable; replay(stream, f)
/// enqueues on `stream` what f() enqueues there, with the same bits, and calls f only as long as it
/// has no record. f enqueues on that stream alone, waits for nothing on the host, allocates
/// nothing, and whatever it passes (addresses, sizes, values) is the same each time. Events that f
/// waits for are waited for, before all of it, each time; events that it records are recorded
/// behind all of it. All that f names outlives the last call with the record, not the record.
template <class D>
concept CanReplay = Device<D> && std::movable<typename D::Replay> &&
    std::default_initializable<typename D::Replay> &&
    requires(typename D::Replay& replay, typename D::Stream& stream, void (&f)()) {
  replay(stream, f);
};

namespace detail {

struct NoReplay {};
template <class D>
struct ReplayChoice {
  using Type = NoReplay;
};
template <CanReplay D>
struct ReplayChoice<D> {
  using Type = typename D::Replay;
};

}  // namespace detail

/// Looks whether a step may be replayed, where it is to be.
/// @tparam D the device
/// @param wanted Options::replay
/// @param below state lies below it
/// @param in_one all updates wait for the same event, the decision's
/// @throws InvalidArgument saying why not
template <Device D>
void require_replay(bool wanted, bool below, bool in_one) {
  if (!wanted) return;
  auto const refuse = [](char const* why) {
    throw InvalidArgument(std::string("Options::replay: found true; expected false, since ") + why);
  };
  if (!CanReplay<D>) refuse("the device records no work");
  if (below) refuse("state lies below the device");
  if (!in_one) refuse("with UncheckedGradients each update waits for its own reduction");
}

/// A part of a step that may be replayed.
/// @tparam D the device
template <Device D>
class Repeated {
 public:
  /// What the part works on: numbers that nothing else has had (Context::new_number()), above 0.
  /// Not addresses: another object may come to lie where one was.
  using Key = std::array<Index, 2>;

  /// @param replays record and replay it, on a device that can; else it is enqueued anew each time
  explicit Repeated([[maybe_unused]] bool replays) {
    if constexpr (CanReplay<D>) choice_.replays = replays;
  }

  /// Enqueues f's work on the stream, as CanReplay says.
  template <class F>
  void operator()([[maybe_unused]] typename D::Stream& stream, [[maybe_unused]] Key const& key,
                  F f) {
    if constexpr (CanReplay<D>) {
      if (choice_.replays) {
        if (choice_.key != key) choice_ = {.replays = true, .key = key, .replay = {}};
        choice_.replay(stream, f);
        return;
      }
    }
    f();
  }
  /// The same of a part that works on the same things for as long as this object lives.
  template <class F>
  void operator()(typename D::Stream& stream, F f) {
    (*this)(stream, Key{}, std::move(f));
  }

 private:
  struct Choice {
    bool replays = false;
    Key key{};
    typename detail::ReplayChoice<D>::Type replay{};
  };
  [[no_unique_address]] std::conditional_t<CanReplay<D>, Choice, detail::NoReplay> choice_{};
};

}  // namespace zero
