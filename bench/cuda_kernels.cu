// SPDX-License-Identifier: Apache-2.0
// The kernels of a step against the device's own copy, measured in the same run: seconds, bytes
// that must move, and their share of the ceiling.

#include <zero/cuda/cuda.cuh>
#include <zero/model/initial.hpp>
#include <zero/optim/adamw.hpp>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace {

using zero::bf16;
using zero::Index;
using zero::View;
using zero::cuda::Device;

template <class T>
__global__ void empty_kernel(T) {}

struct Timer {
  cudaStream_t stream;
  cudaEvent_t begin{};
  cudaEvent_t end{};

  explicit Timer(cudaStream_t s) : stream(s) {
    zero::cuda::check(cudaEventCreate(&begin), "cudaEventCreate");
    zero::cuda::check(cudaEventCreate(&end), "cudaEventCreate");
  }
  /// Medians of microseconds of one call, as events see it.
  struct Times {
    double work;
    double empty;  ///< of a kernel that does nothing, in turn with the work
  };
  Times operator()(std::function<void()> const& work, int repeats) const {
    std::vector<float> times[2];
    for (int i = 0; i < repeats + 3; ++i) {
      float const both[] = {once(work), once([&] { empty_kernel<<<1, 1, 0, stream>>>(0); })};
      for (int k = 0; i >= 3 && k < 2; ++k) times[k].push_back(both[k]);
    }
    for (auto& t : times)
      std::nth_element(t.begin(), t.begin() + static_cast<long>(t.size() / 2), t.end());
    return {times[0][times[0].size() / 2], times[1][times[1].size() / 2]};
  }

 private:
  float once(std::function<void()> const& work) const {
    zero::cuda::check(cudaEventRecord(begin, stream), "cudaEventRecord");
    work();
    zero::cuda::check(cudaEventRecord(end, stream), "cudaEventRecord");
    zero::cuda::check(cudaEventSynchronize(end), "cudaEventSynchronize");
    float ms = 0;
    zero::cuda::check(cudaEventElapsedTime(&ms, begin, end), "cudaEventElapsedTime");
    return ms * 1000;
  }
};

class Bench {
 public:
  explicit Bench(Index n)
      : n_(zero::round_up(n, 64)), stream_(device_.stream()), timer_(stream_.native()) {
    g_ = view<bf16>(n_);
    p_ = view<bf16>(n_);
    w_ = view<float>(n_);
    s_ = view<float>(2 * n_);
    zero::Initial const spread = zero::Initial::uniform(-1, 1);
    initialise(stream_, g_, spread, 1, 0, Index{0});
    initialise(stream_, w_, spread, 1, 1, Index{0});
    fill_zero(stream_, s_);
    record_ = view<double>(4);
    decision_ = view<zero::Decision>(1);
    std::vector<zero::Segment> segments;
    Index const tensors = 12;
    for (Index t = 0; t < tensors; ++t) {
      Index const begin = zero::round_up(n_ / tensors * t, 64);
      Index const end = t + 1 == tensors ? n_ : zero::round_up(n_ / tensors * (t + 1), 64);
      if (begin < end) segments.push_back({begin, end, t, 0, 1.0f, 1.0f});
    }
    segments_ = view<zero::Segment>(static_cast<Index>(segments.size()));
    zero::Decision const none;
    copy_in(stream_, segments_, segments.data());
    copy_in(stream_, decision_, &none);
    for (int t = 0; t < 10; ++t) {
      fill_zero(stream_, record_);
      decide(stream_, View<double const, Device>(record_), decision_, zero::DecisionInputs{},
             zero::LearningRateOf<zero::AdamW>{});
    }
    for (Index t = 0; t < tensors; ++t) {
      zero::Segment const& s = segments[static_cast<std::size_t>(t) % segments.size()];
      if (static_cast<std::size_t>(t) < segments.size())
        pieces_.push_back({w_.address() + s.begin, s.begin, s.end - s.begin});
    }
    stream_.synchronize();
  }

