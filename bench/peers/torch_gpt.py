# SPDX-License-Identifier: Apache-2.0
"""The GPT of examples/gpt2 in PyTorch, trained by what PyTorch offers: the peer of bench_gpt_step.

usage: torchrun --nproc_per_node N torch_gpt.py MODE SIZE [BATCH [STEPS [WARM_UPS]]]

MODE   ddp    replicas, float weights under bf16 autocast
       zero1  the same with ZeroRedundancyOptimizer
       fsdp2  fully_shard without resharding after forward, bf16 parameters, float shards
       fsdp3  fully_shard
       a trailing c compiles each block
SIZE   124m 350m 774m 1.5b; head and embedding are one tensor, so that the parameters are as many

Prints one line in the form of bench_gpt_step's.
"""
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

CONTEXT, VOCABULARY = 1024, 50304
SIZES = {"124m": (12, 768, 12), "350m": (24, 1024, 16), "774m": (36, 1280, 20), "1.5b": (48, 1600, 25)}


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        split = self.attention(self.ln_1(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.projection(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, layers, width, heads):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, width), nn.Embedding(CONTEXT, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, VOCABULARY, bias=False)
        self.head.weight = self.tokens.weight
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)

    def forward(self, inputs, targets, logits_dtype=torch.float32):
        x = self.tokens(inputs) + self.positions(torch.arange(inputs.shape[1], device=inputs.device))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.to(logits_dtype).view(-1, VOCABULARY), targets.reshape(-1))


def wrapped(model, mode, device):
    """The model and its optimizer as the mode has them, and whether it runs under autocast."""
    def adamw():
        return torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    if mode.startswith("fsdp"):
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)
        for module in [*model.blocks, model]:
            fully_shard(module, mp_policy=policy, reshard_after_forward=mode == "fsdp3")
        return model, adamw(), False
    model = nn.parallel.DistributedDataParallel(model, device_ids=[device.index], gradient_as_bucket_view=True)
    if mode == "zero1":
        from torch.distributed.optim import ZeroRedundancyOptimizer

        return model, ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=1e-4, fused=True), True
    return model, torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True), True


def main():
    mode, size = sys.argv[1], sys.argv[2]
    batch = int(sys.argv[3]) if len(sys.argv) > 3 else 8
    steps = int(sys.argv[4]) if len(sys.argv) > 4 else 10
    warm_ups = int(sys.argv[5]) if len(sys.argv) > 5 else 3
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = torch.device("cuda", rank % torch.cuda.device_count())
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    torch.manual_seed(0)
    with device:
        model = Gpt(*SIZES[size])
    parameters = sum(p.numel() for p in model.parameters())
    if mode.endswith("c"):
        for block in model.blocks:
            block.compile()
    model, optimizer, autocast = wrapped(model, mode.removesuffix("c"), device)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    noise = torch.Generator(device=device).manual_seed(1 + rank)
    times = []
    for _ in range(warm_ups + steps):
        tokens = torch.randint(0, 50257, (batch, CONTEXT + 1), device=device, generator=noise)
        torch.cuda.synchronize()
        start = time.perf_counter()
        with torch.autocast("cuda", torch.bfloat16, enabled=autocast):
            loss = model(tokens[:, :-1], tokens[:, 1:])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    median = statistics.median(times[warm_ups:])
    if rank == 0:
        tokens = batch * CONTEXT
        print(
            f"{size:<5} PyTorch {mode:<14} {median * 1e3:8.1f} ms  {world * tokens / median:8.0f} tokens/s  "
            f"peak {torch.cuda.max_memory_allocated() / 2**30:6.2f} GiB  "
            f"MFU {6 * parameters * tokens / median / 989e12 * 100:4.1f} %  loss {loss.item():.4f}",
            flush=True,
        )
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
