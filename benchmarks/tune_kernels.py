"""Kernels that the schedule rules were not written for, before and after tuning.

    python benchmarks/tune_kernels.py [--seconds S] [--only WORD ...] [--seed N]

Each row is one kernel by its formula: the default schedule's time, that of the schedule that tuning found in S seconds
(default: 30), their ratio, and what was found. Both run in alternation on one core; the time is the processor's, so
that other programs disturb little. The last line is the geometric mean of the ratios.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from relax import te
from relax.tir import PrimFunc
from relax.tune import Database, tune_tir
from relax.tune.report import shown_record


def function(*tensors: Any) -> PrimFunc:
    """The function of a formula."""
    return te.create_prim_func(list(tensors))


def two_sums(dtype: str = "float32") -> PrimFunc:
    """A product of three matrices as one sum."""
    a, b, c = (te.placeholder(shape, dtype) for shape in ((64, 48), (48, 40), (40, 96)))
    k, l = te.reduce_axis((0, 48)), te.reduce_axis((0, 40))
    return function(a, b, c, te.compute((64, 96), lambda i, j: te.sum(a[i, k] * b[k, l] * c[l, j], axis=[k, l])))


def strided_gather() -> PrimFunc:
    """Products of every fourth row and the row behind it."""
    x, w, k = te.placeholder((4096, 8)), te.placeholder((8, 64)), te.reduce_axis((0, 8))
    return function(x, w, te.compute((1024, 64), lambda i, j: te.sum(x[i * 4, k] * w[k, j] * x[i * 4 + 1, k], axis=k)))


def convolution_5d() -> PrimFunc:
    """A convolution over three dimensions of pixels, with two channel dimensions."""
    x, w = te.placeholder((1, 8, 4, 10, 10, 10)), te.placeholder((16, 8, 4, 3, 3, 3))
    c, t, p, q, r = (te.reduce_axis((0, size)) for size in (8, 4, 3, 3, 3))

    def pixel(n: Any, o: Any, i: Any, j: Any, k: Any) -> Any:
        return te.sum(x[n, c, t, i + p, j + q, k + r] * w[o, c, t, p, q, r], axis=[c, t, p, q, r])

    return function(x, w, te.compute((1, 16, 8, 8, 8), pixel))


def tiny_products() -> PrimFunc:
    """A batch of products of 6 × 6 matrices."""
    a, b, k = te.placeholder((512, 6, 6)), te.placeholder((512, 6, 6)), te.reduce_axis((0, 6))
    return function(a, b, te.compute((512, 6, 6), lambda n, i, j: te.sum(a[n, i, k] * b[n, k, j], axis=k)))


def byte_edges() -> PrimFunc:
    """A product of bytes whose sizes are no multiples of anything."""
    a, b, k = te.placeholder((70, 33), "int8"), te.placeholder((33, 50), "int8"), te.reduce_axis((0, 33))
    value = te.compute((70, 50), lambda i, j: te.sum(a[i, k].astype("int32") * b[k, j].astype("int32"), axis=k))
    return function(a, b, value)


def stencil_2d() -> PrimFunc:
    """Five weighted neighbours."""
    x = te.placeholder((258, 258))
    return function(x, te.compute((256, 256), lambda i, j: (
        x[i, j + 1] * 0.1 + x[i + 2, j + 1] * 0.2 + x[i + 1, j] * 0.3 + x[i + 1, j + 2] * 0.4 + x[i + 1, j + 1] * 0.5
    )))  # fmt: skip


def stencil_3d() -> PrimFunc:
    """All 27 neighbours, by weights in memory."""
    x, w = te.placeholder((66, 66, 66)), te.placeholder((3, 3, 3))
    a, b, c = (te.reduce_axis((0, 3)) for _ in range(3))
    value = te.compute((64, 64, 64), lambda i, j, k: te.sum(x[i + a, j + b, k + c] * w[a, b, c], axis=[a, b, c]))
    return function(x, w, value)


def bilinear() -> PrimFunc:
    """A bilinear layer."""
    x, y, w = te.placeholder((64, 32)), te.placeholder((64, 32)), te.placeholder((24, 32, 32))
    i, j = te.reduce_axis((0, 32)), te.reduce_axis((0, 32))
    return function(x, y, w, te.compute((64, 24), lambda n, o: te.sum(x[n, i] * w[o, i, j] * y[n, j], axis=[i, j])))


def tensordot() -> PrimFunc:
    """A contraction of three dimensions in another order in each operand."""
    a, b = te.placeholder((8, 12, 10, 8)), te.placeholder((12, 8, 16, 10))
    k, l, m = te.reduce_axis((0, 12)), te.reduce_axis((0, 10)), te.reduce_axis((0, 8))
    return function(a, b, te.compute((8, 16), lambda i, j: te.sum(a[i, k, l, m] * b[k, m, j, l], axis=[k, l, m])))


KERNELS: dict[str, Callable[[], PrimFunc]] = {
    "two sums": two_sums, "two sums, float64": lambda: two_sums("float64"), "strided gather": strided_gather,
    "5-D convolution": convolution_5d, "tiny products": tiny_products, "byte edges": byte_edges,
    "2-D stencil": stencil_2d, "3-D stencil": stencil_3d, "bilinear": bilinear, "tensordot": tensordot,
}  # fmt: skip


def main() -> None:
    """Tune the kernels, and print a line for each."""
    console = Console(soft_wrap=True, highlight=False, markup=False)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--only", nargs="*", default=[""])
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    ratios: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, make) in enumerate(KERNELS.items()):
            if not any(word in name for word in options.only):
                continue
            database = Database(Path(folder) / f"{number}.sqlite")
            tune_tir(make(), "llvm", seconds=options.seconds, seed=options.seed, database=database)
            for record in database.records():
                ratios.append(record.gain if record.taken else 1.0)
                console.print(f"{name:18} {ratios[-1]:5.2f}  {shown_record(record).partition(': ')[2]}")
    console.print(f"{'geometric mean':18} {math.exp(sum(map(math.log, ratios)) / max(len(ratios), 1)):5.2f}")


if __name__ == "__main__":
    main()
