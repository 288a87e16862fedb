// SPDX-License-Identifier: Apache-2.0
// AdamW on the host against the bandwidth of the same mix of streams: four rows of floats read and
// three of them written, 28 bytes a parameter, with one thread and with all. The ceiling mixes the
// fourth row into the other three, over memory of its own: the fastest, in this run, of a loop with
// the widest vectors and of the same loop with lines fetched ahead by hand, over rows that begin at
// four places of a page. AdamW's rows lie as a trainer's do, in buffers of the device, in a slice
// of a size that is no power of two and in one of 2^25 elements, whose weights and second moments
// lie 2^28 bytes apart; and all four of them lie multiples of 2^28 bytes apart, where a processor's
// cache may take their lines for one another's (optim/adam_kernel.hpp).
#include <zero/device/host_elementwise.hpp>
#include <zero/optim/adamw.hpp>
#include <zero/optim/lion.hpp>

#include <bench/harness.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <vector>

namespace {

using bench::Index;
using zero::at;
using zero::Host;
using zero::View;

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};
template <class T>
using Untouched = std::unique_ptr<T[], Free>;

/// Memory that begins with a page, so that vectors lie in one line each; none of it is touched.
template <class T>
Untouched<T> untouched(Index n) {
  Index const bytes = zero::round_up(n * static_cast<Index>(sizeof(T)), 4096);
  void* const memory = std::aligned_alloc(4096, at(bytes));
  if (memory == nullptr) throw std::bad_alloc();
  return Untouched<T>(static_cast<T*>(memory));
}

/// Rows that all variants use in turn; touched first by the threads that use them.
struct Rows {
  Rows(Index n, zero::HostWorkers& workers)
      : elements(n),
        parameters(device.allocate(2 * n, "parameters")),
        sums(device.allocate(4 * n, "gradients")),
        short_sums(device.allocate(2 * n, "gradients")),
        state(device.allocate(12 * n, "optimizer state")),
        far_rows(untouched<float>(4 * far())),
        words(untouched<std::uint32_t>(4 * stride())) {
    workers.run(n, [&](Index begin, Index end) {
      for (Index i = begin; i < end; ++i) {
        for (Index k = 0; k < 3; ++k) weights()[k * n + i] = 0;
        gradients()[i] = 1e-3f * static_cast<float>(i % 101 - 50);
        short_gradients()[i] = zero::bf16(1e-3f);
        rounded()[i] = zero::bf16(0.0f);
        for (Index k = 0; k < 4; ++k)
          words[at(k * stride() + i)] = static_cast<std::uint32_t>(i * k);
      }
    });
    Index const step =
        far() / (zero::round_up(n, piece) / piece) / 1024 * 1024;  // at least a piece
    for (Index begin = 0, place = 0; begin < n; begin += piece, place += step)
      pieces.push_back({place, place + std::min(piece, n - begin), 0, 0, 1, 1});
    workers.run(far(), [&](Index begin, Index end) {
      for (zero::Segment const& p : pieces) {
        for (Index i = std::max(begin, p.begin); i < std::min(end, p.end); ++i) {
          for (Index k = 0; k < 3; ++k) far_rows[at(k * far() + i)] = 0;
          far_rows[at(3 * far() + i)] = 1e-3f * static_cast<float>(i % 101 - 50);
        }
      }
    });
  }

  float* weights() const { return reinterpret_cast<float*>(state.address()); }
  float* gradients() const { return reinterpret_cast<float*>(sums.address()); }
  zero::bf16* short_gradients() const {
    return reinterpret_cast<zero::bf16*>(short_sums.address());
  }
  zero::bf16* rounded() const { return reinterpret_cast<zero::bf16*>(parameters.address()); }
  /// Of the ceiling's rows: 768 bytes beside a page.
  Index stride() const { return zero::round_up(elements, 1024) + 192; }
  /// Elements of the rows that lie far apart, at least twice `elements`. Pieces of them, evenly
  /// spread so that each thread has as many, are updated; the rest is never touched.
  Index far() const { return zero::round_up(2 * elements, Index{1} << 26); }
  static constexpr Index piece = Index{1} << 18;  ///< elements

