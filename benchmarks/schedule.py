"""The steps of docs/schedule-a-kernel.md, and the speed of the kernel after each step.

    python benchmarks/schedule.py [--repeat N] [--loops] [product|convolution|softmax ...]

* product: of two matrices of 1,024 x 1,024;
* convolution: 3 x 3, of 64 channels of 56 x 56 to 64 channels;
* softmax: of the rows of a matrix of 1,024 x 1,024.

The output is the speed on one thread, the fastest possible on one core, measured in turns, and for the last step both
for all threads. The fastest possible is a loop of multiplications and additions whose operands stay in registers; for
softmax, copying the matrix. Its least time in any of the turns counts for all steps. With --loops, the loops and blocks
after each step are printed too.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import tvm_ffi
from rich.console import Console
from rich.table import Table

from relax import te
from relax.codegen import build_module
from relax.runtime import num_threads, set_num_threads
from relax.script import from_source
from relax.tir import BlockRV, LoopRV, PrimFunc, Schedule

Steps = Iterator[tuple[str, Schedule]]

N = 1024
IMAGE, CHANNELS = 56, 64
ROWS, COLUMNS, LANES = 8, 32, 16
PIXELS = 14
FASTEST_STEPS = 200_000
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
    for k in range({FASTEST_STEPS}):
        for i in T.unroll({ROWS}):
            for j in T.unroll({COLUMNS // LANES}):
                for l in T.vectorized({LANES}):
                    acc[i, j * {LANES} + l] = T.fma(acc[i, j * {LANES} + l], A[l], A[{LANES} + l])
    for i in T.unroll({ROWS}):
        for j in T.unroll({COLUMNS // LANES}):
            for l in T.vectorized({LANES}):
                C[i, j * {LANES} + l] = acc[i, j * {LANES} + l]
"""


def in_registers(sch: Schedule, row: LoopRV, column: LoopRV) -> None:
    """Write the rows of a tile out, and its columns as vectors."""
    vectors, lanes = sch.split(column, [None, LANES])
    sch.vectorize(lanes)
    sch.unroll(vectors)
    sch.unroll(row)


def tile_in_registers(sch: Schedule, block: BlockRV, tile: LoopRV, loops: tuple[LoopRV, LoopRV]) -> None:
    """Compute a tile in a local buffer, and copy it out when it is finished."""
    copy = sch.cache_write(block, 0, "local")
    sch.reverse_compute_at(copy, tile)
    rows, columns = sch.get_loops(copy)[-2:]
    in_registers(sch, *loops)
    in_registers(sch, rows, columns)


# ------------------------------------------------------------------------------------------ the product


def product() -> PrimFunc:
    """The product of two matrices, as its formula says it."""
    a, b = te.placeholder((N, N), name="A"), te.placeholder((N, N), name="B")
    k = te.reduce_axis((0, N), "k")
    return te.create_prim_func([a, b, te.compute((N, N), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), "C")])


