// SPDX-License-Identifier: Apache-2.0
#pragma once
// The ranks of one launch as MPI knows them, and what is known of each: so that whoever waits in
// vain can say for whom, and what fails on one rank fails on all.

#include <zero/core/entry.hpp>
#include <zero/launch/launch.hpp>
#include <zero/mpi/control.hpp>
#include <zero/mpi/polling_host.hpp>

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>

namespace zero::detail {

using Clock = std::chrono::steady_clock;

/// A collective that this rank has entered.
struct Waiting {
  Entry entry{};
  int channel = 0;
  Index number = 0;                          ///< of the channel's collectives, from 1
  std::optional<Clock::time_point> since{};  ///< since when the host does nothing else

  std::string text() const {
    return describe(entry) + ", number " + std::to_string(number) + " on channel " +
           std::to_string(channel);
  }
};

/// Once it has failed, every call throws the reason and MPI is not called again: the memory of
/// transfers that never end may be gone. So whoever fails says so to the others first.
class MpiWorld final : LiveWorld {
 public:
  /// @param parent whose ranks these are; collective over them
  /// @throws CommunicationError when not all ranks come within the timeout
  MpiWorld(MPI_Comm parent, LaunchOptions const& options)
      : timeout_(std::min(options.timeout, longest)),
        grace_(std::clamp(options.grace, std::chrono::milliseconds::zero(), longest)) {
    try {
      for (MPI_Comm& c : *communicators_) duplicate(parent, c);
    } catch (...) {
      MpiSession::of_process().failed();
      MpiSession::of_process().keep(communicators_);  // MPI may write to them yet
      throw;
    }
    control_.emplace(communicators_->front());
    peers_.resize(at(size()));
    MpiSession::of_process().begins(*this);
  }
  ~MpiWorld() { MpiSession::of_process().ends(*this, false); }
  MpiWorld(MpiWorld const&) = delete;
  MpiWorld& operator=(MpiWorld const&) = delete;

  int rank() const { return control_->rank(); }
  int size() const { return control_->size(); }
  MPI_Comm checks(int channel) const { return (*communicators_)[at(1 + channel)]; }
  MPI_Comm data(int channel) const { return (*communicators_)[at(1 + num_mpi_channels + channel)]; }
  bool failed() const { return failed_; }

  /// This rank enters another collective of the channel. @return its number
  Index enter(int channel) { return ++entered_[at(channel)]; }

  /// Takes what the others have said.
  /// @throws CommunicationError once the world has failed
  void look() {
    rethrow();
    receive();
    rethrow();
  }
  void rethrow() const {
    if (failed_) throw CommunicationError(reason_);
  }

  /// Called between looks at a collective that is not complete.
  /// @param host_waits the host does nothing else
  /// @throws CommunicationError when it will never be complete, or the timeout has passed
  void wait(Waiting& waiting, bool host_waits) {
    look();
    for (int q = 0; q < size(); ++q) {
      Peer const& peer = peers_[at(q)];
      if (peer.ended && peer.entered[at(waiting.channel)] < waiting.number) {
        fail("rank " + std::to_string(rank()) + " waits in " + waiting.text() + " for " +
             missing(waiting) + ", which will not come");
      }
    }
    if (!host_waits) {
      waiting.since.reset();
      return;
    }
    in_ = &waiting;
    if (!waiting.since) {
      waiting.since = Clock::now();
    } else if (Clock::now() - *waiting.since > timeout_) {
      ask();
      fail("rank " + std::to_string(rank()) + " waits in " + waiting.text() + " for " +
           missing(waiting) + ", which did not come within " + std::to_string(timeout_.count()) +
           " ms");
    }
  }
  /// The collective is complete.
  void leave(Waiting const& waiting) {
    if (in_ == &waiting) in_ = nullptr;
  }

  /// The world has failed: all ranks throw this, or what failed before.
  [[noreturn]] void fail(std::string_view reason) {
    abort(reason);
    throw CommunicationError(reason_);
  }
  /// The same without an exception here. Waits until the others have heard it, or the grace is
  /// over.
  void abort(std::string_view reason) noexcept {
    if (failed_) return;
    failed_ = true;
    try {
      reason_ = reason;
      control_->send_all(Notice::failed, entered_, reason_);
      until(grace_, [&] {
        receive();
        return all_peers([](Peer const& p) { return p.knows || p.silent; });
      });
      auto const follows = [&](int q) { return peers_[at(q)].follows; };
      for (int q = 0; q < size(); ++q) {
        if (follows(q)) control_->send(q, Notice::over, entered_, {});
      }
      until(grace_, [&] { return control_->sent(follows); });
    } catch (...) {  // nobody can be told any more
    }
  }

  /// Nobody waits for an exit: it is said to the others as a failure.
  void process_exits() noexcept override {
    abort("rank " + std::to_string(rank()) + " has exited in the middle of a run");
  }

  /// This rank is done; returns when all are.
  /// @throws CommunicationError when one fails, or is not done within the timeout
  void end() {
    look();
    control_->send_all(Notice::ended, entered_, {});
    auto const all_ended = [&] {
      look();
      return all_peers([](Peer const& p) { return p.ended; });
    };
    if (!until(timeout_, all_ended)) {
      ask();
      std::string who;
      for (int q = 0; q < size(); ++q) {
        if (q != rank() && !peers_[at(q)].ended) who += (who.empty() ? "" : ", ") + where(q);
      }
      fail("rank " + std::to_string(rank()) + " has ended and waits for " + who +
           ", which did not end within " + std::to_string(timeout_.count()) + " ms");
    }
    until(std::min(grace_, timeout_), [&] { return control_->sent([](int) { return true; }); });
    for (MPI_Comm& c : *communicators_) check_mpi(MPI_Comm_free(&c), "MPI_Comm_free");
    MpiSession::of_process().ends(*this, true);
  }

