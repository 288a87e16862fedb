// SPDX-License-Identifier: Apache-2.0
// What NCCL's ways to hold buffers are worth between the GPUs of this process: in-place all_gather
// and reduce_scatter of bf16 from plain, registered and symmetric memory, with NCCL's own choice of
// thread blocks and with none (copy engines), each alone and beside a kernel that keeps every
// multiprocessor busy. A stream and a communicator a GPU, as the library has them.

#include <zero/core/dtype.hpp>
#include <zero/cuda/nccl_status.hpp>
#include <zero/cuda/status.hpp>

#include <nccl.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

namespace {

using zero::cuda::check;

enum class Memory { plain, registered, symmetric };

struct Way {
  char const* name;
  Memory memory;
  int policy;
};

struct Gpu {
  ncclComm_t communicator = nullptr;
  cudaStream_t stream = nullptr;
  cudaStream_t busy = nullptr;
  cudaEvent_t begin = nullptr, end = nullptr, busy_begin = nullptr, busy_end = nullptr;
  void* memory = nullptr;
};

__global__ void busy_kernel(float* out, int rounds) {
  float a = static_cast<float>(threadIdx.x);
  float b = 1;
  for (int i = 0; i < rounds; ++i) {
    a = a * 1.0001f + b;
    b = b * 0.9999f + a;
  }
  if (a == 12345.0f) *out = b;
}

constexpr std::size_t largest = std::size_t{512} << 20;  // bytes of the whole range

class Bench {
 public:
  Bench(Way const& way, int gpus) : way_(way), gpus_(static_cast<std::size_t>(gpus)) {
    ncclUniqueId id;
    check(ncclGetUniqueId(&id), "ncclGetUniqueId");
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    if (way.policy != NCCL_CTA_POLICY_DEFAULT) config.CTAPolicy = way.policy;
    check(ncclGroupStart(), "ncclGroupStart");
    for_each([&](Gpu& g, int i) {
      check(ncclCommInitRankConfig(&g.communicator, gpus, id, i, &config),
            "ncclCommInitRankConfig");
    });
    check(ncclGroupEnd(), "ncclGroupEnd");
    for_each([&](Gpu& g, int) {
      check(cudaStreamCreateWithFlags(&g.stream, cudaStreamNonBlocking), "stream");
      check(cudaStreamCreateWithFlags(&g.busy, cudaStreamNonBlocking), "stream");
      for (cudaEvent_t* e : {&g.begin, &g.end, &g.busy_begin, &g.busy_end})
        check(cudaEventCreate(e), "event");
      if (way.memory == Memory::plain) {
        check(cudaMalloc(&g.memory, largest), "cudaMalloc");
      } else {
        check(ncclMemAlloc(&g.memory, largest), "ncclMemAlloc");
      }
      check(cudaMemset(g.memory, 0, largest), "cudaMemset");
    });
    check(ncclGroupStart(), "ncclGroupStart");
    for_each([&](Gpu& g, int) {
      void* handle = nullptr;
      ncclWindow_t window = nullptr;
      if (way.memory == Memory::registered)
        check(ncclCommRegister(g.communicator, g.memory, largest, &handle), "ncclCommRegister");
      if (way.memory == Memory::symmetric)
        check(ncclCommWindowRegister(g.communicator, g.memory, largest, &window,
                                     NCCL_WIN_COLL_SYMMETRIC),
              "ncclCommWindowRegister");
    });
    check(ncclGroupEnd(), "ncclGroupEnd");
  }
  ~Bench() {  // ends with the process; what failed was told where it was waited for
    for (Gpu& g : gpus_) zero::cuda::ignore(cudaStreamSynchronize(g.stream));
  }

  void run(std::size_t bytes, bool gathers) {
    double const alone = time(bytes, gathers, 0).transfer;
    Times const beside = time(bytes, gathers, busy_rounds());
    double const sent = static_cast<double>(bytes) * static_cast<double>(gpus_.size() - 1) /
                        static_cast<double>(gpus_.size());
    std::printf(
        "%-26s %-14s %5zu MiB: alone %8.1f us, %6.1f GB/s; beside a kernel %8.1f us, which "
        "takes %.3f x its time\n",
        way_.name, gathers ? "all_gather" : "reduce_scatter", bytes >> 20, alone,
        sent / alone / 1e3, beside.transfer, beside.kernel);
    std::fflush(stdout);
  }

 private:
  struct Times {
    double transfer;
    double kernel;
  };

