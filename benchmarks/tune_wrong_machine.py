"""Kernels on a machine that is described wrongly: does tuning find what the rules would do with the right description?

    python benchmarks/tune_wrong_machine.py [--seconds S] [--only WORD ...] [--seed N] [--pairs N] [--width]

The wrong description has half of each cache and the fewest vector registers of the architecture; with --width, also
vectors of half the width, for which code is generated as well. Each row is a
kernel: the time of the rules' loops for the right description; the speed, relative to that, of the rules' loops for
the wrong one, and of the loops that tuning found in S seconds (default: 40) with the wrong one. All three run in turn
in one process on one core, by the processor's time; the speed is the median over the rounds. The last line has
geometric means.
"""

from __future__ import annotations

import argparse
import math
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from relax import te, topi
from relax.codegen import build_module, resolve
from relax.ir import structural_equal
from relax.schedules import cpu, schedule
from relax.target import Caches, Target
from relax.tir import PrimFunc
from relax.tune import Database, tune_tir
from relax.tune.kernels import random_arguments
from relax.tune.report import shown_record

SAMPLE = 0.01
"""Seconds of a sample, at least."""


def wrong_description(right: Target, has_width: bool = False) -> Target:
    """Return a resolved target with half of its caches, few vector registers, and with `has_width` half the width."""
    machine = right.machine
    caches = Caches(machine.caches.l1 // 2, machine.caches.l2 // 2, machine.caches.l3 // 2)
    registers = min(v.registers for v in machine.isa.vectors)
    bits = max(machine.vector_bits // 2, 128) if has_width else machine.vector_bits
    return right.with_machine(replace(machine, caches=caches, vector_registers=registers, vector_bits=bits))


def product(rows: int, columns: int, depth: int) -> PrimFunc:
    """A product of two matrices."""
    a, b, k = te.placeholder((rows, depth)), te.placeholder((depth, columns)), te.reduce_axis((0, depth))
    return te.create_prim_func([a, b, te.compute((rows, columns), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k))])


def convolution(inputs: int, outputs: int, pixels: int, size: int, stride: int = 1) -> PrimFunc:
    """A channels-first convolution."""
    x, w = te.placeholder((1, inputs, pixels, pixels)), te.placeholder((outputs, inputs, size, size))
    return te.create_prim_func([x, w, topi.nn.conv2d(x, w, stride, size // 2, 1, "NCHW")])


def softmax() -> PrimFunc:
    """A softmax of rows."""
    x = te.placeholder((256, 1500))
    return te.create_prim_func([x, topi.nn.softmax(x)])


KERNELS: dict[str, Callable[[], PrimFunc]] = {
    "product": lambda: product(384, 512, 768),
    "deep product": lambda: product(96, 256, 4096),
    "few rows": lambda: product(12, 1024, 1024),
    "3×3 convolution": lambda: convolution(64, 64, 28, 3),
    "5×5 convolution": lambda: convolution(32, 64, 28, 5, 2),
    "1×1 convolution": lambda: convolution(128, 128, 28, 1),
    "4×4 convolution": lambda: convolution(64, 96, 14, 4),
    "softmax": softmax,
}


def relative_speeds(kernels: Sequence[Callable[[], object]], pairs: int) -> tuple[float, list[float]]:
    """Return the seconds of the first kernel, and the speeds of all relative to it: medians over `pairs` rounds."""
    start = time.process_time()
    kernels[0]()
    calls = max(math.ceil(SAMPLE / max(time.process_time() - start, 1e-7)), 1)
    rounds: list[list[float]] = []
    for number in range(pairs + 1):
        seconds = [0.0] * len(kernels)
        shift = number % len(kernels)  # no kernel is always the one behind a given other
        for position in [*range(shift, len(kernels)), *range(shift)]:
            start = time.process_time()
            for _ in range(calls):
                kernels[position]()
            seconds[position] = (time.process_time() - start) / calls
        rounds.append(seconds)
    measured = rounds[1:]
    ratios = [statistics.median(row[0] / row[i] for row in measured) for i in range(len(kernels))]
    return statistics.median(row[0] for row in measured), ratios


def compiled(func: PrimFunc, target: Target, arguments: Sequence[Any]) -> Callable[[], object]:
    """Schedule and compile a kernel; return a call of it."""
    kernel = build_module({"main": schedule(func, target, cpu.rules_for(target))}, target)["main"]
    return lambda: kernel(*arguments)


def main() -> None:
    """Tune the kernels by the wrong description, and print a line for each."""
    console = Console(soft_wrap=True, highlight=False, markup=False)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=40.0)
    parser.add_argument("--only", nargs="*", default=[""])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pairs", type=int, default=31)
    parser.add_argument("--width", action="store_true")
    options = parser.parse_args()
    right = resolve("llvm -num-cores=1")
    wrong = wrong_description(right, options.width)
    console.print(f"{'':16} {'right':>9} {'wrong':>7} {'tuned':>7}")
    rows: list[list[float]] = []
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, make) in enumerate(KERNELS.items()):
            if not any(word in name for word in options.only):
                continue
            func = make()
            if structural_equal(*(schedule(func, target, cpu.rules_for(target)) for target in (right, wrong))):
                console.print(f"{name:16} the rules choose the same loops")
                continue
            database = Database(Path(folder) / f"{number}.sqlite")
            tune_tir(func, wrong, seconds=options.seconds, seed=options.seed, database=database)
            taken = [record for record in database.records() if record.taken]
            chosen = func.with_attr("relax.schedule", taken[0].choice) if taken else func
            arguments = random_arguments(func, {}, 0)
            variants = [(func, right), (func, wrong), (chosen, wrong)]
            results = np.zeros_like(arguments[-1])
            kernels = [compiled(one, target, [*arguments[:-1], results]) for one, target in variants]
            seconds, speeds = relative_speeds(kernels, options.pairs)
            rows.append(speeds[1:])
            words = shown_record(taken[0]).partition(" by ")[2] if taken else "the default schedule"
            console.print(f"{name:16} {seconds * 1e3:6.2f} ms {speeds[1]:7.2f} {speeds[2]:7.2f}  {words}")
    means = [math.exp(statistics.fmean(math.log(row[i]) for row in rows)) for i in (0, 1)]
    console.print(f"{'geometric mean':16} {'':9} {means[0]:7.2f} {means[1]:7.2f}")


if __name__ == "__main__":
    main()
