// SPDX-License-Identifier: Apache-2.0
// The four stages of ZeRO on several GPUs: torchrun --no_python --nproc_per_node 2 6_nccl_stages.
// Each process is a rank with a GPU of its own, over NCCL; without a launcher the ranks are four
// threads that share this process's GPUs. Every stage ends with the same loss, in less memory.

#include <gpu/mlp.cuh>

#include <cstdio>

namespace {

template <int Stage, class Communicator>
double train(Communicator communicator) {
  auto& device = communicator.device();
  zero::Trainer trainer{example::Mlp(device, 4096), communicator,
                        zero::AdamW{.lr = 1e-4f},   zero::Options{.clip = 1.0f},
                        zero::Sharded<Stage>{},     zero::Bf16Mixed{}};
  for (int step = 0; step < 60; ++step) trainer.step(example::Samples{communicator.rank(), step});
  double const loss = trainer.mean_loss();
  if (communicator.rank() == 0) {
    std::printf("stage %d on %d ranks: loss %.6f, %9lld bytes a rank\n", Stage, communicator.size(),
                loss, static_cast<long long>(trainer.plan().total_bytes()));
  }
  return loss;
}

}  // namespace

int main() {
  if (!example::has_gpu()) return 77;
  bool well = true;
  zero::launch<zero::cuda::Nccl>(4, [&](auto communicator) {
    double const stage_0 = train<0>(communicator);
    for (double loss : {train<1>(communicator), train<2>(communicator), train<3>(communicator)}) {
      // NCCL adds in other orders at other stages: rounding, and what training makes of it.
      if (!(loss < 1.05 * stage_0 && stage_0 < 1.05 * loss) && communicator.rank() == 0)
        well = false;
    }
  });
  return well ? 0 : 1;
}
