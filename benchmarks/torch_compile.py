"""Measure torch.compile(backend="relax") beside inductor and eager torch.

    python benchmarks/torch_compile.py [--threads 1 2] [--models mlp cnn attention] [--repeat 5]

Each row is one model and one number of threads: seconds of the first calls at changing sizes (compilations counted in),
milliseconds of a call after that (geometric mean over the sizes), and milliseconds of a step of training.
"""

from __future__ import annotations

import argparse
import copy
import math
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

import relax.frontend.torch  # noqa: F401  (which makes the backend known)


class Attention(torch.nn.Module):
    """Self-attention between two linear layers."""

    def __init__(self, width: int = 256, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.norm = torch.nn.LayerNorm(width)
        self.into, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.into(self.norm(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(y.transpose(1, 2).flatten(2))


def perceptron() -> torch.nn.Module:
    """Three layers of 512."""
    layers = [torch.nn.Linear(512, 512), torch.nn.GELU(), torch.nn.LayerNorm(512)] * 3
    return torch.nn.Sequential(*map(copy.deepcopy, layers))


def images() -> torch.nn.Module:
    """Two convolutions with batch norms."""
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 32, 3, padding=1), torch.nn.BatchNorm2d(32), torch.nn.ReLU(),
        torch.nn.Conv2d(32, 64, 3, stride=2), torch.nn.BatchNorm2d(64), torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(64, 10),
    )  # fmt: skip


MODELS: dict[str, tuple[Callable[[], torch.nn.Module], list[Sequence[int]]]] = {
    "mlp": (perceptron, [(4, 512), (64, 512), (33, 512)]),
    "cnn": (images, [(2, 3, 32, 32), (5, 3, 32, 32), (3, 3, 64, 64)]),
    "attention": (Attention, [(2, 64, 256), (4, 33, 256), (3, 128, 256)]),
}


def show(line: str) -> None:
    """Write a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def best(call: Callable[[], Any], repeat: int) -> float:
    """Return the least seconds of several calls."""
    times: list[float] = []
    for _ in range(repeat):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def measured(module: torch.nn.Module, shapes: list[Sequence[int]], backend: str, repeat: int) -> tuple[float, ...]:
    """Return seconds of first calls, seconds of a call, seconds of first steps, and seconds of a step."""
    torch._dynamo.reset()
    inputs = [torch.randn(*shape) for shape in shapes]
    called = module if backend == "eager" else torch.compile(module, backend=backend, dynamic=True)

    def infer() -> None:
        with torch.no_grad():
            for x in inputs:
                called(x)

    def step() -> None:
        for x in inputs:
            called(x).square().mean().backward()

    results: list[float] = []
    for training, run in ((False, infer), (True, step)):
        module.train(training)
        start = time.perf_counter()
        run()
        results += [time.perf_counter() - start, best(run, repeat) / len(inputs)]
    return tuple(results)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--repeat", type=int, default=5)
    given = parser.parse_args()
    show(
        f"{'model':10} {'threads':>7} {'backend':10} {'compile s':>10} {'call ms':>9} {'compile s':>10} {'step ms':>9}"
    )
    gains: list[float] = []
    for threads in given.threads:
        torch.set_num_threads(threads)
        for name in given.models:
            make, shapes = MODELS[name]
            calls: dict[str, float] = {}
            for backend in ("eager", "inductor", "relax"):
                torch.manual_seed(0)
                first, call, first_step, step = measured(make(), shapes, backend, given.repeat)
                calls[backend] = call
                show(
                    f"{name:10} {threads:7} {backend:10} {first:10.2f} {call * 1e3:9.3f} "
                    f"{first_step:10.2f} {step * 1e3:9.3f}"
                )
            gains.append(calls["inductor"] / calls["relax"])
    show(f"inference, geometric mean beside inductor: {math.exp(sum(map(math.log, gains)) / len(gains)):.2f}")


if __name__ == "__main__":
    main()
