// SPDX-License-Identifier: Apache-2.0
// Every collective and element type, over MPI and over threads: the same bits.
#include <zero/core/noise.hpp>
#include <zero/launch/agree.hpp>
#include <zero/mpi/backend.hpp>

#include <mpi/ranks/scenario.hpp>
#include <support/guarded_device.hpp>
#include <support/heap.hpp>

#include <chrono>
#include <cstring>
#include <thread>

namespace ranks {

namespace {

using zero::at;
using zero::Index;

constexpr zero::LaunchOptions options{.timeout = std::chrono::seconds(60)};

/// A slot of n elements in a device's memory.
template <class T, class D>
struct Block {
  Block(D& device, Index n)
      : buffer(device.allocate(n * Index{sizeof(T)}, "block")),
        slot(buffer.address(), n * Index{sizeof(T)}, device.event()) {}
  typename D::Buffer buffer;
  zero::Slot<D> slot;
};

/// Values of very different sizes, so that another order of a sum has other bits.
template <class T>
std::vector<T> values(int rank, Index n, Index key) {
  std::vector<T> all(at(n));
  for (Index i = 0; i < n; ++i) {
    double const x = 2 * zero::noise_uniform(3, key * 64 + rank, i) - 1;
    all[at(i)] = T(static_cast<float>(i % 3 == 0 ? x * 1000 : x));
  }
  return all;
}

/// What this rank has after a list of collectives, in place and not, on three channels, with
/// everything enqueued before anything is waited for.
template <class T, class C>
std::vector<std::vector<T>> results(C communicator, std::vector<Index> const& sizes, bool delays) {
  using D = typename C::Device;
  D& device = communicator.device();
  int const rank = communicator.rank();
  Index const world = communicator.size();
  std::array streams{device.stream(), device.stream(), device.stream()};
  std::array channels{communicator.channel(0), communicator.channel(1), communicator.channel(2)};
  std::vector<std::vector<T>> given;
  std::vector<std::vector<T>> all;
  std::vector<std::unique_ptr<Block<T, D>>> blocks;
  given.reserve(sizes.size() * 6);
  all.reserve(sizes.size() * 6);
  Index step = 0;
  auto const fresh = [&](Index n) -> Block<T, D>& {
    return *blocks.emplace_back(std::make_unique<Block<T, D>>(device, n));
  };
  for (Index n : sizes) {
    for (bool in_place : {false, true}) {
      for (std::size_t kind = 0; kind < 3; ++kind) {
        ++step;
        if (delays && zero::noise_uniform(5, rank, step) < 0.2)
          std::this_thread::sleep_for(std::chrono::milliseconds(2));
        zero::Where const where{"test", "unit", step};
        auto& stream = streams[kind];
        C& channel = channels[kind];
        auto full = fresh(world * n).slot.template on<T>(stream);
        auto slice = fresh(n).slot.template on<T>(stream);
        given.push_back(values<T>(rank, world * n, step));
        copy_in(stream, full.view(0, world * n), given.back().data());
        if (kind == 0) {
          if (in_place) {
            channel.all_gather(full.source(rank * n, n), full.target(0, world * n), where);
          } else {
            copy_in(stream, slice.view(0, n), given.back().data());
            channel.all_gather(slice.source(0, n), full.target(0, world * n), where);
          }
        } else if (kind == 1) {
          channel.reduce_scatter(full.source(0, world * n),
                                 in_place ? full.target(rank * n, n) : slice.target(0, n), where);
        } else {
          channel.all_reduce(full.target(0, world * n), where);
        }
        bool const whole = kind != 1;
        all.emplace_back(at(whole ? world * n : n));
        auto const out = whole      ? full.view(0, world * n)
                         : in_place ? full.view(rank * n, n)
                                    : slice.view(0, n);
        copy_out(stream, all.back().data(), zero::View<T const, D>(out));
      }
    }
  }
  for (auto& stream : streams) stream.synchronize();
  return all;
}

template <class T>
void compare(std::vector<std::vector<T>> const& a, std::vector<std::vector<T>> const& b,
             std::string const& what) {
  demand(a.size() == b.size(), what + ": not as many results");
  for (std::size_t i = 0; i < a.size(); ++i) {
    demand(a[i].size() == b[i].size() &&
               std::memcmp(a[i].data(), b[i].data(), a[i].size() * sizeof(T)) == 0,
           what + ": result " + std::to_string(i) + " differs from that of threads");
  }
}

/// This process's part of a world on device D, with limits of its own.
template <class D, class F>
void on_world(zero::detail::MpiLimits const& limits, F f) {
  zero::detail::MpiSession::of_process();
  auto const ranks = std::make_shared<zero::detail::MpiRanks>(MPI_COMM_WORLD, options, limits);
  {
    D device;
    f(zero::MpiCommunicator<D>(ranks, device));
  }
  ranks->world.end();
}

template <class T>
void check_type(std::string const& type) {
  zero::detail::MpiSession::of_process();
  int rank = 0;
  int size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  std::vector<Index> const sizes{1, 64, 4, 300, 4096 + 64, 20'000};
  std::vector<std::vector<T>> expected;
  auto const on_thread = [&](zero::ThreadCommunicator<zero::Host> communicator) {
    auto mine = results<T>(communicator, sizes, false);
    if (communicator.rank() == rank) expected = std::move(mine);
  };
  zero::Threads::run(size, on_thread, options);
  std::string const who = type + ", world " + std::to_string(size);
  using Limits = zero::detail::MpiLimits;
  Limits const usual{};
  // Nothing fits: every gather is staged, and tiles end inside 16-bit blocks.
  Limits const tiny{.gather_bytes = 0, .tile_bytes = 24, .staging_bytes = Index{24} * size};
  Limits const small{.gather_bytes = 5000, .tile_bytes = 4096, .staging_bytes = 1 << 20};
  auto const polled = [&](std::string const& name) {
    return [&, name](auto c) { compare(results<T>(c, sizes, true), expected, who + name); };
  };
  on_world<zero::PollingHost>(usual, polled(""));
  on_world<zero::PollingHost>(small, polled(", small tiles"));
  std::vector<Index> const few{1, 64, 4, 300};
  std::vector<std::vector<T>> const first(expected.begin(), expected.begin() + 24);
  on_world<zero::PollingHost>(
      tiny, [&](auto c) { compare(results<T>(c, few, true), first, who + ", tiny tiles"); });
  on_world<zero::Host>(small, polled(", on Host"));
#if !ZERO_TESTS_SANITIZED
  on_world<zero_test::GuardedDevice>(usual, polled(", on the guarded device"));
#endif
}

Add const collectives("collectives", [](Arguments const&) {
  check_type<float>("float");
  check_type<zero::bf16>("bf16");
  check_type<zero::fp16>("fp16");
  check_type<double>("double");
});

/// More bytes than an int counts.
Add const large("large", [](Arguments const&) {
  zero::launch<zero::Mpi>(2, [](auto communicator) {
    using D = typename decltype(communicator)::Device;
    using T = float;
    Index const world = communicator.size();
    Index const rank = communicator.rank();
    Index const n = zero::round_up((Index{1} << 29) / world + 12'345, 64);
    D& device = communicator.device();
    auto stream = device.stream();
    Block<T, D> block(device, world * n);
    auto claim = block.slot.template on<T>(stream);
    std::span<T> const all = claim.view(0, world * n);
    auto const value = [](Index q, Index i) { return static_cast<T>((i * 7 + q) % 31); };
    auto const places = [&](auto f) {
      for (Index q = 0; q < world; ++q) {
        for (Index i = 0; i < n; i += i < n - 5000 ? 4093 : 1) f(q, i);
      }
    };
    fill_zero(stream, claim.view(0, world * n));
    places([&](Index q, Index i) { all[at(q * n + i)] = value(rank, q * n + i); });
    communicator.all_reduce(claim.target(0, world * n), zero::Where{"test", "large", 1});
    stream.synchronize();
    places([&](Index q, Index i) {
      float sum = 0;
      for (Index r = 0; r < world; ++r) sum += value(r, q * n + i);
      demand(all[at(q * n + i)] == sum, "element " + std::to_string(q * n + i) + " of a large sum");
    });
    places([&](Index q, Index i) { all[at(q * n + i)] = q == rank ? value(rank, i) : 0; });
    communicator.all_gather(claim.source(rank * n, n), claim.target(0, world * n),
                            zero::Where{"test", "large", 2});
    stream.synchronize();
    places([&](Index q, Index i) {
      demand(all[at(q * n + i)] == value(q, i),
             "element " + std::to_string(i) + " of rank " + std::to_string(q) + " gathered");
    });
  });
});

/// After the first round neither the library nor a collective takes memory.
Add const steady("no-allocation", [](Arguments const&) {
  zero::launch<zero::Mpi>(2, [](auto communicator) {
    using D = typename decltype(communicator)::Device;
    D& device = communicator.device();
    Index const world = communicator.size();
    Index const rank = communicator.rank();
    auto stream = device.stream();
    Index const n = 6400;
    Block<float, D> block(device, world * n);
    Block<float, D> slice(device, n);
    zero::Agreement agreement{communicator};
    auto const round = [&](Index step) {
      for (int i = 0; i < 4; ++i) {
        auto full = block.slot.template on<float>(stream);
        auto part = slice.slot.template on<float>(stream);
        zero::Where const where{"test", "unit", step};
        fill_zero(stream, full.view(0, world * n));
        communicator.reduce_scatter(full.source(0, world * n), part.target(0, n), where);
        communicator.all_gather(part.source(0, n), full.target(0, world * n), where);
        communicator.all_reduce(full.target(0, world * n), where);
        communicator.all_gather(full.source(rank * n, n), full.target(0, world * n), where);
      }
      demand(agreement.all(true), "agreement");
      stream.synchronize();
    };
    // Each rank is late once: then the others have everything of a round under way at once.
    for (Index step = 0; step <= world; ++step) {
      if (step == rank) std::this_thread::sleep_for(std::chrono::milliseconds(100));
      round(step);
    }
    Index const before = heap::requested_bytes();
    for (Index step = 0; step < 50; ++step) round(step);
    Index const taken = heap::requested_bytes() - before;
    demand(taken == 0, std::to_string(taken) + " bytes after the first rounds");
  });
});

/// Several worlds of one process, one after the other.
Add const again("again", [](Arguments const&) {
  for (int i = 0; i < 3; ++i) {
    zero::launch<zero::Mpi>(2, [](auto communicator) {
      demand(zero::agree(communicator, true), "all say yes");
      demand(!zero::agree(communicator, communicator.rank() != 1), "one says no");
    });
  }
});

/// The program starts and ends MPI itself.
Add const own_session("own-session", [](Arguments const&) {
  MPI_Init(nullptr, nullptr);
  zero::launch<zero::Mpi>(
      2, [](auto communicator) { demand(zero::agree(communicator, true), "all say yes"); });
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
});

}  // namespace

}  // namespace ranks
