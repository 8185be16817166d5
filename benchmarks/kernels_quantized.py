"""Products with weights of few bits against ONNX Runtime's MatMulNBits, by shape and format.

    python benchmarks/kernels_quantized.py [--threads N ...] [--only WORD] [--seconds S] [--formats NAME ...]

Activations are bytes in blocks, as in ONNX Runtime at accuracy level 4, whose time includes rounding them: relax's does
too. Beside the time stand the bytes of weights that are read a second and their share of what reading them plainly
takes, and the integer operations and their share of what dot products of bytes in registers do.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from kernels import Run, memory, onnx_runtime, race
from onnx import TensorProto, helper, numpy_helper
from rich.console import Console
from rich.table import Table

import relax
from relax.codegen import build_module
from relax.op.blocks import DynamicQuantize, QuantizedMatmul
from relax.runtime import nd, num_threads, set_num_threads
from relax.script import from_source
from relax.tir import PrimFunc
from relax.topi.block_formats import block_format
from relax.topi.packed_blocks import PackedBlocks
from relax.transform.quantize_rows import quantize_rows

Array = np.ndarray[Any, Any]

SHAPES = (
    (1, 2048, 2048), (1, 1536, 576), (2, 2048, 2048), (4, 2048, 2048), (8, 2048, 2048), (64, 2048, 2048),
    (512, 2048, 2048), (64, 1536, 576), (512, 1536, 576), (1, 49152, 576), (8, 49152, 576),
)  # fmt: skip
"""Rows, columns, depth."""
FORMATS = ("q4_0", "q4_1", "q5_0", "q8_0", "q4_k", "q6_k", "int4_g32")

DOTS = """
from relax.script import tir as T

@T.prim_func
def main(A: T.Buffer((32,), "int32"), C: T.Buffer((16, 16), "int32")):
    T.func_attr({"tir.noalias": True})
    acc = T.alloc_buffer((16, 16), "int32", scope="local")
    for i in T.unroll(16):
        acc[i, T.Ramp(0, 1, 16)] = C[i, T.Ramp(0, 1, 16)]
    for k in range(1000000):
        for i in T.unroll(16):
            acc[i, T.Ramp(0, 1, 16)] = T.dot_u8s8(acc[i, T.Ramp(0, 1, 16)], A[T.Ramp(0, 1, 16)], A[T.Ramp(16, 1, 16)])
    for i in T.unroll(16):
        C[i, T.Ramp(0, 1, 16)] = acc[i, T.Ramp(0, 1, 16)]
