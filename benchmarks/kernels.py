"""Kernels of the default build against ONNX Runtime and OpenVINO, by family.

    python benchmarks/kernels.py [FAMILY ...] [--threads N ...] [--only WORD] [--seconds S] [--busy]

Each family is a file benchmarks/kernels_FAMILY.py; without names, all that there are. This file holds what they share:
candidates that run in turn in one process, the least time of each, and what the machine can do at most. With `--busy`
(attention, products, memory) the time is what the process used of processors, which other work on the machine changes
less: of one thread only.
"""

from __future__ import annotations

import argparse
import importlib
import runpy
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import tvm_ffi

from relax.codegen import build_module
from relax.ir import IRModule
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

MEMORY = """
from relax.script import ir as I, tir as T

@I.ir_module
class Memory:
    @T.prim_func
    def copy(a: T.handle, c: T.handle):
        T.func_attr({"tir.noalias": True})
        n = T.int64()
        A, C = T.match_buffer(a, (n, 4096)), T.match_buffer(c, (n, 4096))
        for i in T.parallel(n):
            for j in range(64):
                for u in T.unroll(4):
                    for l in T.vectorized(16):
                        C[i, j * 64 + u * 16 + l] = A[i, j * 64 + u * 16 + l]

    @T.prim_func
    def read(a: T.handle, c: T.handle):
        T.func_attr({"tir.noalias": True})
        n = T.int64()
        A, C = T.match_buffer(a, (n, 4096)), T.match_buffer(c, (n, 16))
        for i in T.parallel(n):
            acc = T.alloc_buffer((8, 16), scope="local")
            for u in T.unroll(8):
                for l in T.vectorized(16):
                    acc[u, l] = T.float32(0)
            for j in range(32):
                for u in T.unroll(8):
                    for l in T.vectorized(16):
                        acc[u, l] = T.max(acc[u, l], A[i, j * 128 + u * 16 + l])
            for u in T.unroll(8):
                for l in T.vectorized(16):
                    C[i, l] = T.max(C[i, l], acc[u, l])
"""


def aligned(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A copy that begins with a line of the cache, as tensors of a program do; NumPy's begin anywhere."""
    memory = np.zeros(array.nbytes + 64, "uint8")
    start = -memory.ctypes.data % 64
    result = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    result[...] = array
    return result


REST: Final = 0.05
"""Seconds before an engine's turn, in which the threads of the one before stop looking for work: they would take its
processors.
"""
TURN: Final = 6
"""Runs in a turn."""


def race(
    candidates: Mapping[str, Run], seconds: float, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """The least time of each candidate; they run in turn for so many seconds, a few times each."""
    best = dict.fromkeys(candidates, float("inf"))
    for run in candidates.values():
        run()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for name, run in candidates.items():
            time.sleep(REST)
            for _ in range(TURN):
                start = clock()
                run()
                best[name] = min(best[name], clock() - start)
    return best


def arguments(description: str | None, seconds: float = 1.0) -> argparse.Namespace:
    """Parse the command line of a family whose cases may be timed by the processor."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seconds", type=float, default=seconds, help="time for each case")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--only", default="", help="cases whose name has this in it")
    parser.add_argument("--busy", action="store_true", help="time of the processor")
    return parser.parse_args()


def clock_of(busy: bool, threads: int) -> Callable[[], float]:
    """The clock of a race: that of the process for `--busy`, which says nothing of several threads."""
    if busy and threads > 1:
        raise SystemExit("--busy measures one thread: give --threads 1")
    return time.process_time if busy else time.perf_counter


def fastest(duration: float = 0.1, clock: Callable[[], float] = time.perf_counter) -> float:
    """The float32 operations that one core does in a second, in billions, where operands stay in registers."""
    kernel = build_module(cast(PrimFunc, from_source(FASTEST)))["main"]
    a = np.full(32, 0.5, "float32")
    c = np.arange(256, dtype="float32").reshape(8, 32)  # rows that differ: equal sums would be computed once
    threads = num_threads()
    set_num_threads(1)
    seconds = race({"fastest": lambda: kernel(a, c)}, duration, clock)["fastest"]
    set_num_threads(threads)
    return 2e-9 * c.size * 1_000_000 / seconds


def memory(operation: str, nbytes: int) -> Run:
    """A run that reads ("read") so many bytes, or reads and writes ("copy") half as many each, with all threads."""
    rows = max(nbytes // (4 * 4096) // (2 if operation == "copy" else 1), 1)
    source = aligned(np.ones((rows, 4096), "float32"))
    result = aligned(np.zeros((rows, 4096 if operation == "copy" else 16), "float32"))
    kernel = build_module(cast(IRModule, from_source(MEMORY)))[operation].packed
    arguments = [tvm_ffi.from_dlpack(array) for array in (source, result)]
    return lambda: kernel(*arguments)


def onnx_runtime(model: bytes, feeds: Mapping[str, np.ndarray[Any, Any]], threads: int) -> Run | None:
    """A run of a model whose operands and results stay where they are; None where ONNX Runtime is not installed, or
    does not take the model.
    """
    try:
        import onnxruntime  # an optional peer  # noqa: PLC0415
    except ImportError:
        return None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 4
    try:
        session = onnxruntime.InferenceSession(model, options)
    except Exception:  # noqa: BLE001  its own kinds of errors: the engine does not have the operator
        return None
    binding = session.io_binding()
    for name, array in feeds.items():
        binding.bind_cpu_input(name, array)
    for output in session.get_outputs():
        binding.bind_output(output.name, "cpu")
    run: Run = lambda: session.run_with_iobinding(binding)  # noqa: E731
    try:
        run()
    except RuntimeError:
        return None
    return run


def openvino(model: bytes, feeds: Mapping[str, np.ndarray[Any, Any]], threads: int) -> Run | None:
    """A run of an ONNX model in float32; None where OpenVINO is not installed, or does not take the model."""
    try:
        core = importlib.import_module("openvino").Core()
    except ImportError:
        return None
    try:
        return openvino_run(core.read_model(model), feeds, threads)
    except RuntimeError:
        return None


def openvino_run(model: Any, feeds: Mapping[str, np.ndarray[Any, Any]], threads: int) -> Run:
    """A run of a model of OpenVINO whose operands and results stay where they are."""
    package = importlib.import_module("openvino")
    options = {
        "INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY",
    }  # fmt: skip
    request = package.Core().compile_model(model, "CPU", options).create_infer_request()
    for name, array in feeds.items():
        request.set_tensor(name, package.Tensor(array, shared_memory=True))
    return request.infer


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
