"""Attention against ONNX Runtime: its MultiHeadAttention, and the operators that attention is spelled out with.

    python benchmarks/kernels_attention.py [--seconds S] [--threads N ...] [--only WORD]

12 heads of 64 numbers, float32. "decode" is one query on keys and values that stand in a cache. The candidates run in
turn in one process; times are the least of all runs. The last columns are the peers' times as multiples of ours, and
our speed: operations in a second, or bytes of keys and values for one query.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from kernels import Run, onnx_runtime, race
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
        inputs = [
            helper.make_tensor_value_info(x, TensorProto.FLOAT, [1, n, width]) for x, n in sizes.items()
        ]
        output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, queries, width])
        graph = helper.make_graph(nodes, "attention", inputs, [output], constants)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()

    fused = [
        helper.make_node(
            "MultiHeadAttention", ["q", "k", "v"], ["y"], domain="com.microsoft", num_heads=HEADS
        )
    ]
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


def measured(queries: int, keys: int, threads: int, seconds: float) -> dict[str, float]:
    """The least time of each candidate."""
    generator = np.random.default_rng(0)
    q, k, v, y = (
        generator.standard_normal((1, n, HEADS * SIZE)).astype("float32")
        for n in (queries, keys, keys, queries)
    )
    kernel = ours(queries, keys)
    split = [x.reshape(1, -1, HEADS, SIZE) for x in (q, k, v, y)]
    others = peers(queries, keys, {"q": q, "k": k, "v": v}, threads)
    return race({"ours": lambda: kernel(*split), **others}, seconds)


def main() -> None:
    """Print a table for each number of threads."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    for threads in options.threads:
        set_num_threads(threads)
        table = Table(
            "ms",
            "relax",
            "fused",
            "spelled out",
            "x fused",
            "x spelled out",
            "speed",
            title=f"{threads} threads",
        )
        for name, queries, keys in CASES:
            if options.only not in name:
                continue
            times = measured(queries, keys, threads, options.seconds)
            best = times["ours"]
            found = [times.get(peer) for peer in ("fused", "spelled out")]
            work = 4e-9 * queries * keys * HEADS * SIZE
            speed = f"{work / best:.0f} GFLOP/s" if queries > 1 else f"{2 * work / best:.1f} GB/s"
            table.add_row(
                name, f"{best * 1e3:.3f}", *("-" if t is None else f"{t * 1e3:.3f}" for t in found),
                *("-" if t is None else f"{t / best:.2f}" for t in found), speed,
            )  # fmt: skip
        Console().print(table)


if __name__ == "__main__":
    main()
