// SPDX-License-Identifier: Apache-2.0
#pragma once
// What ranks say to each other besides their data: that they failed, have ended, where they are.
// Small messages from rank to rank on a communicator of their own, which arrive also where a
// collective does not.

#include <zero/core/size.hpp>
#include <zero/mpi/session.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace zero::detail {

inline constexpr int num_mpi_channels = 4;
/// Collectives entered so far, a channel.
using Entered = std::array<Index, num_mpi_channels>;

/// What a message says.
enum class Notice : int {
  failed,  ///< the world has failed, for the reason in the text
  heard,   ///< the sender knows it; with a text, from the receiver
  over,    ///< the sender, who said so first, has waited long enough for the others to hear it
  ended,   ///< the sender has left its function, after `entered` collectives
  where,   ///< the sender asks where the receiver is
  here     ///< the answer: `entered`, and what the sender waits in
};

/// One message. Small enough that no MPI waits for the receiver before it sends it.
struct ControlMessage {
  static constexpr std::size_t max_text = 1000;
  int notice = 0;
  int length = 0;
  Entered entered{};
  char text[max_text] = {};

  std::string_view words() const { return {text, static_cast<std::size_t>(length)}; }
};

/// Sends and receives control messages.
class Control {
 public:
  explicit Control(MPI_Comm communicator) : communicator_(communicator) {
    check_mpi(MPI_Comm_rank(communicator_, &rank_), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(communicator_, &size_), "MPI_Comm_size");
  }
  Control(Control const&) = delete;
  Control& operator=(Control const&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  /// Returns at once; the message is on its way or waits for a later look.
  void send(int to, Notice notice, Entered const& entered, std::string_view text) {
    Letter& letter = free_letter();
    letter.to = to;
    letter.message.notice = static_cast<int>(notice);
    letter.message.entered = entered;
    std::size_t const length = std::min(text.size(), ControlMessage::max_text);
    std::memcpy(letter.message.text, text.data(), length);
    letter.message.length = static_cast<int>(length);
    check_mpi(MPI_Isend(&letter.message, static_cast<int>(sizeof(ControlMessage)), MPI_BYTE, to, 0,
                        communicator_, &letter.request),
              "MPI_Isend of a control message");
  }
  void send_all(Notice notice, Entered const& entered, std::string_view text) {
    for (int rank = 0; rank < size_; ++rank) {
      if (rank != rank_) send(rank, notice, entered, text);
    }
  }

  /// Calls take(from, message) for what has arrived.
  template <class Take>
  void receive(Take take) {
    for (;;) {
      int arrived = 0;
      MPI_Status status;
      check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, 0, communicator_, &arrived, &status), "MPI_Iprobe");
      if (arrived == 0) return;
      ControlMessage message;
      check_mpi(MPI_Recv(&message, static_cast<int>(sizeof(ControlMessage)), MPI_BYTE,
                         status.MPI_SOURCE, 0, communicator_, MPI_STATUS_IGNORE),
                "MPI_Recv of a control message");
      take(status.MPI_SOURCE, message);
    }
  }

  /// Whether everything has left this process that was sent to ranks with is(rank). What goes to a
  /// rank that no longer looks may never leave.
  template <class Is>
  bool sent(Is is) {
    for (auto const& letter : letters_) {
      if (is(letter->to) && !done(*letter)) return false;
    }
    return true;
  }

 private:
  struct Letter {
    ControlMessage message{};
    int to = 0;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  static bool done(Letter& letter) {
    int finished = 1;
    check_mpi(MPI_Test(&letter.request, &finished, MPI_STATUS_IGNORE),
              "MPI_Test of a control message");
    return finished != 0;
  }
  Letter& free_letter() {
    for (auto const& letter : letters_) {
      if (done(*letter)) return *letter;
    }
    return *letters_.emplace_back(std::make_unique<Letter>());
  }

  MPI_Comm communicator_;
  int rank_ = 0;
  int size_ = 1;
  std::vector<std::unique_ptr<Letter>> letters_;
};

}  // namespace zero::detail
