// SPDX-License-Identifier: Apache-2.0
#include <zero/comm/single_rank.hpp>
#include <zero/launch/agree.hpp>
#include <zero/launch/threads.hpp>
#include <zero/optim/adamw.hpp>
#include <zero/step/trainer.hpp>

#include <doctest/doctest.h>
#include <support/script.hpp>
#include <support/test_model.hpp>

#include <array>
#include <chrono>
#include <limits>

namespace {

using zero::Host;
using zero::Index;
using Ranks = zero::ThreadCommunicator<Host>;

/// Exactly the collectives that are asked for, of one element type.
template <class T, bool Gathers, bool Reduces>
struct Only {
  using Device = Host;
  Ranks inner;
  int rank() const { return inner.rank(); }
  int size() const { return inner.size(); }
  Host& device() const { return inner.device(); }
  Only channel(int i) const { return {inner.channel(i)}; }
  void abort(std::string_view text) const noexcept { inner.abort(text); }
  void all_gather(zero::Ordered<T const, Host> slice, zero::Ordered<T, Host> full,
                  zero::Where where) requires Gathers {
    inner.all_gather(slice, full, where);
  }
  void all_reduce(zero::Ordered<T, Host> full, zero::Where where) requires Reduces {
    inner.all_reduce(full, where);
  }
};

template <class C>
void check_decisions(C communicator) {
  int const rank = communicator.rank();
  int const size = communicator.size();
  zero::Agreement agreement{communicator};
  for (int round = 0; round < 3; ++round) {
    CHECK(agreement.all(true));
    CHECK(!agreement.all(rank != round % size));
    CHECK(!agreement.any(false));
    CHECK(agreement.any(rank == round % size));
    CHECK(agreement.least(rank + 5) == 5);
    CHECK(agreement.least(rank == size - 1 ? 7 : std::numeric_limits<Index>::max()) == 7);
    Index const large = (Index{1} << 53) + 1;
    CHECK(agreement.least(large) == large);
    CHECK(agreement.least(0) == 0);
  }
  CHECK_THROWS_AS(agreement.least(-1), zero::InvalidArgument);
  CHECK(zero::agree(communicator, true));
  CHECK(zero::agree(communicator, rank == 0) == (size == 1));
}

template <class T, bool Gathers, bool Reduces>
void check_with(int world) {
  zero::launch<zero::Threads>(
      world, [](Ranks ranks) { check_decisions(Only<T, Gathers, Reduces>{ranks}); });
}

/// A rank with `batches` batches, which asks the others before each step whether they have one too.
template <int Stage>
Index steps_made(Ranks communicator, Index batches, bool asks) {
  zero_test::ModelSpec const spec = zero_test::ragged_sizes();
  auto const direct = [chain = spec.chain](zero_test::Batch const&, bool) {
    zero_test::Script script;
    script.chain = chain;
    return script;
  };
  zero::Trainer trainer{zero_test::TestModel(spec, direct, 16),
                        communicator,
                        zero::AdamW{},
                        zero::Options{},
                        zero::Sharded<Stage>{},
                        zero::Fp32{}};
  zero::Agreement agreement{communicator};
  Index made = 0;
  while (asks ? agreement.all(made < batches) : made < batches) {
    trainer.step(zero_test::make_batch(communicator.rank(), static_cast<int>(made), 0));
    ++made;
  }
  trainer.synchronize();
  return made;
}

template <int Stage>
void check_uneven() {
  std::array<Index, 2> made{};
  zero::launch<zero::Threads>(2, [&](Ranks c) {
    made[zero::at(c.rank())] = steps_made<Stage>(c, c.rank() == 0 ? 5 : 4, true);
  });
  CHECK(made[0] == 4);
  CHECK(made[1] == 4);

  auto const begin = std::chrono::steady_clock::now();
  std::string text;
  try {
    zero::launch<zero::Threads>(2,
                                [](Ranks c) { steps_made<Stage>(c, c.rank() == 0 ? 5 : 4, false); },
                                {.timeout = std::chrono::seconds(30)});
  } catch (zero::CommunicationError const& e) {
    text = e.what();
  }
  CAPTURE(text);
  CHECK(text.find("rank 1 (has ended)") != std::string::npos);
  CHECK(text.find("step 5") != std::string::npos);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));
}

}  // namespace

TEST_CASE("Ranks agree by whatever collectives the communicator has") {
  for (int world : {1, 2, 3, 4}) {
    CAPTURE(world);
    zero::launch<zero::Threads>(world, [](Ranks c) { check_decisions(c); });
    check_with<double, true, false>(world);
    check_with<float, true, false>(world);
    check_with<float, false, true>(world);
    check_with<double, false, true>(world);
    check_with<zero::bf16, true, false>(world);
    check_with<zero::bf16, false, true>(world);
  }
  check_decisions(zero::SingleRank<>{});
}

TEST_CASE("G04 uneven batches: with an agreement all stop together, without one an error says so") {
  check_uneven<0>();
  check_uneven<1>();
  check_uneven<2>();
  check_uneven<3>();
}

TEST_CASE("G01 a rank that makes no step is named with operation, number and step") {
  auto const begin = std::chrono::steady_clock::now();
  std::string text;
  try {
    zero::launch<zero::Threads>(2,
                                [&](Ranks c) {
                                  steps_made<3>(c, c.rank() == 0 ? 3 : 2, false);
                                  if (c.rank() == 1)
                                    std::this_thread::sleep_for(std::chrono::seconds(7));
                                },
                                {.timeout = std::chrono::seconds(5)});
  } catch (zero::CommunicationError const& e) {
    text = e.what();
  }
  CAPTURE(text);
  CHECK(text.find("rank 0 waits in all_gather") != std::string::npos);
  CHECK(text.find("step 3") != std::string::npos);
  CHECK(text.find("number ") != std::string::npos);
  CHECK(text.find("for rank 1, which did not come within 5000 ms") != std::string::npos);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));
}