  template <class F>
  void for_each(F f) {
    for (std::size_t i = 0; i < gpus_.size(); ++i) {
      check(cudaSetDevice(static_cast<int>(i)), "cudaSetDevice");
      f(gpus_[i], static_cast<int>(i));
    }
  }
  /// Rounds of the busy kernel that take about three milliseconds on an H200.
  static int busy_rounds() { return 400000; }

  Times time(std::size_t bytes, bool gathers, int rounds) {
    std::vector<double> transfers;
    std::vector<double> kernels;
    std::size_t const part = bytes / gpus_.size();
    for (int repeat = 0; repeat < 14; ++repeat) {
      // Every other repeat the kernel runs alone, so that its slow-down is against itself.
      bool const with_transfer = rounds == 0 || repeat % 2 == 0;
      if (rounds > 0) {
        for_each([&](Gpu& g, int) {
          check(cudaEventRecord(g.busy_begin, g.busy), "cudaEventRecord");
          busy_kernel<<<132 * 2, 1024, 0, g.busy>>>(static_cast<float*>(g.memory), rounds);
          check(cudaGetLastError(), "busy_kernel");
          check(cudaEventRecord(g.busy_end, g.busy), "cudaEventRecord");
        });
      }
      if (with_transfer) {
        for_each(
            [&](Gpu& g, int) { check(cudaEventRecord(g.begin, g.stream), "cudaEventRecord"); });
        for (int times = 0; times < 4; ++times) {
          check(ncclGroupStart(), "ncclGroupStart");
          for_each([&](Gpu& g, int i) {
            auto* const all = static_cast<char*>(g.memory);
            auto* const mine = all + static_cast<std::size_t>(i) * part;
            check(gathers
                      ? ncclAllGather(mine, all, part / 2, ncclBfloat16, g.communicator, g.stream)
                      : ncclReduceScatter(all, mine, part / 2, ncclBfloat16, ncclSum,
                                          g.communicator, g.stream),
                  "collective");
          });
          check(ncclGroupEnd(), "ncclGroupEnd");
        }
        for_each([&](Gpu& g, int) { check(cudaEventRecord(g.end, g.stream), "cudaEventRecord"); });
      }
      double slowest = 0;
      double kernel = 0;
      for_each([&](Gpu& g, int) {
        float ms = 0;
        check(cudaStreamSynchronize(g.stream), "transfer");
        check(cudaStreamSynchronize(g.busy), "kernel");
        if (with_transfer) {
          check(cudaEventElapsedTime(&ms, g.begin, g.end), "time");
          slowest = std::max(slowest, static_cast<double>(ms) * 250);
        }
        if (rounds > 0) {
          check(cudaEventElapsedTime(&ms, g.busy_begin, g.busy_end), "time");
          kernel = std::max(kernel, static_cast<double>(ms));
        }
      });
      if (repeat < 4) continue;
      if (with_transfer) transfers.push_back(slowest);
      if (rounds > 0) (with_transfer ? kernels : alone_).push_back(kernel);
    }
    double const slow_down = rounds > 0 ? median(kernels) / median(alone_) : 1;
    alone_.clear();
    return {median(transfers), slow_down};
  }
  static double median(std::vector<double> v) {
    std::sort(v.begin(), v.end());
    return v[v.size() / 2];
  }

  Way way_;
  std::vector<Gpu> gpus_;
  std::vector<double> alone_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "--help") == 0) {
    std::puts("bench_nccl_buffers [MEBIBYTES...] (4 64 256): between all GPUs of this machine");
    return 0;
  }
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus < 2) {
    std::puts("skipped: fewer than two GPUs");
    return 77;
  }
  std::vector<std::size_t> sizes;
  for (int i = 1; i < argc; ++i) sizes.push_back(std::stoull(argv[i]) << 20);
  if (sizes.empty()) sizes = {std::size_t{4} << 20, std::size_t{64} << 20, std::size_t{256} << 20};
  int version = 0;
  check(ncclGetVersion(&version), "ncclGetVersion");
  std::printf("%d GPUs, NCCL %d\n", gpus, version);
  for (Way const& way :
       {Way{"plain", Memory::plain, NCCL_CTA_POLICY_DEFAULT},
        Way{"registered", Memory::registered, NCCL_CTA_POLICY_DEFAULT},
        Way{"symmetric", Memory::symmetric, NCCL_CTA_POLICY_DEFAULT},
        Way{"symmetric, no thread block", Memory::symmetric, NCCL_CTA_POLICY_ZERO}}) {
    try {
      Bench bench(way, gpus);
      for (bool gathers : {true, false}) {
        for (std::size_t bytes : sizes) bench.run(bytes, gathers);
      }
    } catch (std::exception const& e) {
      std::printf("%-26s %s\n", way.name, e.what());
    }
  }
  return 0;
}