 private:
  /// What is known of a rank.
  struct Peer {
    Entered entered{};  // when it last said so
    std::string in{};   // what it waited in, when it last said so
    bool ended = false;
    bool answered = false;  // to the last question
    bool silent = false;    // it has not answered the last question in time
    bool knows = false;     // that the world has failed
    bool follows = false;   // it knows from this rank, and waits until this one goes
    bool over = false;      // it has failed, and waits no longer for those who have not heard it
  };

  void duplicate(MPI_Comm parent, MPI_Comm& to) {
    MPI_Request& request = communicators_->joining;
    check_mpi(MPI_Comm_idup(parent, &to, &request), "MPI_Comm_idup");
    bool const came = until(timeout_, [&] {
      int finished = 0;
      check_mpi(MPI_Test(&request, &finished, MPI_STATUS_IGNORE), "MPI_Comm_idup");
      return finished != 0;
    });
    if (!came) {
      throw CommunicationError("not all ranks have joined within " +
                               std::to_string(timeout_.count()) + " ms");
    }
    check_mpi(MPI_Comm_set_errhandler(to, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  }

  /// Looks until done() or the time is over. @return whether it is done
  template <class Done>
  static bool until(std::chrono::milliseconds time, Done done) {
    auto const end = Clock::now() + time;
    for (PoliteWait pause; !done(); pause()) {
      if (Clock::now() > end) return false;
    }
    return true;
  }
  template <class Is>
  bool all_peers(Is is) const {
    for (int q = 0; q < size(); ++q) {
      if (q != rank() && !is(peers_[at(q)])) return false;
    }
    return true;
  }

  void receive() {
    control_->receive([&](int from, ControlMessage const& message) {
      Peer& peer = peers_[at(from)];
      switch (static_cast<Notice>(message.notice)) {
        case Notice::failed:
          peer.knows = true;
          if (!failed_) hear(from, message.words());
          break;
        case Notice::heard:
          peer.knows = true;
          peer.follows = !message.words().empty();
          break;
        case Notice::over:
          peer.over = true;
          break;
        case Notice::ended:
          peer.ended = peer.answered = true;
          peer.entered = message.entered;
          break;
        case Notice::where:
          control_->send(from, Notice::here, entered_, in_ != nullptr ? in_->text() : "");
          break;
        case Notice::here:
          peer.answered = true;
          peer.entered = message.entered;
          peer.in = message.words();
          break;
      }
    });
  }

  /// Another rank has failed. All leave together: a launcher ends the others when the first exits.
  void hear(int from, std::string_view reason) {
    failed_ = true;
    reason_ = reason;
    for (int q = 0; q < size(); ++q) {
      if (q != rank()) control_->send(q, Notice::heard, entered_, q == from ? "from you" : "");
    }
    until(grace_, [&] {
      receive();
      return peers_[at(from)].over && control_->sent([&](int q) { return q == from; });
    });
  }

  /// Asks all ranks where they are; those that do not answer within the grace are silent.
  void ask() {
    for (Peer& peer : peers_) peer.answered = peer.ended;
    control_->send_all(Notice::where, entered_, {});
    until(grace_, [&] {
      look();
      return all_peers([](Peer const& p) { return p.answered; });
    });
    for (Peer& peer : peers_) peer.silent = !peer.answered;
  }

  /// The ranks that have not come to a collective, and where they are.
  std::string missing(Waiting const& waiting) const {
    std::string who;
    for (int q = 0; q < size(); ++q) {
      Peer const& peer = peers_[at(q)];
      bool const there = peer.entered[at(waiting.channel)] >= waiting.number;
      if (q == rank() || (there && !peer.silent)) continue;
      if (!peer.ended && !peer.answered && !peer.silent) continue;  // not asked
      who += (who.empty() ? "" : ", ") + where(q);
    }
    return who.empty() ? "an end of it: all ranks have come" : who;
  }
  std::string where(int q) const {
    Peer const& peer = peers_[at(q)];
    std::string const name = "rank " + std::to_string(q);
    if (peer.ended) return name + " (has ended)";
    if (peer.silent) return name + " (does not answer)";
    return name + (peer.in.empty() ? " (is in no collective)" : " (is in " + peer.in + ")");
  }

  // A point in time beyond it might not fit the clock.
  static constexpr std::chrono::milliseconds longest = std::chrono::hours(24 * 365);

  std::chrono::milliseconds timeout_;
  std::chrono::milliseconds grace_;
  // For control, then of each channel for checks, then for data; and what becomes of them.
  struct Communicators : std::array<MPI_Comm, 1 + 2 * num_mpi_channels> {
    MPI_Request joining = MPI_REQUEST_NULL;
  };
  std::shared_ptr<Communicators> const communicators_ = std::make_shared<Communicators>();
  std::optional<Control> control_;
  std::vector<Peer> peers_;
  Entered entered_{};
  Waiting const* in_ = nullptr;
  bool failed_ = false;
  std::string reason_;
};

}  // namespace zero::detail
