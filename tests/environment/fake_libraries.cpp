// SPDX-License-Identifier: Apache-2.0
// Libraries of NVIDIA's and of an MPI as a test wants them: every function says what a variable of
// the environment says, and fails where that is not set. Linked as libcuda, libcudart and libnccl.
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

/// A variable as a number, or -1.
int number(char const* name) {
  char const* const text = std::getenv(name);
  return text == nullptr ? -1 : std::atoi(text);
}
int say(char const* name, int* to) {
  *to = number(name);
  return *to < 0 ? 999 : 0;
}

}  // namespace

extern "C" {

int cuDriverGetVersion(int* version) { return say("PLANTED_DRIVER", version); }
int cuInit(unsigned) {
  int const failure = number("PLANTED_DRIVER_FAILURE");
  return failure < 0 ? 0 : failure;
}
int cuGetErrorName(int failure, char const** name) {
  *name = failure == 803 ? "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH" : nullptr;
  return *name == nullptr ? 1 : 0;
}
int cuDeviceGetCount(int* count) { return say("PLANTED_GPUS", count); }
int cuDeviceGetName(char* name, int size, int ordinal) {
  std::strncpy(name, ("Planted " + std::to_string(ordinal)).c_str(),
               static_cast<std::size_t>(size));
  return 0;
}
int cuDeviceTotalMem_v2(std::size_t* bytes, int) {
  *bytes = std::size_t{80} << 30;
  return 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
  int const capability = number("PLANTED_CAPABILITY");
  *value = attribute == 75 ? capability / 10 : capability % 10;
  return 0;
}
int cuDeviceCanAccessPeer(int* can, int from, int to) {
  *can = from / 2 == to / 2 ? 1 : 0;  // pairs
  return 0;
}
int cudaRuntimeGetVersion(int* version) { return say("PLANTED_RUNTIME", version); }
int ncclGetVersion(int* version) { return say("PLANTED_NCCL", version); }

}  // extern "C"
