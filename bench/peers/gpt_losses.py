# SPDX-License-Identifier: Apache-2.0
"""Losses of the GPT beside PyTorch's, from the same weights and tokens.

usage: python3 gpt_losses.py BIN/bench_gpt_losses [SIZE [BATCH [STEPS [RATE]]]]

PyTorch trains in double, which is taken for the truth, in fp32 with TF32 off, and in bf16: parameters in bf16 beside float
weights, as fully_shard's mixed precision and as ours, and by autocast, which keeps what lies between the blocks in float. For
each precision the largest distance of a step's loss from the double run is printed, with the ratio of ours to PyTorch's; ends
with 1 where ours is more than twice that of PyTorch in the same precision. AdamW without weight decay, gradients clipped to a
norm of 1. The rate (3e-5) is one at which the loss falls at every step: where it leaps, as at 3e-4 without a warm-up, any two
runs part by whole units.
"""
import copy
import subprocess
import sys

import numpy
import torch
from torch import nn

from torch_gpt import CONTEXT, SIZES, VOCABULARY, Gpt


def mix(x):
    """The library's zero::mix, on arrays of 64-bit numbers, which wrap."""
    with numpy.errstate(over="ignore"):
        x = x + numpy.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
        return x ^ (x >> numpy.uint64(31))


def noise_bits(seed, tensor, elements):
    seeds = numpy.array([seed], dtype=numpy.uint64)
    return mix(mix(mix(mix(seeds) ^ numpy.uint64(tensor))) ^ elements)


def normal(seed, tensor, count):
    """zero::noise_normal of elements 0 to count - 1."""
    first = noise_bits(seed, tensor, numpy.arange(count, dtype=numpy.uint64))
    u = ((first >> numpy.uint64(11)).astype(numpy.float64) + 0.5) / 9007199254740992.0
    v = (mix(first) >> numpy.uint64(11)).astype(numpy.float64) / 9007199254740992.0
    return numpy.sqrt(-2.0 * numpy.log(u)) * numpy.cos(6.283185307179586476925 * v)


def fill(model, layers):
    """Initial values of examples/gpt2/units.hpp: tensors are numbered in its order; a Conv1D weight is a Linear's transposed."""
    residual = numpy.float32(0.02) / numpy.sqrt(numpy.float32(2.0) * numpy.float32(layers))

    def matrix(parameter, number, deviation, transposed=False):
        shape = tuple(parameter.shape[::-1]) if transposed else tuple(parameter.shape)
        values = (numpy.float64(numpy.float32(deviation)) * normal(1, number, parameter.numel())).astype(numpy.float32)
        tensor = torch.from_numpy(values.reshape(shape))
        with torch.no_grad():
            parameter.copy_(tensor.T if transposed else tensor)

    matrix(model.tokens.weight, 0, 0.02)
    matrix(model.positions.weight, 1, 0.02)
    for i, block in enumerate(model.blocks):
        start = 2 + 12 * i
        matrix(block.attention.weight, start + 2, 0.02, True)
        matrix(block.projection.weight, start + 4, residual, True)
        matrix(block.up.weight, start + 8, 0.02, True)
        matrix(block.down.weight, start + 10, residual, True)
        for linear in (block.attention, block.projection, block.up, block.down):
            nn.init.zeros_(linear.bias)


def tokens_of(step, batch):
    """As bench_gpt_losses makes them: [batch, CONTEXT + 1]."""
    place = numpy.arange(batch * (CONTEXT + 1), dtype=numpy.uint64)
    first = noise_bits(7, step, place // numpy.uint64(4)) % numpy.uint64(1000)
    return torch.from_numpy((first + place % numpy.uint64(4)).astype(numpy.int64).reshape(batch, CONTEXT + 1))


def train(size, batch, steps, rate, kind):
    """Losses of a run; kind: double, fp32, bf16, autocast."""
    layers = SIZES[size][0]
    model = Gpt(*SIZES[size])
    fill(model, layers)
    double = kind == "double"
    model = model.to("cuda", torch.float64 if double else torch.float32)
    rounded = copy.deepcopy(model).to(torch.bfloat16) if kind == "bf16" else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0, fused=not double)
    losses = []
    for step in range(steps):
        tokens = tokens_of(step, batch).cuda()
        if rounded is not model:
            with torch.no_grad():
                for mine, master in zip(rounded.parameters(), model.parameters(), strict=True):
                    mine.copy_(master)
        with torch.autocast("cuda", torch.bfloat16, enabled=kind == "autocast"):
            loss = rounded(tokens[:, :-1], tokens[:, 1:], torch.float64 if double else torch.float32)
        loss.backward()
        if rounded is not model:
            for mine, master in zip(rounded.parameters(), model.parameters(), strict=True):
                master.grad = mine.grad.float()
            rounded.zero_grad(set_to_none=True)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
    return losses


def ours(program, precision, size, batch, steps, rate):
    arguments = [program, precision, size, str(batch), str(steps), str(rate)]
    lines = subprocess.run(arguments, check=True, capture_output=True, text=True)
    return [float(line) for line in lines.stdout.split()]


def main():
    program, size = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "124m"
    batch = int(sys.argv[3]) if len(sys.argv) > 3 else 2
    steps = int(sys.argv[4]) if len(sys.argv) > 4 else 50
    rate = float(sys.argv[5]) if len(sys.argv) > 5 else 3e-5
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    truth = train(size, batch, steps, rate, "double")
    print(
        f"{size}, vocabulary {VOCABULARY}, batch {batch}, {steps} steps, rate {rate:g}: "
        f"double {truth[0]:.6f} -> {truth[-1]:.6f}, largest rise of a step {max(b - a for a, b in zip(truth, truth[1:])):.3f}"
    )
    well = True
    for precision, peers in (("fp32", ("fp32",)), ("bf16", ("bf16", "autocast"))):
        mine = ours(program, precision, size, batch, steps, rate)
        runs = {"ours": mine} | {f"PyTorch {kind}": train(size, batch, steps, rate, kind) for kind in peers}
        distances = {who: max(abs(a - b) for a, b in zip(losses, truth, strict=True)) for who, losses in runs.items()}
        for who, losses in runs.items():
            ratio = distances["ours"] / distances[who]
            print(
                f"{precision} {who:<16} {losses[0]:.6f} -> {losses[-1]:.6f}, at most {distances[who]:.3e} from double"
                + ("" if who == "ours" else f", ratio {ratio:.2f}")
            )
        well = well and distances["ours"] <= 2 * distances[f"PyTorch {precision}"]
    print("within twice PyTorch's own distance" if well else "beyond twice PyTorch's own distance")
    sys.exit(0 if well else 1)


if __name__ == "__main__":
    main()