def product_steps() -> Steps:
    """The schedule of the product after each step, with the step's name."""
    sch = Schedule(product())
    yield "as written", sch
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    io, ii = sch.split(i, [None, ROWS])
    jo, ji = sch.split(j, [None, COLUMNS])
    sch.reorder(jo, io, k, ii, ji)
    yield "tiles", sch
    sch.parallel(jo)
    tile_in_registers(sch, block, io, (ii, ji))
    sch.decompose_reduction(block, k)
    yield "tiles in registers", sch
    packed = sch.cache_read(block, 2, "global")
    sch.transform_layout(block, ("read", 2), lambda k, n: (n // COLUMNS, k, n % COLUMNS))
    rows, columns = sch.get_loops(packed)
    panels, columns = sch.split(columns, [None, COLUMNS])
    sch.reorder(panels, rows, columns)
    vectors, lanes = sch.split(columns, [None, LANES])
    sch.vectorize(lanes)
    sch.unroll(vectors)
    sch.parallel(panels)
    yield "packed columns", sch


# ------------------------------------------------------------------------------------------ the convolution


def convolution() -> PrimFunc:
    """A 3 x 3 convolution, channels last, as its formula says it."""
    x = te.placeholder((IMAGE, IMAGE, CHANNELS), name="X")
    w = te.placeholder((3, 3, CHANNELS, CHANNELS), name="W")

    def padded(h: Any, v: Any, c: Any) -> Any:
        inside = te.all(h >= 1, h <= IMAGE, v >= 1, v <= IMAGE)
        return te.if_then_else(inside, x[h - 1, v - 1, c], 0.0)

    pad = te.compute((IMAGE + 2, IMAGE + 2, CHANNELS), padded, "pad")
    r, s, c = te.reduce_axis((0, 3), "r"), te.reduce_axis((0, 3), "s"), te.reduce_axis((0, CHANNELS), "c")
    y = te.compute(
        (IMAGE, IMAGE, CHANNELS), lambda h, v, f: te.sum(pad[h + r, v + s, c] * w[r, s, c, f], axis=[r, s, c]), "Y"
    )
    return te.create_prim_func([x, w, y])


def convolution_steps() -> Steps:
    """The schedule of the convolution after each step, with the step's name."""
    sch = Schedule(convolution())
    yield "as written", sch
    block = sch.get_block("Y")
    h, v, f, r, s, c = sch.get_loops(block)
    vo, vi = sch.split(v, [None, PIXELS])
    fo, fi = sch.split(f, [None, COLUMNS])
    sch.reorder(h, fo, vo, r, s, c, vi, fi)
    yield "tiles", sch
    sch.parallel(h)
    tile_in_registers(sch, block, vo, (vi, fi))
    sch.decompose_reduction(block, r)
    yield "tiles in registers", sch
    row, _, channels = sch.get_loops(sch.get_block("pad"))
    _, lanes = sch.split(channels, [None, LANES])
    sch.vectorize(lanes)
    sch.parallel(row)
    yield "vectors of padding", sch


# ------------------------------------------------------------------------------------------ softmax


def softmax() -> PrimFunc:
    """The softmax of the rows of a matrix, as its formula says it."""
    x = te.placeholder((N, N), name="X")
    k, k2 = te.reduce_axis((0, N), "k"), te.reduce_axis((0, N), "k")
    largest = te.compute((N,), lambda i: te.max(x[i, k], axis=k), "M")
    e = te.compute((N, N), lambda i, j: te.exp(x[i, j] - largest[i]), "E")
    total = te.compute((N,), lambda i: te.sum(e[i, k2], axis=k2), "S")
    return te.create_prim_func([x, te.compute((N, N), lambda i, j: e[i, j] / total[i], "Y")])


def softmax_steps() -> Steps:
    """The schedule of softmax after each step, with the step's name."""
    sch = Schedule(softmax())
    yield "as written", sch
    i, j = sch.get_loops(sch.get_block("Y"))
    for name in ("S", "E", "M"):
        sch.compute_at(sch.get_block(name), i)
    sch.parallel(i)
    _, lanes = sch.split(j, [None, LANES])
    sch.vectorize(lanes)
    yield "row by row", sch
    _, k = sch.get_loops(sch.get_block("S"))
    _, lanes = sch.split(k, [None, LANES])
    part = sch.rfactor(lanes, 1)
    _, part_loop, lanes = sch.get_loops(part)
    sch.vectorize(lanes)
    exp_loop, lanes = sch.split(sch.get_loops(sch.get_block("E"))[1], [None, LANES])
    sch.vectorize(lanes)
    both = sch.merge(exp_loop, part_loop)
    sch.decompose_reduction(part, both)
    yield "exp and sum in one loop", sch
    _, k = sch.get_loops(sch.get_block("M"))
    _, lanes = sch.split(k, [None, 4 * LANES])
    part = sch.rfactor(lanes, 1)
    _, steps, lanes = sch.get_loops(part)
    vectors, lanes = sch.split(lanes, [None, LANES])
    sch.vectorize(lanes)
    sch.unroll(vectors)
    sch.decompose_reduction(part, steps)
    yield "four vectors of maxima", sch


# ------------------------------------------------------------------------------------------ measurements


@dataclass(frozen=True)
class Program:
    """A kernel to be scheduled: its inputs, its result by NumPy, and the work that it does."""

    steps: Callable[[], Steps]
    shapes: Sequence[tuple[int, ...]]
    reference: Callable[..., Any]
    unit: str
    work: float
    """Billions of floating-point operations, or bytes, of one run."""


def _reference_convolution(x: Any, w: Any) -> Any:
    padded = np.pad(x, ((1, 1), (1, 1), (0, 0)))
    parts = [padded[r : r + IMAGE, s : s + IMAGE] @ w[r, s] for r in range(3) for s in range(3)]
    return np.sum(parts, axis=0)


def _reference_softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


PROGRAMS = {
    "product": Program(product_steps, [(N, N), (N, N)], np.matmul, "GFLOP/s", 2e-9 * N**3),
    "convolution": Program(
        convolution_steps,
        [(IMAGE, IMAGE, CHANNELS), (3, 3, CHANNELS, CHANNELS)],
        _reference_convolution,
        "GFLOP/s",
        2e-9 * IMAGE**2 * CHANNELS**2 * 9,
    ),
    "softmax": Program(softmax_steps, [(N, N)], _reference_softmax, "GB/s", 8e-9 * N**2),
}


Run = Callable[[], object]


def multiplying() -> tuple[Run, float]:
    """Multiplications and additions whose operands stay in registers: the run, and its floating-point operations."""
    kernel = build_module(cast(PrimFunc, from_source(FASTEST)))["main"]
    a, c = np.full(LANES * 2, 0.5, "float32"), np.zeros((ROWS, COLUMNS), "float32")
    return lambda: kernel(a, c), 2e-9 * ROWS * COLUMNS * FASTEST_STEPS


def copying() -> tuple[Run, float]:
    """Copying a matrix: the run, and the bytes that it reads and writes."""
    source, target = np.ones((N, N), "float32"), np.zeros((N, N), "float32")
    return lambda: np.copyto(target, source), 8e-9 * N**2


def least_seconds(runs: Sequence[Run], repeat: int) -> list[float]:
    """The least time of several runs of each, taken in turns, so that all of them see the same machine."""
    result = [float("inf")] * len(runs)
    for _ in range(repeat):
        for place, run in enumerate(runs):
            start = time.perf_counter()
            run()
            result[place] = min(result[place], time.perf_counter() - start)
    return result


def loops_of(sch: Schedule) -> str:
    """The loops and blocks of a schedule's program, without what is in the blocks."""
    lines = sch.mod["main"].script().splitlines()
    return "\n".join(line[4:] for line in lines if line.lstrip().startswith(("for ", "with T.block")))


def table_of(name: str, repeat: int, show: Callable[[str], None] | None) -> Table:
    """The speeds of a program after each step. `show`, if given, prints the loops of each."""
    program = PROGRAMS[name]
    generator = np.random.default_rng(0)
    inputs = [generator.random(shape, "float32") for shape in program.shapes]
    expected = program.reference(*inputs)
    result = np.zeros_like(expected)
    arguments = [tvm_ffi.from_dlpack(array) for array in (*inputs, result)]
    limit, limit_work = multiplying() if program.unit == "GFLOP/s" else copying()
    measured: list[tuple[str, float, int]] = []
    fastest = 0.0

    def measure(step: str, sch: Schedule, cores: int) -> None:
        nonlocal fastest
        set_num_threads(cores)
        kernel = build_module(sch.mod["main"])["main"].packed
        kernel(*arguments)
        np.testing.assert_allclose(result, expected, 1e-4)
        taken, least = least_seconds([lambda: kernel(*arguments), limit], repeat)
        measured.append((step, program.work / taken, cores))
        fastest = max(fastest, limit_work / least)

    threads = num_threads()
    last: Schedule | None = None
    for step, sch in program.steps():
        if show is not None:
            show(f"{name}: {step}\n{loops_of(sch)}\n")
        measure(step, sch, 1)
        last = sch
    if threads > 1 and last is not None:
        measure(f"on {threads} threads", last, threads)
    table = Table("step", program.unit, "at most", "share", title=name)
    for step, speed, cores in measured:
        peak = fastest * cores
        table.add_row(step, f"{speed:.1f}", f"{peak:.0f}", f"{speed / peak:.0%}")
    return table


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description="Speed of scheduled kernels after each step.")
    parser.add_argument("programs", nargs="*", default=list(PROGRAMS))
    parser.add_argument("--repeat", type=int, default=20, help="runs of each step (20)")
    parser.add_argument("--loops", action="store_true", help="print the loops after each step")
    options = parser.parse_args()
    console = Console()
    for name in options.programs:
        console.print(table_of(name, options.repeat, print if options.loops else None))


if __name__ == "__main__":
    main()
