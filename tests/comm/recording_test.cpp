// SPDX-License-Identifier: Apache-2.0
// The recording communicator counts what goes through it and changes nothing.

#include <zero/comm/recording.hpp>
#include <zero/comm/single_rank.hpp>
#include <zero/launch/threads.hpp>

#include <doctest/doctest.h>
#include <support/device_memory.hpp>
#include <support/late_device.hpp>

#include <string>
#include <vector>

namespace {

using zero::Collective;
using zero::CollectiveLog;
using zero::Host;
using zero::Index;
using zero::Recording;
using zero::Where;
using zero_test::DeviceMemory;

using Threads = zero::ThreadCommunicator<Host>;
static_assert(zero::Communicator<Recording<Threads>>);
static_assert(zero::CanAllGather<Recording<Threads>, zero::bf16>);
static_assert(zero::CanReduceScatter<Recording<Threads>, float>);
static_assert(zero::CanAllReduce<Recording<Threads>, double>);

/// A communicator of one rank that can only gather.
struct OnlyGathers {
  using Device = Host;
  int rank() const { return 0; }
  int size() const { return 1; }
  Host& device() const { return *device_; }
  OnlyGathers channel(int) const { return *this; }
  void abort(std::string_view) const noexcept {}
  template <class T>
  void all_gather(zero::Ordered<T const, Host>, zero::Ordered<T, Host>, Where) {}
  std::shared_ptr<Host> device_ = std::make_shared<Host>();
};
static_assert(zero::CanAllGather<Recording<OnlyGathers>, float>);
static_assert(!zero::CanReduceScatter<Recording<OnlyGathers>, float>);
static_assert(!zero::CanAllReduce<Recording<OnlyGathers>, float>);

/// One collective of each kind on every rank of a world, by rank 2's log.
CollectiveLog recorded(int world, Index slice) {
  CollectiveLog kept;
  zero::launch<zero::Threads>(world, [&](auto threads) {
    CollectiveLog log;
    log.keep_records(true);
    Recording communicator(threads, log);
    auto gathering = communicator.channel(1);
    auto stream = communicator.device().stream();
    Index const full = slice * world;
    Index const own = slice * communicator.rank();
    DeviceMemory<float, Host> memory(communicator.device(), stream,
                                     std::vector<float>(zero::at(full), 1.0f));
    DeviceMemory<double, Host> wide(communicator.device(), stream,
                                    std::vector<double>(zero::at(full), 1.0));
    auto claim = memory.claim(stream);
    gathering.all_gather(claim.source(own, slice), claim.target(0, full), Where{"gather", "a", 7});
    communicator.reduce_scatter(claim.source(0, full), claim.target(own, slice),
                                Where{"reduce", "b", 8});
    communicator.all_reduce(claim.target(0, full), Where{"reduce", "c", 9});
    auto wide_claim = wide.claim(stream);
    communicator.all_gather(wide_claim.source(own, slice), wide_claim.target(0, full),
                            Where{"clip", "norm records", 9});
    if (communicator.rank() == world - 1) kept = log;
  });
  return kept;
}

TEST_CASE("a record says operation, phase, unit, step, elements sent and their bytes") {
  CollectiveLog const log = recorded(3, 64);
  auto const& records = log.records();
  REQUIRE(records.size() == 4);
  Collective const operations[] = {Collective::all_gather, Collective::reduce_scatter,
                                   Collective::all_reduce, Collective::all_gather};
  char const* const phases[] = {"gather", "reduce", "reduce", "clip"};
  char const* const units[] = {"a", "b", "c", "norm records"};
  Index const steps[] = {7, 8, 9, 9};
  Index const elements[] = {2 * 64, 2 * 64, 2 * 2 * 64, 2 * 64};
  Index const bytes[] = {4, 4, 4, 8};
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(records[i].operation == operations[i]);
    CHECK(records[i].phase == phases[i]);
    CHECK(records[i].unit == units[i]);
    CHECK(records[i].step == steps[i]);
    CHECK(records[i].elements == elements[i]);
    CHECK(records[i].element_bytes == bytes[i]);
  }
}