"""


def fastest() -> float:
    """Integer operations that one core does in a second, in billions, where operands stay in registers."""
    kernel = build_module(cast(PrimFunc, from_source(DOTS)))["main"]
    a, c = np.full(32, 0x01020304, "int32"), np.reshape(np.arange(256, dtype="int32"), (16, 16))
    threads = num_threads()
    set_num_threads(1)
    seconds = race({"fastest": lambda: kernel(a, c)}, 0.2)["fastest"]
    set_num_threads(threads)
    return 8e-9 * c.size * 1_000_000 / seconds


def weights(n: int, k: int) -> Array:
    """Random weights; rows repeat after some, as rounding many takes long."""
    few = min(n, 512)
    normal: Array = np.random.default_rng(0).standard_normal((few, k)).astype("float32")
    return np.resize(normal / np.float32(k**0.5), (n, k))


def ours(m: int, n: int, k: int, name: str) -> tuple[Run, int]:
    """A run of the program that a build makes, checked against exact sums, and the bytes of packed weights."""
    held = block_format(name)
    assert held is not None
    rows = np.resize(quantize_rows(weights(min(n, 512), k), name), (n, k // held.elements * held.bytes))
    x = relax.Var("x", relax.TensorStructInfo((m, k), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            parts = builder.emit(relax.op.nn.dynamic_quantize(x, block_size=held.elements))
            numbers, scales = (builder.emit(relax.TupleGetItem(parts, i)) for i in range(2))
            product = relax.op.nn.quantized_matmul(numbers, scales, relax.const(rows), format=name)
            y = builder.emit_output(product)
        builder.emit_func_output(y)
    main = relax.VirtualMachine(relax.build(builder.get()), relax.cpu())["main"]
    values = np.random.default_rng(1).standard_normal((m, k)).astype("float32")
    data, few = nd.array(values), slice(0, min(n, 512))
    x8, scale = DynamicQuantize(held.elements).reference(values[:2])
    expected = QuantizedMatmul(name).reference(x8, scale, rows[few])
    np.testing.assert_allclose(main(data).numpy()[:2, few], expected, rtol=1e-4, atol=1e-4)
    lanes = PackedBlocks(name, 16)
    return lambda: main(data), 4 * lanes.panels(n) * lanes.words(k)


def in_onnx_runtime(m: int, n: int, k: int, bits: int, threads: int) -> Run | None:
    """MatMulNBits of blocks of 32 numbers at accuracy level 4."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 256, (n, k // 32, 4 * bits), "uint8")
    scales = (rng.random((n, k // 32)) * 0.01 + 0.001).astype("float32")
    node = helper.make_node(
        "MatMulNBits", ["x", "b", "s"], ["y"], domain="com.microsoft", K=k, N=n, bits=bits, block_size=32,
        accuracy_level=4,
    )  # fmt: skip
    graph = helper.make_graph(
        [node], "product", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [m, k])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [m, n])],
        [numpy_helper.from_array(codes, "b"), numpy_helper.from_array(scales, "s")],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    x = np.random.default_rng(1).standard_normal((m, k)).astype("float32")
    return onnx_runtime(model.SerializeToString(), {"x": x}, threads)


def rows_of(m: int, n: int, k: int, names: Sequence[str], threads: int, seconds: float, peak: float) -> list[list[str]]:
    """The rows of the table for one shape."""
    made = {name: ours(m, n, k, name) for name in names if k % cast(Any, block_format(name)).elements == 0}
    candidates = {name: run for name, (run, _) in made.items()}
    peers = {bits: in_onnx_runtime(m, n, k, bits, threads) for bits in (4, 8)}
    candidates |= {f"peer {bits}": run for bits, run in peers.items() if run is not None}
    candidates |= {f"read {size}": memory("read", size) for size in {size for _, size in made.values()}}
    best = race(candidates, seconds * len(candidates))
    result: list[list[str]] = []
    for name, (_, size) in made.items():
        time, peer = best[name], best.get(f"peer {8 if name.endswith('8_0') else 4}")
        speed = 2e-9 * m * n * k / time
        result.append([
            f"{m}x{n}x{k} {name}", f"{time * 1e6:.1f}", f"{1e-9 * size / time:.1f}",
            f"{best[f'read {size}'] / time:.0%}", f"{speed:.0f}", f"{speed / (peak * threads):.0%}",
            "" if peer is None else f"{peer * 1e6:.1f}", "" if peer is None else f"{peer / time:.2f}",
        ])  # fmt: skip
    return result


def main() -> None:
    """Print a table for each number of threads."""
    parser = argparse.ArgumentParser(description="Products with weights of few bits against ONNX Runtime.")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--only", default="", help="shapes whose name has this in it")
    parser.add_argument("--seconds", type=float, default=0.3, help="time for each candidate")
    parser.add_argument("--formats", nargs="+", default=FORMATS)
    options = parser.parse_args()
    peak = fastest()
    for threads in options.threads:
        set_num_threads(threads)
        title = f"{threads} thread(s); {peak:.0f} Gop/s in registers"
        table = Table("product", "µs", "GB/s", "of reading", "Gop/s", "of peak", "peer µs", "ratio", title=title)
        for m, n, k in SHAPES:
            if options.only in f"{m}x{n}x{k}":
                for row in rows_of(m, n, k, options.formats, threads, options.seconds, peak):
                    table.add_row(*row)
        Console().print(table)


if __name__ == "__main__":
    main()