  Index elements;
  Host device;
  zero::HostBuffer parameters, sums, short_sums, state;  ///< weights, then two rows of states
  Untouched<float> far_rows;                             ///< weights, m, v, gradients
  std::vector<zero::Segment> pieces;                     ///< of them
  Untouched<std::uint32_t> words;                        ///< four rows
};

/// The ceiling's loop: words, so that no value is dearer than another.
[[gnu::target_clones("avx512f", "avx2", "default")]] void mix_rows(
    std::uint32_t* __restrict a, std::uint32_t* __restrict b, std::uint32_t* __restrict c,
    std::uint32_t const* __restrict d, Index n) {
  for (Index i = 0; i < n; ++i) {
    a[i] ^= d[i];
    b[i] ^= d[i];
    c[i] ^= d[i];
  }
}

/// The same, with lines of all rows fetched some way ahead.
[[gnu::target_clones("avx512f", "avx2", "default")]] void mix_rows_ahead(
    std::uint32_t* __restrict a, std::uint32_t* __restrict b, std::uint32_t* __restrict c,
    std::uint32_t const* __restrict d, Index n) {
  constexpr Index line = 16, ahead = 24 * line;
  Index i = 0;
  for (; i + ahead + line <= n; i += line) {
    for (std::uint32_t const* row :
         {static_cast<std::uint32_t const*>(a), static_cast<std::uint32_t const*>(b),
          static_cast<std::uint32_t const*>(c), d})
      __builtin_prefetch(row + i + ahead);
    for (Index k = i; k < i + line; ++k) {
      a[k] ^= d[k];
      b[k] ^= d[k];
      c[k] ^= d[k];
    }
  }
  for (; i < n; ++i) {
    a[i] ^= d[i];
    b[i] ^= d[i];
    c[i] ^= d[i];
  }
}

using MixRows = decltype(&mix_rows);

void mix(zero::HostWorkers& workers, Rows& rows, MixRows loop) {
  Index const stride = rows.stride();
  workers.run(rows.elements, [&](Index begin, Index end) {
    std::uint32_t* const words = rows.words.get() + begin;
    loop(words, words + stride, words + 2 * stride, words + 3 * stride, end - begin);
  });
}

/// Which of the loops takes less time, the best of three each.
MixRows fastest(zero::HostWorkers& workers, Rows& rows) {
  auto const best = [&](MixRows loop) {
    auto least = std::chrono::steady_clock::duration::max();
    for (int i = 0; i < 3; ++i) {
      auto const start = std::chrono::steady_clock::now();
      mix(workers, rows, loop);
      least = std::min(least, std::chrono::steady_clock::now() - start);
    }
    return least;
  };
  return best(&mix_rows) <= best(&mix_rows_ahead) ? &mix_rows : &mix_rows_ahead;
}

template <class O, class G, class P>
void update(O const& optimizer, Host& device, float* weights, float* states, Index n,
            G const* gradients, P* rounded, std::vector<zero::Segment> const& segments,
            zero::Decision& decision) {
  ++decision.updates;
  decision.learning_rate = 1e-3f;
  auto stream = device.stream();
  zero::update(
      stream,
      zero::Update<O, G, P, Host>{
          optimizer, View<G const, Host>(gradients, n), View<float, Host>(weights, n),
          View<float, Host>(states, O::num_states * n),
          View<P, Host>(rounded, rounded == nullptr ? 0 : n),
          View<zero::Segment const, Host>(segments.data(), static_cast<Index>(segments.size())),
          View<zero::Decision const, Host>(&decision, 1)});
}

/// Of n elements, one after the other as a trainer's state lies.
template <class G, class P>
void update(Host& device, Rows& rows, Index n, G const* gradients, P* rounded,
            zero::Decision& decision) {
  update(zero::AdamW{.lr = 1e-3f}, device, rows.weights(), rows.weights() + n, n, gradients,
         rounded, {{0, n, 0, 0, 1, 1}}, decision);
}

/// Of as many elements in rows that lie far apart.
template <class O>
void update_far(O const& optimizer, Host& device, Rows& rows, zero::Decision& decision) {
  float* const far = rows.far_rows.get();
  update(optimizer, device, far, far + rows.far(), rows.far(), far + 3 * rows.far(),
         static_cast<float*>(nullptr), rows.pieces, decision);
}

}  // namespace