TEST_CASE("totals add up by phase, and wire elements leave out the norm records") {
  for (int world : {1, 2, 5}) {
    Index const sent = world - 1;
    CollectiveLog const log = recorded(world, 128);
    CHECK(log.totals("gather").collectives == 1);
    CHECK(log.totals("gather").elements == 128 * sent);
    CHECK(log.totals("gather").bytes == 512 * sent);
    CHECK(log.totals("reduce").collectives == 2);
    CHECK(log.totals("reduce").elements == 3 * 128 * sent);
    CHECK(log.totals("clip").bytes == 1024 * sent);
    CHECK(log.totals("publish").collectives == 0);
    CHECK(log.totals().collectives == 4);
    CHECK(log.totals().elements == 5 * 128 * sent);
    CHECK(log.wire_elements() == 4 * 128 * sent);
  }
}

TEST_CASE("collectives of one group count as one launch, nested groups with the outermost") {
  CollectiveLog log;
  log.keep_records(true);
  Recording communicator(zero::SingleRank<>(), log);
  auto stream = communicator.device().stream();
  DeviceMemory<float, Host> memory(communicator.device(), 64);
  auto claim = memory.claim(stream);
  auto const gather = [&] {
    communicator.all_gather(claim.source(0, 64), claim.target(0, 64), Where{"gather", "u", 0});
  };
  gather();
  {
    zero::Group group(communicator);
    gather();
    gather();
    {
      zero::Group inner(communicator);
      gather();
      inner.end();
    }
    group.end();
  }
  gather();
  {
    zero::Group group(communicator);  // ended by its destructor
    gather();
  }
  gather();
  std::vector<Index> groups;
  for (auto const& record : log.records()) groups.push_back(record.group);
  CHECK(groups == std::vector<Index>{1, 2, 2, 2, 3, 4, 5});
  CHECK(log.groups() == 5);
}

TEST_CASE("a group of no collective is not counted, also within a group") {
  CollectiveLog log;
  log.keep_records(true);
  Where const where{"gather", "u", 0};
  auto const gather = [&] { log.write(Collective::all_gather, where, 64, 4); };
  log.group_start();
  log.group_end();
  CHECK(log.groups() == 0);
  log.group_start();
  log.group_start();
  log.group_end();
  gather();
  log.group_start();
  gather();
  log.group_end();
  log.group_end();
  gather();
  log.group_start();
  log.group_end();
  gather();
  std::vector<Index> groups;
  for (auto const& record : log.records()) groups.push_back(record.group);
  CHECK(groups == std::vector<Index>{1, 1, 2, 3});
  CHECK(log.groups() == 3);
}

TEST_CASE("clearing forgets totals, records and groups, and counting goes on") {
  CollectiveLog log;
  log.keep_records(true);
  Recording communicator(zero::SingleRank<>(), log);
  auto stream = communicator.device().stream();
  DeviceMemory<float, Host> memory(communicator.device(), 64);
  auto claim = memory.claim(stream);
  communicator.all_reduce(claim.target(0, 64), Where{"reduce", "u", 0});
  log.clear();
  CHECK(log.totals().collectives == 0);
  CHECK(log.records().empty());
  CHECK(log.groups() == 0);
  log.keep_records(false);
  communicator.all_reduce(claim.target(0, 64), Where{"reduce", "u", 1});
  CHECK(log.totals("reduce").collectives == 1);
  CHECK(log.records().empty());
}

TEST_CASE("a recorded communicator is the one it wraps") {
  CollectiveLog log;
  zero::SingleRank<> const inner;
  Recording communicator(inner, log);
  CHECK(communicator.rank() == 0);
  CHECK(communicator.size() == 1);
  CHECK(&communicator.device() == &inner.device());
  std::string text;
  try {
    zero::launch<zero::Threads>(2, [&](auto threads) {
      CollectiveLog mine;
      Recording recording(threads, mine);
      auto stream = recording.device().stream();
      DeviceMemory<float, Host> memory(recording.device(), stream, std::vector<float>(64, 1.0f));
      if (recording.rank() == 1) {
        recording.abort("planted");
        return;
      }
      auto claim = memory.claim(stream);
      recording.all_reduce(claim.target(0, 64), Where{"reduce", "u", 0});
    });
  } catch (zero::CommunicationError const& e) {
    text = e.what();
  }
  CHECK(text == "planted");
}

}  // namespace
