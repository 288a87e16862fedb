# SPDX-License-Identifier: Apache-2.0
"""AdamW on the host beside PyTorch's fused AdamW on CPU tensors: the same parameters, threads and machine, in turns.

usage: python3 host_adam.py BIN/bench_update [ROUNDS [ELEMENTS]]

Each round runs bench_update, then PyTorch with as many threads. PyTorch's fused AdamW wants gradients of the parameters' type, so
that 16-bit gradients are converted first, into a tensor that is kept; ours reads them as they are, and writes parameters in bf16
besides, which PyTorch is spared in what is compared. Targets: at least PyTorch's speed in fp32, and 1.2 times it with 16-bit
gradients in. Ends with 1 where one is missed.
"""
import json
import statistics
import subprocess
import sys
import time

STEPS, WARM_UPS = 20, 3


def ours(program, elements):
    """Seconds of an update by all threads, in fp32 and with bf16 gradients and parameters, and the number of threads."""
    arguments = [program, "--json", "--rounds", "9", "--milliseconds", "60", "--elements", str(elements)]
    lines = subprocess.run(arguments, check=True, capture_output=True, text=True).stdout.splitlines()
    variants = {line["variant"]: line for line in map(json.loads, lines) if "variant" in line}
    threads = max(int(name.split()[-2]) for name in variants if name.startswith("stream"))
    wide = variants[f"AdamW, {threads} threads"]["median_s"]
    short = variants[f"AdamW, bf16 gradients and parameters, {threads} threads"]["median_s"]
    return wide, short, threads


class Peer:
    """PyTorch's AdamW over one tensor, made once."""

    def __init__(self, torch, elements, threads):
        torch.set_num_threads(threads)
        self.torch = torch
        pattern = torch.arange(elements) % 101 - 50
        self.parameter = torch.nn.Parameter(torch.zeros(elements))
        self.parameter.grad = 1e-3 * pattern.float()
        self.short = self.parameter.grad.to(torch.bfloat16)
        self.rounded = torch.zeros(elements, dtype=torch.bfloat16)
        self.optimizer = torch.optim.AdamW([self.parameter], lr=1e-3, fused=True)

    def wide(self):
        self.optimizer.step()

    def converted(self):
        self.parameter.grad.copy_(self.short)
        self.optimizer.step()

    def converted_and_rounded(self):
        self.converted()
        with self.torch.no_grad():
            self.rounded.copy_(self.parameter)

    @staticmethod
    def seconds(work):
        times = []
        for _ in range(WARM_UPS + STEPS):
            start = time.perf_counter()
            work()
            times.append(time.perf_counter() - start)
        return statistics.median(times[WARM_UPS:])


def main():
    program = sys.argv[1]
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    elements = int(sys.argv[3]) if len(sys.argv) > 3 else (1 << 25) + 192
    try:
        import torch
    except ImportError:
        print("skipped: there is no PyTorch to stand beside bench_update")
        sys.exit(77)
    threads = ours(program, elements)[2]
    peer = Peer(torch, elements, threads)
    seen = []
    for _ in range(rounds):
        time.sleep(0.5)  # PyTorch's threads wait for work a while before they sleep
        wide, short, _ = ours(program, elements)
        seen.append((wide, short, *map(peer.seconds, (peer.wide, peer.converted, peer.converted_and_rounded))))
    names = (
        "ours, fp32",
        "ours, bf16 gradients in, bf16 parameters out",
        "PyTorch fused, fp32",
        "PyTorch fused, bf16 gradients converted",
        "PyTorch fused, the same, and parameters rounded to bf16",
    )
    print(f"AdamW on the host: {elements} parameters, {threads} threads, PyTorch {torch.__version__}, {rounds} rounds")
    for name, times in zip(names, zip(*seen), strict=True):
        median = statistics.median(times)
        print(f"  {name:<56} {median * 1e3:8.2f} ms  {elements / median * 1e-9:6.2f} G parameters/s")
    well = True
    for what, target, mine, other in (("fp32", 1.0, 0, 2), ("16-bit gradients in", 1.2, 1, 3), ("and 16-bit parameters out", 0, 1, 4)):
        ratios = sorted(row[other] / row[mine] for row in seen)
        ratio = statistics.median(ratios)
        met = "" if target == 0 else f", target {target}, {'met' if ratio >= target else 'MISSED'}"
        print(f"  {what}: {ratio:.3f} x PyTorch's speed ({ratios[0]:.3f} to {ratios[-1]:.3f}){met}")
        well = well and ratio >= target
    sys.exit(0 if well else 1)


if __name__ == "__main__":
    main()