int main(int argc, char** argv) {
  bench::Harness harness(argc, argv, "update",
                         "AdamW on the host against the bandwidth of the same mix of streams");
  Index const n = zero::round_up(
      harness.number("elements", (Index{1} << 25) + 192, "parameters, 52 bytes of memory each"),
      64);
  int const all = std::max(2, static_cast<int>(std::thread::hardware_concurrency()));
  Index const alike = n / 1024 * 1024;
  if (alike == 0) {
    std::fprintf(stderr, "update: --elements wants at least 1024\n");
    return 2;
  }
  // At least 0.85 of the ceiling's speed.
  double const at_most = 1 / 0.85;

  std::unique_ptr<Rows> rows;
  std::once_flag made;
  auto const get = [&rows, &made, n, all]() -> Rows& {
    std::call_once(made, [&] {
      zero::HostWorkers workers(all);
      rows = std::make_unique<Rows>(n, workers);
    });
    return *rows;
  };
  for (int threads : {1, all}) {
    std::string const on = threads == 1 ? ", 1 thread" : ", " + std::to_string(all) + " threads";
    harness.add({.name = "stream" + on}, [=, &get](bench::Measure measure) {
      Rows& r = get();
      zero::HostWorkers workers(threads);
      MixRows const loop = fastest(workers, r);
      measure([&] { mix(workers, r, loop); });
      measure.fact("fetches_ahead", Index{loop == &mix_rows_ahead});
      measure.fact("bytes", 28 * n);
    });
    harness.add({.name = "AdamW" + on, .against = "stream" + on, .at_most = at_most},
                [=, &get](bench::Measure measure) {
                  Rows& r = get();
                  Host device(threads);
                  zero::Decision decision;
                  measure([&] {
                    update<float, float>(device, r, n, r.gradients(), static_cast<float*>(nullptr),
                                         decision);
                  });
                  measure.fact("bytes", 28 * n);
                  measure.fact("instruction_set",
                               static_cast<Index>(zero::widest_instruction_set()));
                });
    // A size whose weights and states begin at one place of a page: of 2^25 elements, unless
    // --elements says otherwise.
    harness.add({.name = "AdamW, rows at one place of a page" + on,
                 .against = "stream" + on,
                 .at_most = at_most},
                [=, &get](bench::Measure measure) {
                  Rows& r = get();
                  Host device(threads);
                  zero::Decision decision;
                  measure([&] {
                    update<float, float>(device, r, alike, r.gradients(),
                                         static_cast<float*>(nullptr), decision);
                  });
                  measure.fact("bytes", 28 * alike);
                });
    harness.add({.name = "AdamW, rows multiples of 2^28 bytes apart" + on,
                 .against = "stream" + on,
                 .at_most = at_most},
                [=, &get](bench::Measure measure) {
                  Rows& r = get();
                  Host device(threads);
                  zero::Decision decision;
                  measure([&] { update_far(zero::AdamW{.lr = 1e-3f}, device, r, decision); });
                  measure.fact("bytes", 28 * n);
                });
    // An optimizer without vectors of its own: what its rows cost where they lie so.
    harness.add({.name = "Lion" + on}, [=, &get](bench::Measure measure) {
      Rows& r = get();
      Host device(threads);
      zero::Decision decision;
      measure([&] {
        update(zero::Lion{.lr = 1e-4f}, device, r.weights(), r.weights() + n, n, r.gradients(),
               static_cast<float*>(nullptr), {{0, n, 0, 0, 1, 1}}, decision);
      });
      measure.fact("bytes", 20 * n);
    });
    harness.add({.name = "Lion, rows multiples of 2^28 bytes apart" + on, .against = "Lion" + on},
                [=, &get](bench::Measure measure) {
                  Rows& r = get();
                  Host device(threads);
                  zero::Decision decision;
                  measure([&] { update_far(zero::Lion{.lr = 1e-4f}, device, r, decision); });
                  measure.fact("bytes", 20 * n);
                });
    harness.add(
        {.name = "AdamW, bf16 gradients and parameters" + on, .against = "stream" + on},
        [=, &get](bench::Measure measure) {
          Rows& r = get();
          Host device(threads);
          zero::Decision decision;
          measure([&] { update(device, r, n, r.short_gradients(), r.rounded(), decision); });
          measure.fact("bytes", 28 * n);
        });
  }
  return harness.run();
}
