"""Attention against the fused operators of ONNX Runtime and OpenVINO, and the operators that it is spelled out with.

    python benchmarks/kernels_attention.py [--seconds S] [--threads N ...] [--only WORD] [--busy]

12 heads of 64 numbers, float32. "decode" is one query on keys and values that stand in a cache. The fused operators are
ONNX Runtime's MultiHeadAttention and OpenVINO's ScaledDotProductAttention, which is given one head after the other as
it likes; "spelled out" is ONNX Runtime with products, softmax and transposes. The candidates run in turn in one
process; times are the least of all runs. The last columns are the time of the faster fused operator as a multiple of
ours, our speed (operations in a second, or bytes of keys and values for one query), and its share of the most that the
machine does: multiply-adds in registers, or a plain read of as many bytes.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from kernels import Run, aligned, arguments, clock_of, fastest, memory, onnx_runtime, openvino_run, race
from rich.console import Console
from rich.table import Table

from relax import te, topi
from relax.codegen import build_module, resolve
from relax.runtime import set_num_threads
from relax.schedules import cpu, schedule

HEADS, SIZE = 12, 64
CASES = [(f"{n} tokens", n, n) for n in (128, 384, 1024, 2048)]
CASES += [(f"decode {n}", 1, n) for n in (128, 512, 2048)]


def ours(queries: int, keys: int) -> Any:
    """The kernel of the default build."""
    shapes = ((1, queries, HEADS, SIZE), (1, keys, HEADS, SIZE), (1, keys, HEADS, SIZE))
    operands = [te.placeholder(shape, "float32", name) for shape, name in zip(shapes, "QKV", strict=True)]
    func = te.create_prim_func([*operands, topi.nn.attention(*operands)])
    return build_module(schedule(func, resolve("llvm"), cpu.RULES))["main"]


def peers(queries: int, keys: int, feeds: dict[str, np.ndarray[Any, Any]], threads: int) -> dict[str, Run]:
    """Runs of ONNX Runtime, where it is installed."""
    try:
        from onnx import TensorProto, helper  # an optional peer  # noqa: PLC0415
    except ImportError:
        return {}
    width = HEADS * SIZE

    def model(nodes: list[Any], constants: list[Any]) -> bytes:
        sizes = {"q": queries, "k": keys, "v": keys}
        inputs = [helper.make_tensor_value_info(x, TensorProto.FLOAT, [1, n, width]) for x, n in sizes.items()]
        output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, queries, width])
        graph = helper.make_graph(nodes, "attention", inputs, [output], constants)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()

    fused = [helper.make_node("MultiHeadAttention", ["q", "k", "v"], ["y"], domain="com.microsoft", num_heads=HEADS)]
    nodes: list[Any] = []
    for x, perm in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        nodes.append(helper.make_node("Reshape", [x, "split"], [f"{x}_heads"]))
        nodes.append(helper.make_node("Transpose", [f"{x}_heads"], [f"{x}_first"], perm=perm))
    nodes += [
        helper.make_node("MatMul", ["q_first", "k_first"], ["products"]),
        helper.make_node("Mul", ["products", "scale"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["weights"], axis=-1),
        helper.make_node("MatMul", ["weights", "v_first"], ["mixed"]),
        helper.make_node("Transpose", ["mixed"], ["joined"], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["joined", "join"], ["y"]),
    ]
    constants = [
        helper.make_tensor("split", TensorProto.INT64, [4], [0, 0, HEADS, SIZE]),
        helper.make_tensor("join", TensorProto.INT64, [3], [0, 0, width]),
        helper.make_tensor("scale", TensorProto.FLOAT, [], [SIZE**-0.5]),
    ]
    runs = {
        "fused": onnx_runtime(model(fused, []), feeds, threads),
        "spelled out": onnx_runtime(model(nodes, constants), feeds, threads),
    }
    return {name: run for name, run in runs.items() if run is not None}


def scaled_dot_product(feeds: dict[str, np.ndarray[Any, Any]], threads: int) -> dict[str, Run]:
    """A run of OpenVINO's operator, where it is installed."""
    try:
        package = importlib.import_module("openvino")
    except ImportError:
        return {}
    heads = {name: aligned(array.reshape(1, -1, HEADS, SIZE).swapaxes(1, 2)) for name, array in feeds.items()}
    ops = package.opset13
    operands = [ops.parameter(list(array.shape), np.float32, name) for name, array in heads.items()]
    for operand, name in zip(operands, heads, strict=True):
        operand.output(0).get_tensor().set_names({name})
    model = package.Model([ops.scaled_dot_product_attention(*operands, causal=False)], operands)
    return {"openvino": openvino_run(model, heads, threads)}


def measured(queries: int, keys: int, threads: int, seconds: float, busy: bool) -> dict[str, float]:
    """The least time of each candidate."""
    generator = np.random.default_rng(0)
    q, k, v, y = (
        aligned(generator.standard_normal((1, n, HEADS * SIZE)).astype("float32"))
        for n in (queries, keys, keys, queries)
    )
    kernel = ours(queries, keys)
    split = [x.reshape(1, -1, HEADS, SIZE) for x in (q, k, v, y)]
    feeds = {"q": q, "k": k, "v": v}
    others = {**peers(queries, keys, feeds, threads), **scaled_dot_product(feeds, threads)}
    if queries == 1:
        others["read"] = memory("read", k.nbytes + v.nbytes)
    return race({"ours": lambda: kernel(*split), **others}, seconds, clock_of(busy, threads))


def main() -> None:
    """Print a table for each number of threads."""
    options = arguments(__doc__)
    peak = fastest(1.0, clock_of(options.busy, 1))
    for threads in options.threads:
        set_num_threads(threads)
        columns = ("ms", "relax", "fused", "openvino", "spelled out", "x better", "speed", "share")
        table = Table(*columns, title=f"{threads} threads")
        for name, queries, keys in CASES:
            if options.only not in name:
                continue
            times = measured(queries, keys, threads, options.seconds, options.busy)
            best = times["ours"]
            found = [times.get(peer) for peer in ("fused", "openvino", "spelled out")]
            better = min((t for t in found[:2] if t is not None), default=None)
            work = 4e-9 * queries * keys * HEADS * SIZE
            speed = f"{work / best:.0f} GFLOP/s" if queries > 1 else f"{2 * work / best:.1f} GB/s"
            share = work / best / peak / threads if queries > 1 else times["read"] / best
            table.add_row(
                name, f"{best * 1e3:.3f}", *("-" if t is None else f"{t * 1e3:.3f}" for t in found),
                "-" if better is None else f"{better / best:.2f}", speed, f"{share:.0%}",
            )  # fmt: skip
        Console().print(table)


if __name__ == "__main__":
    main()
