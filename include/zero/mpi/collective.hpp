// SPDX-License-Identifier: Apache-2.0
#pragma once
// One collective over MPI, from the entry of this rank to its end. Before any data moves the ranks
// compare hashes of what they are in: MPI itself would take one collective for another, or wait.

#include <zero/mpi/transfer.hpp>
#include <zero/mpi/world.hpp>

namespace zero::detail {

/// What the collectives of one channel share. They move their data one after the other.
class MpiChannel {
 public:
  MpiChannel(MpiWorld& world, int number, MpiLimits const& limits)
      : world_(world),
        number_(number),
        gather_(world.data(number), world.rank(), world.size(), limits),
        reduce_(world.data(number), world.rank(), world.size(), limits) {}
  MpiChannel(MpiChannel const&) = delete;
  MpiChannel& operator=(MpiChannel const&) = delete;

 private:
  friend class MpiCollective;
  MpiWorld& world_;
  int number_;
  Index finished_ = 0;
  GatherTransfer gather_;
  ReduceTransfer reduce_;
};

/// Entered once and then looked at until it is complete; may be entered again after that. Its
/// memory must outlive it when it never completes.
class MpiCollective {
 public:
  explicit MpiCollective(MpiChannel& channel)
      : channel_(channel), world_(channel.world_), hashes_(at(world_.size())) {}
  MpiCollective(MpiCollective const&) = delete;
  MpiCollective& operator=(MpiCollective const&) = delete;

  /// This rank is in the collective from here on, in the channel's order.
  /// @param input what is gathered from this rank, or summed; @param output where that goes
  /// @param reduces, gathers the parts of it: reduce_scatter, all_gather, or both one after the
  /// other
  template <class T>
  void enter(Entry const& entry, T const* input, T* output, bool reduces, bool gathers) {
    begin_ = [](MpiCollective& c) { c.begin_data<T>(); };
    input_ = input;
    output_ = output;
    reduces_ = reduces;
    gathers_ = gathers;
    waiting_ = {entry, channel_.number_, world_.enter(channel_.number_), {}};
    hash_ = hash(entry);
    check_mpi(MPI_Iallgather(&hash_, sizeof hash_, MPI_BYTE, hashes_.data(), sizeof hash_, MPI_BYTE,
                             world_.checks(channel_.number_), &check_),
              "MPI_Iallgather of hashes");
    stage_ = Stage::comparing;
  }

  /// Looks once. @param host_waits the host does nothing else meanwhile
  /// @return whether it is complete
  /// @throws CommunicationError, on every rank, when a rank is in another collective, does not come
  /// or has failed
  bool look(bool host_waits) {
    world_.rethrow();
    bool moved = false;
    try {
      if (step(moved)) {
        world_.leave(waiting_);
        ++channel_.finished_;
        return true;
      }
    } catch (MpiFailure const& e) {
      world_.fail("rank " + std::to_string(world_.rank()) + ", in " + waiting_.text() + ": " +
                  e.what());
    }
    if (moved) waiting_.since.reset();
    world_.wait(waiting_, host_waits);
    return false;
  }

 private:
  enum class Stage { comparing, compared, differing, reducing, gathering };
  static constexpr int text_bytes = 256;

  template <class T>
  void begin_data() {
    Index const n = waiting_.entry.slice_elements;
    T* const out = static_cast<T*>(output_);
    if (reduces_) {
      T* const own = gathers_ ? out + world_.rank() * n : out;
      channel_.reduce_.begin(static_cast<T const*>(input_), own, n);
      stage_ = Stage::reducing;
    } else {
      begin_gather(static_cast<std::byte const*>(input_));
    }
  }
  void begin_gather(std::byte const* slice) {
    Index const bytes = waiting_.entry.slice_elements * waiting_.entry.element_bytes;
    channel_.gather_.begin(slice, static_cast<std::byte*>(output_), bytes);
    stage_ = Stage::gathering;
  }

  bool step(bool& moved) {
    if (stage_ == Stage::comparing) {
      if (!arrived(check_)) return false;
      moved = true;
      stage_ = Stage::compared;
    }
    if (stage_ == Stage::compared) {
      if (channel_.finished_ + 1 != waiting_.number) return false;  // the one before is under way
      bool same = true;
      for (std::uint64_t h : hashes_) same = same && h == hashes_.front();
      if (same) {
        begin_(*this);
      } else {
        exchange_texts();
      }
    }
    if (stage_ == Stage::differing) {
      if (!arrived(check_)) return false;
      world_.fail(difference());
    }
    if (stage_ == Stage::reducing) {
      if (!channel_.reduce_.test(moved)) return false;
      if (!gathers_) return true;
      Index const bytes = waiting_.entry.slice_elements * waiting_.entry.element_bytes;
      begin_gather(static_cast<std::byte const*>(output_) + world_.rank() * bytes);
    }
    return channel_.gather_.test(moved);
  }

  static bool arrived(MPI_Request& request) {
    int finished = 0;
    check_mpi(MPI_Test(&request, &finished, MPI_STATUS_IGNORE), "MPI_Iallgather of hashes");
    return finished != 0;
  }

  /// Every rank has seen the same hashes, so every rank comes here, and none moves data.
  void exchange_texts() {
    stage_ = Stage::differing;
    texts_.resize(at(Index{world_.size()} * text_bytes));
    std::string const text = waiting_.text();
    std::size_t const length = std::min(text.size(), std::size_t{text_bytes - 1});
    text_.assign(at(text_bytes), '\0');
    text_.replace(0, length, text, 0, length);
    check_mpi(MPI_Iallgather(text_.data(), text_bytes, MPI_BYTE, texts_.data(), text_bytes,
                             MPI_BYTE, world_.data(channel_.number_), &check_),
              "MPI_Iallgather of texts");
  }
  std::string difference() const {
    std::size_t other = 1;
    while (hashes_[other] == hashes_.front()) ++other;
    return "ranks issued different collectives: rank 0 is in " + std::string(texts_.data()) +
           ", rank " + std::to_string(other) + " is in " +
           std::string(texts_.data() + other * text_bytes);
  }

  MpiChannel& channel_;
  MpiWorld& world_;
  void (*begin_)(MpiCollective&) = nullptr;
  void const* input_ = nullptr;
  void* output_ = nullptr;
  bool reduces_ = false;
  bool gathers_ = false;
  Stage stage_ = Stage::comparing;
  Waiting waiting_{};
  std::uint64_t hash_ = 0;
  std::vector<std::uint64_t> hashes_;
  std::string text_;
  std::vector<char> texts_;
  MPI_Request check_ = MPI_REQUEST_NULL;
};

}  // namespace zero::detail
