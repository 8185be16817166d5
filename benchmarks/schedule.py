"""The steps of docs/schedule-a-kernel.md: a product of two matrices of 1,024 x 1,024, and its speed after each step.

    python benchmarks/schedule.py [--repeat N]

The output is GFLOP/s on one thread, the share of the fastest that one core multiplies and adds (measured by a loop
whose operands stay in registers), and for the last step the speed on all threads.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from typing import cast

import numpy as np
import tvm_ffi
from rich.console import Console
from rich.table import Table

from relax import te
from relax.codegen import build_module
from relax.runtime import num_threads, set_num_threads
from relax.script import from_source
from relax.tir import PrimFunc, Schedule

N = 1024
ROWS, COLUMNS, LANES = 8, 32, 16
FASTEST = f"""
from relax.script import tir as T

@T.prim_func
def main(A: T.Buffer(({LANES * 2},), "float32"), C: T.Buffer(({ROWS}, {COLUMNS}), "float32")):
    T.func_attr({{"tir.noalias": True}})
    acc = T.alloc_buffer(({ROWS}, {COLUMNS}), scope="local")
    for i in T.unroll({ROWS}):
        for j in T.unroll({COLUMNS // LANES}):
            for l in T.vectorized({LANES}):
                acc[i, j * {LANES} + l] = T.float32(0)
    for k in range(1000000):
        for i in T.unroll({ROWS}):
            for j in T.unroll({COLUMNS // LANES}):
                for l in T.vectorized({LANES}):
                    acc[i, j * {LANES} + l] = T.fma(acc[i, j * {LANES} + l], A[l], A[{LANES} + l])
    for i in T.unroll({ROWS}):
        for j in T.unroll({COLUMNS // LANES}):
            for l in T.vectorized({LANES}):
                C[i, j * {LANES} + l] = acc[i, j * {LANES} + l]
"""


def product() -> PrimFunc:
    """The product of two matrices, as its formula says it."""
    a, b = te.placeholder((N, N), name="A"), te.placeholder((N, N), name="B")
    k = te.reduce_axis((0, N), "k")
    return te.create_prim_func(
        [a, b, te.compute((N, N), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), "C")]
    )


def steps() -> Iterator[tuple[str, Schedule]]:
    """The schedule after each step, with the step's name."""
    sch = Schedule(product())
    yield "as written", sch
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    io, ii = sch.split(i, [None, ROWS])
    jo, ji = sch.split(j, [None, COLUMNS])
    sch.reorder(jo, io, k, ii, ji)
    yield "tiles", sch
    sch.parallel(jo)
    copy = sch.cache_write(block, 0, "local")
    sch.reverse_compute_at(copy, io)
    rows, columns = sch.get_loops(copy)[-2:]
    for row, column in ((ii, ji), (rows, columns)):
        vectors, lanes = sch.split(column, [None, LANES])
        sch.vectorize(lanes)
        sch.unroll(vectors)
        sch.unroll(row)
    sch.decompose_reduction(block, k)
    yield "tiles in registers", sch
    packed = sch.cache_read(block, 2, "global")
    sch.transform_layout(block, ("read", 2), lambda k, n: (n // COLUMNS, k, n % COLUMNS))
    sch.parallel(sch.get_loops(packed)[0])
    yield "packed columns", sch


def seconds(run: Callable[[], object], repeat: int) -> float:
    """The least time of several runs."""
    times: list[float] = []
    for _ in range(repeat):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def fastest(repeat: int) -> float:
    """The floating-point operations that one core does in a second, in billions, if nothing holds it up."""
    kernel = build_module(cast(PrimFunc, from_source(FASTEST)))["main"]
    a, c = np.full(LANES * 2, 0.5, "float32"), np.zeros((ROWS, COLUMNS), "float32")
    return 2e-9 * ROWS * COLUMNS * 1_000_000 / seconds(lambda: kernel(a, c), repeat)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Speed of a scheduled product after each step.")
    parser.add_argument("--repeat", type=int, default=5)
    repeat = parser.parse_args().repeat
    generator = np.random.default_rng(0)
    a, b = generator.random((N, N), "float32"), generator.random((N, N), "float32")
    expected, result = a @ b, np.zeros((N, N), "float32")
    arguments = [tvm_ffi.from_dlpack(array) for array in (a, b, result)]
    threads = num_threads()
    peak = fastest(repeat)
    table = Table("step", "GFLOP/s", "of the fastest", title=f"one core: at most {peak:.0f} GFLOP/s")

    def measure(name: str, sch: Schedule, cores: int) -> None:
        set_num_threads(cores)
        kernel = build_module(sch.mod["main"])["main"].packed
        speed = 2e-9 * N**3 / seconds(lambda: kernel(*arguments), repeat)
        np.testing.assert_allclose(result, expected, 1e-4)
        table.add_row(name, f"{speed:.1f}", f"{speed / peak / cores:.0%}")

    sch = Schedule(product())
    for name, sch in steps():
        measure(name, sch, 1)
    if threads > 1:
        measure(f"on {threads} threads", sch, threads)
    Console().print(table)


if __name__ == "__main__":
    main()
