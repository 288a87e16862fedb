// SPDX-License-Identifier: Apache-2.0
// The main function of the programs whose tests need a GPU: without one, they are skipped.
#define DOCTEST_CONFIG_IMPLEMENT
#include <cuda_runtime_api.h>

#include <doctest/doctest.h>

#include <cstdio>
#include <string_view>

int main(int argc, char** argv) {
  bool lists = false;
  for (int i = 1; i < argc; ++i) {
    std::string_view const argument = argv[i];
    lists = lists || argument.find("list-test-cases") != argument.npos;
  }
  int gpus = 0;
  if (!lists && (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0)) {
    std::puts("skipped: this process sees no GPU");
    return 77;
  }
  return doctest::Context(argc, argv).run();
}
