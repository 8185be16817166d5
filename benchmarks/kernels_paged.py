"""Attention to keys and values in pages: decoding against a plain read, prefill against the machine's peak.

    python benchmarks/kernels_paged.py [--seconds S] [--threads N ...] [--only WORD] [--busy]

"decode" is one query of each head; its pages lie in order, and no call reads pages that an earlier one left in a cache,
as a model has layers. Speed is bytes of keys and values in a second, its share that of a plain read of as many bytes.
"prefill" is 512 tokens that attend to themselves and to those before them; speed is the operations of visible keys in a
second, its share that of multiply-adds in registers. "append" rotates and stores as many tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from kernels import Run, aligned, arguments, clock_of, fastest, memory, race
from rich.console import Console
from rich.table import Table

from relax.codegen import build_module, resolve
from relax.runtime import set_num_threads
from relax.runtime.tensor import tensor_of_numpy
from relax.schedules import cpu, schedule
from relax.topi.paged_attention import PagedHeads, append_to_pages, attend_to_pages

POOL = 96 << 20
"""Bytes of all keys and values: more than caches hold."""
SHAPES = {
    "3 heads of 64": PagedHeads(9, 3, 64, 64, rotated=32),
    "8 heads of 128": PagedHeads(32, 8, 128, 128, rotated=64),
}
PAGES: dict[str, Any] = {"float32": np.float32, "bfloat16": ml_dtypes.bfloat16}
KEYS = (512, 2048)
TOKENS = 512


def built(func: Any) -> Any:
    """The packed function of the default build."""
    return build_module(schedule(func, resolve("llvm"), cpu.RULES))["main"].packed


def pool(heads: PagedHeads, pages: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Keys and values of random numbers."""
    rng, dtype = np.random.default_rng(0), PAGES[heads.page_dtype]
    shapes = (heads.depth, heads.page_size), (heads.page_size, heads.columns)
    keys, values = (aligned(rng.standard_normal((pages, heads.kv_heads, *s), np.float32).astype(dtype)) for s in shapes)
    return keys, values


def tensors(*arrays: np.ndarray[Any, Any]) -> list[Any]:
    """Arrays as tensors, whose calls take less time."""
    return [tensor_of_numpy(aligned_once(array)) for array in arrays]


def aligned_once(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array, or an aligned copy of a small one."""
    return array if array.nbytes > 1 << 20 else aligned(array)


def attention(heads: PagedHeads, queries: int, count: int, first: int, pages: Any) -> list[Any]:
    """Arguments of attention of the last `queries` of `count` tokens, whose pages begin with number `first`."""
    listed = count // heads.page_size
    numbers = np.arange(listed, dtype="int32")
    rng = np.random.default_rng(1)
    return tensors(
        rng.standard_normal((queries, heads.query_heads, heads.depth), np.float32),
        np.arange(count - queries, count, dtype="int32"), np.array([0, queries], "int32"), *pages,
        np.array([0, listed], "int32"), numbers + first, numbers * heads.page_size, np.zeros((1, 2), "int32"),
        np.array([heads.depth**-0.5], "float32"), np.zeros((queries, heads.query_heads, heads.columns), "float32"),
        np.zeros((queries, heads.query_heads), "float32"),
    )  # fmt: skip


def decoding(heads: PagedHeads, keys: int) -> tuple[Run, int, int]:
    """A run of calls that read a pool once, their number, and the bytes that they read."""
    size = 2 * heads.kv_heads * heads.depth * np.dtype(PAGES[heads.page_dtype]).itemsize
    calls, listed = POOL // (size * keys), keys // heads.page_size
    pages = pool(heads, calls * listed)
    kernel = built(attend_to_pages(heads))
    arguments = [attention(heads, 1, keys, i * listed, pages) for i in range(calls)]

    def run() -> None:
        for each in arguments:
            kernel(*each)

    return run, calls, calls * size * keys


def prefill(heads: PagedHeads) -> tuple[Run, float]:
    """A run of one call, and its operations."""
    arguments = attention(heads, TOKENS, TOKENS, 0, pool(heads, TOKENS // heads.page_size))
    kernel = built(attend_to_pages(heads))
    work = TOKENS * (TOKENS + 1) * heads.query_heads * (heads.depth + heads.columns)
    return lambda: kernel(*arguments), float(work)


def appending(heads: PagedHeads) -> Run:
    """A run of one call."""
    width = (heads.query_heads + heads.kv_heads) * heads.depth + heads.kv_heads * heads.columns
    arguments = tensors(
        np.ones((TOKENS, width), "float32"), np.ones((TOKENS, 2, heads.rotated), "float32"),
        np.arange(TOKENS, dtype="int32"), *pool(heads, TOKENS // heads.page_size),
        np.zeros((TOKENS, heads.query_heads, heads.depth), "float32"),
    )  # fmt: skip
    kernel = built(append_to_pages(heads))
    return lambda: kernel(*arguments)


def rows_of(
    name: str, heads: PagedHeads, wanted: Callable[[str], bool], measure: Callable[[dict[str, Run]], dict[str, float]],
    peak: float,
) -> list[tuple[str, ...]]:  # fmt: skip
    """Rows of the table for heads of one shape and dtype."""
    rows: list[tuple[str, ...]] = []
    for keys in KEYS:
        row = f"decode {keys}, {name}"
        if wanted(row):
            run, calls, nbytes = decoding(heads, keys)
            times = measure({"ours": run, "read": memory("read", nbytes)})
            speed = f"{1e-9 * nbytes / times['ours']:.1f} GB/s"
            each = f"{1e6 * times['ours'] / calls:.1f}"
            rows.append((row, each, speed, f"{times['read'] / times['ours']:.0%}"))
    row = f"prefill {TOKENS}, {name}"
    if wanted(row):
        run, work = prefill(heads)
        best = measure({"ours": run})["ours"]
        rows.append((row, f"{1e6 * best:.1f}", f"{1e-9 * work / best:.0f} GFLOP/s", f"{1e-9 * work / best / peak:.0%}"))
    row = f"append {TOKENS}, {name}"
    if wanted(row):
        best = measure({"ours": appending(heads)})["ours"]
        rows.append((row, f"{1e6 * best:.1f}", "", ""))
    return rows


def main() -> None:
    """Print a table for each number of threads."""
    options = arguments(__doc__)
    peak = fastest(1.0, clock_of(options.busy, 1))
    for threads in options.threads:
        set_num_threads(threads)
        clock = clock_of(options.busy, threads)
        table = Table("", "µs a call", "speed", "share", title=f"{threads} threads")
        for shape, heads in SHAPES.items():
            for dtype in PAGES:
                fields: dict[str, Any] = {**heads.annotation, "page_dtype": dtype}
                of_dtype = PagedHeads(**fields)
                rows = rows_of(
                    f"{shape}, {dtype}", of_dtype, lambda row: options.only in row,
                    lambda runs: race(runs, options.seconds, clock), peak * threads,  # noqa: B023
                )  # fmt: skip
                for row in rows:
                    table.add_row(*row)
        Console().print(table)


if __name__ == "__main__":
    main()
