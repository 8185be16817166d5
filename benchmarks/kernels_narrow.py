"""Products of bytes and of bfloat16 with known weights, against ONNX Runtime (bytes) and OpenVINO (bfloat16), by shape.

    python benchmarks/kernels_narrow.py [--threads N ...] [--only WORD] [--seconds S]

The number of rows is not known when the kernel is compiled. float32 in relax stands beside them.
"""

from __future__ import annotations

import argparse
from typing import Any

import ml_dtypes
import numpy as np
from kernels import Run, onnx_runtime, race
from onnx import TensorProto, helper, numpy_helper
from rich.console import Console
from rich.table import Table

from relax import te
from relax.codegen import build_module, resolve
from relax.runtime import nd, set_num_threads
from relax.schedules import PackedFunction, cpu
from relax.tir import PrimFunc

Array = np.ndarray[Any, Any]

DTYPES = {
    "uint8": ("uint8", "int8", "int32"),
    "int8": ("int8", "int8", "int32"),
    "bfloat16": ("bfloat16", "bfloat16", "float32"),
    "float32": ("float32", "float32", "float32"),
}
"""The dtypes of the operands and of the sums."""
SHAPES = (
    (512, 512, 512), (1, 4096, 4096), (1, 768, 768), (16, 768, 768), (128, 768, 768), (128, 3072, 768),
    (128, 768, 3072),
)  # fmt: skip


def product(n: int, k: int, dtypes: tuple[str, str, str]) -> PrimFunc:
    """The product of an unknown number of rows, as its formula says it."""
    m, sums = te.var("m", "int64"), dtypes[2]
    a, b = te.placeholder((m, k), dtypes[0], "A"), te.placeholder((k, n), dtypes[1], "B")
    axis = te.reduce_axis((0, k), "k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, axis].astype(sums) * b[axis, j].astype(sums), axis=axis), "C")
    return te.create_prim_func([a, b, c])


def numbers(shape: tuple[int, int], dtype: str) -> Array:
    """Small whole numbers, whose sums are exact."""
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    return np.random.default_rng(0).integers(0, 4, shape).astype(kind)


def ours(m: int, n: int, k: int, dtypes: tuple[str, str, str]) -> Run:
    """A run of the kernel that the build would take, checked against NumPy."""
    func, target = product(n, k, dtypes), resolve("llvm")
    a, b = numbers((m, k), dtypes[0]), numbers((k, n), dtypes[1])
    variants = (rule.pack(func, target, (1,)) for rule in cpu.RULES)
    packed = next(variant for variant in variants if isinstance(variant, PackedFunction))
    kernel = build_module(packed.func)["main"]
    # Tensors of relax, as those of a program are: NumPy's arrays begin in the middle of a cache line.
    arguments = [nd.array(x) for x in (a, packed.packings[1](b), np.zeros((m, n), dtypes[2]))]
    kernel(*arguments)
    np.testing.assert_array_equal(arguments[2].numpy(), a.astype("float64") @ b.astype("float64"))
    return lambda: kernel(*arguments)


def bytes_in_onnx_runtime(m: int, n: int, k: int, dtypes: tuple[str, str, str], threads: int) -> Run | None:
    """MatMulInteger of the same operands."""
    a, b = numbers((m, k), dtypes[0]), numbers((k, n), dtypes[1])
    kind = TensorProto.UINT8 if dtypes[0] == "uint8" else TensorProto.INT8
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["a", "b"], ["y"])], "product",
        [helper.make_tensor_value_info("a", kind, a.shape)],
        [helper.make_tensor_value_info("y", TensorProto.INT32, None)], [numpy_helper.from_array(b, "b")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return onnx_runtime(model.SerializeToString(), {"a": a}, threads)


def bfloat16_in_openvino(m: int, n: int, k: int, threads: int) -> Run | None:
    """A product of float32 that OpenVINO is told to compute in bfloat16; None where it is not installed."""
    try:
        import openvino  # an optional peer  # noqa: PLC0415
    except ImportError:
        return None
    ops, any_openvino = openvino.opset13, openvino
    a = ops.parameter([m, k], np.float32)
    weights = ops.constant(numbers((k, n), "float32"))
    model = any_openvino.Model([ops.matmul(a, weights, False, False)], [a])
    options = {"INFERENCE_PRECISION_HINT": "bf16", "INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY"}
    request = any_openvino.compile_model(model, "CPU", options).create_infer_request()
    request.set_input_tensor(any_openvino.Tensor(numbers((m, k), "float32")))
    return request.infer


def runs(m: int, n: int, k: int, name: str, threads: int) -> dict[str, Run]:
    """What runs one product."""
    set_num_threads(threads)
    dtypes = DTYPES[name]
    peer = None
    if dtypes[2] == "int32":
        peer = bytes_in_onnx_runtime(m, n, k, dtypes, threads)
    elif name == "bfloat16":
        peer = bfloat16_in_openvino(m, n, k, threads)
    return {"relax": ours(m, n, k, dtypes), **({} if peer is None else {"peer": peer})}


def main() -> None:
    """Print a table for each number of threads."""
    parser = argparse.ArgumentParser(description="Products of narrow numbers against other engines.")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--only", default="", help="cases whose name has this in it")
    parser.add_argument("--seconds", type=float, default=0.5, help="time for each case")
    options = parser.parse_args()
    for threads in options.threads:
        table = Table("product", "ms", "GOP/s", "peer ms", "ratio", title=f"{threads} thread(s)")
        for m, n, k in SHAPES:
            for name in DTYPES:
                case = f"{name} {m}x{n}x{k}"
                if options.only not in case:
                    continue
                best = race(runs(m, n, k, name, threads), options.seconds)
                time, peer = best["relax"], best.get("peer")
                others = ("", "") if peer is None else (f"{peer * 1e3:.3f}", f"{peer / time:.2f}")
                table.add_row(case, f"{time * 1e3:.3f}", f"{2e-9 * m * n * k / time:.0f}", *others)
        Console().print(table)


if __name__ == "__main__":
    main()
