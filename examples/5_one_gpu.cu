// SPDX-License-Identifier: Apache-2.0
// One rank on one GPU: a model written in CUDA, trained in bf16 with float master weights. What a
// program changes against the host is the communicator, and that nvcc compiles it.

#include <gpu/mlp.cuh>

#include <cstdio>

int main() {
  if (!example::has_gpu()) return 77;
  zero::SingleRank<zero::cuda::Device> communicator;
  zero::Trainer trainer{example::Mlp(communicator.device(), 512), communicator,
                        zero::AdamW{.lr = 5e-4f, .weight_decay = 0}, zero::Options{.clip = 1.0f},
                        zero::Bf16Mixed{}};
  double first = 0;
  double last = 0;
  for (int step = 0; step <= 400; ++step) {
    trainer.step(example::Samples{0, step});
    if (step % 100 != 0) continue;
    last = trainer.loss();
    if (step == 0) first = last;
    std::printf("step %3d, loss %.5f\n", step, last);
  }
  std::printf("GPU memory: %lld bytes planned, %lld at most\n",
              static_cast<long long>(trainer.plan().total_bytes()),
              static_cast<long long>(communicator.device().ledger().peak_bytes()));
  return last < first / 2 ? 0 : 1;
}
