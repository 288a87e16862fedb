// SPDX-License-Identifier: Apache-2.0
#pragma once
// Driver, runtime, NCCL and GPUs, asked through the libraries that programs would load. No context
// is made on a GPU.

#include <zero/launch/environment.hpp>

#include <zero_environment/facts.hpp>
#include <zero_environment/library.hpp>

#include <array>
#include <cstddef>
#include <filesystem>

namespace zero_environment {

/// The driver's own interface, which needs no toolkit. Its functions return 0 where all is well.
class Driver {
 public:
  explicit Driver(Facts& f) : f_(f) {
    auto* const version = library_.function<int(int*)>("cuDriverGetVersion");
    auto* const start = library_.function<int(unsigned)>("cuInit");
    auto* const count_gpus = library_.function<int(int*)>("cuDeviceGetCount");
    int found = 0;
    if (version == nullptr || start == nullptr || count_gpus == nullptr || version(&found) != 0)
      return;
    f.cuda_driver = found;
    int const failure = start(0);
    if (failure != 0) {
      constexpr int no_gpu = 100;
      if (failure != no_gpu) f.driver_failure = name_of(failure);
      return;
    }
    int count = 0;
    if (count_gpus(&count) != 0) return;
    for (int i = 0; i < count; ++i) f.gpus.push_back(gpu(i, count));
  }

 private:
  std::string name_of(int failure) const {
    char const* name = nullptr;
    auto* const name_failure = library_.function<int(int, char const**)>("cuGetErrorName");
    if (name_failure == nullptr || name_failure(failure, &name) != 0 || name == nullptr)
      return "error " + std::to_string(failure);
    return name;
  }
  Gpu gpu(int ordinal, int count) const {
    Gpu result;
    std::array<char, 256> name{};
    if (auto* const get = library_.function<int(char*, int, int)>("cuDeviceGetName")) {
      get(name.data(), static_cast<int>(name.size()) - 1, ordinal);
      result.name = name.data();
    }
    std::size_t bytes = 0;
    if (auto* const get = library_.function<int(std::size_t*, int)>("cuDeviceTotalMem_v2")) {
      get(&bytes, ordinal);
      result.memory_bytes = static_cast<Index>(bytes);
    }
    if (auto* const get = library_.function<int(int*, int, int)>("cuDeviceGetAttribute")) {
      constexpr int attribute_major = 75;
      constexpr int attribute_minor = 76;
      int major = 0;
      int minor = 0;
      get(&major, attribute_major, ordinal);
      get(&minor, attribute_minor, ordinal);
      result.capability = 10 * major + minor;
    }
    auto* const reaches = library_.function<int(int*, int, int)>("cuDeviceCanAccessPeer");
    for (int other = 0; reaches != nullptr && other < count; ++other) {
      int can = 0;
      if (other != ordinal && reaches(&can, ordinal, other) == 0 && can != 0)
        result.peers.push_back(other);
    }
    return result;
  }

  Facts& f_;
  Library library_{"libcuda.so.1"};
};

/// A library's version, by its function that writes it; nothing where it is not found.
inline std::optional<int> version_of(Library const& library, char const* function) {
  auto* const get = library.function<int(int*)>(function);
  int version = 0;
  if (get == nullptr || get(&version) != 0) return std::nullopt;
  return version;
}

/// @param f whose headers are known
/// @param root in front of /proc
inline void add_gpus(Facts& f, zero::Environment const& environment, std::string const& root) {
  if (auto const visible = environment.find("CUDA_VISIBLE_DEVICES"))
    f.visible_devices = std::string(*visible);
  f.kernel_driver = std::filesystem::exists(root + "/proc/driver/nvidia/version");
  Driver const driver(f);
  // Without a toolkit's headers any release will do.
  std::vector<int> releases{13, 12};
  if (f.cuda_header) releases = {*f.cuda_header / 1000};
  for (int release : releases) {
    Library const runtime("libcudart.so." + std::to_string(release));
    if (!f.cuda_runtime) f.cuda_runtime = version_of(runtime, "cudaRuntimeGetVersion");
  }
  f.nccl = version_of(Library("libnccl.so.2"), "ncclGetVersion");
}

}  // namespace zero_environment
