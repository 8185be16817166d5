"""Kernels of the default build against ONNX Runtime, by family.

    python benchmarks/kernels.py [FAMILY ...] [--threads N ...] [--only WORD] [--seconds S]

Each family is a file benchmarks/kernels_FAMILY.py; without names, all that there are. This file holds what they share:
candidates that run in turn in one process, the least time of each, and what the machine can do at most.
"""

from __future__ import annotations

import runpy
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np

from relax.codegen import build_module
from relax.runtime import num_threads, set_num_threads
from relax.script import from_source
from relax.tir import PrimFunc

Run = Callable[[], object]

FASTEST = """
from relax.script import tir as T

@T.prim_func
def main(A: T.Buffer((32,), "float32"), C: T.Buffer((8, 32), "float32")):
    T.func_attr({"tir.noalias": True})
    acc = T.alloc_buffer((8, 32), scope="local")
    for i in T.unroll(8):
        for j in T.unroll(2):
            for l in T.vectorized(16):
                acc[i, j * 16 + l] = C[i, j * 16 + l]
    for k in range(1000000):
        for i in T.unroll(8):
            for j in T.unroll(2):
                for l in T.vectorized(16):
                    acc[i, j * 16 + l] = T.fma(acc[i, j * 16 + l], A[l], A[16 + l])
    for i in T.unroll(8):
        for j in T.unroll(2):
            for l in T.vectorized(16):
                C[i, j * 16 + l] = acc[i, j * 16 + l]
"""


def race(candidates: Mapping[str, Run], seconds: float) -> dict[str, float]:
    """The least time of each candidate; they run in turn for so many seconds, a few times each."""
    best = dict.fromkeys(candidates, float("inf"))
    for run in candidates.values():
        run()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for name, run in candidates.items():
            for _ in range(3):
                start = time.perf_counter()
                run()
                best[name] = min(best[name], time.perf_counter() - start)
    return best


def fastest(repeat: int = 5) -> float:
    """The float32 operations that one core does in a second, in billions, where operands stay in registers."""
    kernel = build_module(cast(PrimFunc, from_source(FASTEST)))["main"]
    a = np.full(32, 0.5, "float32")
    c = np.arange(256, dtype="float32").reshape(8, 32)  # rows that differ: equal sums would be computed once
    threads = num_threads()
    set_num_threads(1)
    seconds = min(_seconds(lambda: kernel(a, c)) for _ in range(repeat))
    set_num_threads(threads)
    return 2e-9 * c.size * 1_000_000 / seconds


def _seconds(run: Run) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def onnx_runtime(model: bytes, feeds: Mapping[str, np.ndarray[Any, Any]], threads: int) -> Run | None:
    """A run of a model whose operands and results stay where they are; None where ONNX Runtime is not installed."""
    try:
        import onnxruntime  # an optional peer  # noqa: PLC0415
    except ImportError:
        return None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 4
    session = onnxruntime.InferenceSession(model, options)
    binding = session.io_binding()
    for name, array in feeds.items():
        binding.bind_cpu_input(name, array)
    for output in session.get_outputs():
        binding.bind_output(output.name, "cpu")
    return lambda: session.run_with_iobinding(binding)


def main() -> None:
    """Run the families that are named, or all."""
    here = Path(__file__).parent
    families = {path.stem.removeprefix("kernels_"): path for path in sorted(here.glob("kernels_*.py"))}
    words = sys.argv[1:]
    first_option = next((i for i, word in enumerate(words) if word.startswith("-")), len(words))
    named, options = words[:first_option], words[first_option:]
    unknown = [name for name in named if name not in families]
    if unknown:
        raise SystemExit(f"unknown: {', '.join(unknown)}; there are: {', '.join(families)}")
    for name in named or families:
        sys.argv = [str(families[name]), *options]
        runpy.run_path(str(families[name]), run_name="__main__")


if __name__ == "__main__":
    main()