  void run() {
    int const repeats = n_ > 500'000'000 ? 15 : n_ > 1'000'000 ? 40 : 400;
    double const copied = static_cast<double>(n_) * 8;
    View<float, Device> const half = s_.sub(0, n_);
    auto const [copy_us, empty_us] =
        timer_([&] { copy(stream_, half, View<float const, Device>(w_)); }, repeats);
    ceiling_ = copied / copy_us / 1e3;
    std::printf("%11lld elements: device copy %.1f us, %.0f GB/s; an empty kernel %.2f us\n",
                static_cast<long long>(n_), copy_us, ceiling_, empty_us);
    zero::AdamW const adamw{};
    line("AdamW, bf16 in and out", 28,
         timer_(
             [&] {
               update(stream_, zero::Update<zero::AdamW, bf16, bf16, Device>{adamw, g_, w_, s_, p_,
                                                                             segments_, decision_});
             },
             repeats));
    line("norm of bf16", 2,
         timer_([&] { add_squares(stream_, View<bf16 const, Device>(g_), record_, Index{0}); },
                repeats));
    line("norm of float", 4,
         timer_([&] { add_squares(stream_, View<float const, Device>(w_), record_, Index{0}); },
                repeats));
    line("cast float to bf16", 6,
         timer_([&] { assign(stream_, p_, View<float const, Device>(w_)); }, repeats));
    line("accumulate bf16 into float", 10,
         timer_([&] { add(stream_, half, View<bf16 const, Device>(g_)); }, repeats));
    line(
        "flatten 12 float tensors to bf16", 6,
        timer_([&] { flatten(stream_, p_, zero::OwnBuffers<float const, Device>{pieces_}, false); },
               repeats));
    line("flatten, added", 8,
         timer_([&] { flatten(stream_, p_, zero::OwnBuffers<float const, Device>{pieces_}, true); },
                repeats));
    line("initialise normal float", 4,
         timer_([&] { initialise(stream_, w_, zero::Initial::normal(0.02), 1, 1, Index{0}); }, 3));
  }

 private:
  template <class T>
  View<T, Device> view(Index n) {
    buffers_.push_back(device_.allocate(n * Index{sizeof(T)}, "bench"));
    return {reinterpret_cast<T*>(buffers_.back().address()), n};
  }
  void line(char const* what, int bytes, Timer::Times times) const {
    double const us = times.work;
    double const rate = static_cast<double>(n_) * bytes / us / 1e3;
    std::printf("  %-34s %10.2f us, %2d B an element, %5.0f GB/s, %.3f of the copy, %.2f x empty\n",
                what, us, bytes, rate, rate / ceiling_, us / times.empty);
  }

  Index n_;
  Device device_;
  zero::cuda::Stream stream_;
  Timer timer_;
  std::vector<zero::cuda::Buffer> buffers_;
  std::vector<zero::FlatPiece> pieces_;
  View<bf16, Device> g_;
  View<bf16, Device> p_;
  View<float, Device> w_;
  View<float, Device> s_;
  View<double, Device> record_;
  View<zero::Segment, Device> segments_;
  View<zero::Decision, Device> decision_;
  double ceiling_ = 1;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "--help") == 0) {
    std::puts(
        "bench_cuda_kernels [elements...]\n"
        "Times AdamW, norm, casts and flattening over flat memory against the device's own copy.\n"
        "Default: 100000 100000000 1000000000 elements.");
    return 0;
  }
  try {
    std::vector<Index> sizes;
    for (int i = 1; i < argc; ++i) sizes.push_back(std::stoll(argv[i]));
    if (sizes.empty()) sizes = {100'000, 100'000'000, 1'000'000'000};
    cudaDeviceProp properties{};
    zero::cuda::check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
    int runtime = 0;
    int driver = 0;
    zero::cuda::check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
    zero::cuda::check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
    std::printf("%s, CUDA runtime %d, driver %d\n", properties.name, runtime, driver);
    for (Index n : sizes) Bench(n).run();
    return 0;
  } catch (std::exception const& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
