"""Products of matrices against ONNX Runtime and OpenVINO, by shape: the time, the ratio to the faster of them, and the
share of the fastest multiply-add.

    python benchmarks/kernels_products.py [--threads N ...] [--only WORD] [--seconds S] [--busy]

Rows with "weights" have a right operand that is known when the program is built, here and there. A size in words is one
that the kernel does not know when it is compiled.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm_ffi
from kernels import aligned, arguments, clock_of, fastest, onnx_runtime, openvino, race
from onnx import TensorProto, helper
from rich.console import Console
from rich.table import Table

from relax import te
from relax.codegen import build_module, resolve
from relax.runtime import set_num_threads
from relax.schedules import cpu, schedule
from relax.tir import PrimFunc

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Case:
    """One product: rows, columns, depth, matrices of a batch, and what is known when."""

    m: int
    n: int
    k: int
    batch: int | None = None
    weights: bool = False
    transposed: bool = False
    unknown: str = ""
    """The sizes that are not known: letters among m, n and k."""

    def __str__(self) -> str:
        sizes = "x".join(
            f"{size}?" if letter in self.unknown else str(size)
            for letter, size in zip("mnk", (self.m, self.n, self.k), strict=True)
        )
        words = [sizes] if self.batch is None else [f"{self.batch} of {sizes}"]
        return " ".join([*words, *(["B^T"] if self.transposed else []), *(["weights"] if self.weights else [])])

    @property
    def work(self) -> float:
        """Floating-point operations, in billions."""
        return 2e-9 * self.m * self.n * self.k * (self.batch or 1)

    def operands(self) -> tuple[Array, Array]:
        """Two random operands."""
        generator = np.random.default_rng(0)
        lead = () if self.batch is None else (self.batch,)
        right = (self.n, self.k) if self.transposed else (self.k, self.n)
        shapes = ((*lead, self.m, self.k), right if self.weights else (*lead, *right))
        a, b = (generator.standard_normal(shape).astype("float32") for shape in shapes)
        return a, b

    def kernel(self) -> PrimFunc:
        """The product as its formula says it."""
        m, n, k = (
            te.var(letter, "int64") if letter in self.unknown else size
            for letter, size in zip("mnk", (self.m, self.n, self.k), strict=True)
        )
        lead = () if self.batch is None else (self.batch,)
        right = (n, k) if self.transposed else (k, n)
        a = te.placeholder((*lead, m, k), name="A")
        b = te.placeholder(right if self.weights else (*lead, *right), name="B")
        axis = te.reduce_axis((0, k), "k")

        def element(*at: Any) -> Any:
            *outer, i, j = at
            place = (j, axis) if self.transposed else (axis, j)
            right = place if self.weights else (*outer, *place)
            return te.sum(a[(*outer, i, axis)] * b[right], axis=axis)

        return te.create_prim_func([a, b, te.compute((*lead, m, n), element, "C")])

    def model(self, a: Array, b: Array) -> bytes:
        """The same for ONNX Runtime."""
        axes = [*range(b.ndim - 2), b.ndim - 1, b.ndim - 2]
        nodes = [helper.make_node("Transpose", ["b"], ["t"], perm=axes)] if self.transposed else []
        nodes.append(helper.make_node("MatMul", ["a", "t" if self.transposed else "b"], ["y"]))
        given = {"a": a} if self.weights else {"a": a, "b": b}
        inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, x.shape) for n, x in given.items()]
        known = [helper.make_tensor("b", TensorProto.FLOAT, b.shape, b.tobytes(), raw=True)]
        result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
        graph = helper.make_graph(nodes, "product", inputs, [result], known if self.weights else [])
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        return made.SerializeToString()


def cases() -> Iterator[Case]:
    """The products of the table, and sweeps."""
    yield Case(512, 512, 512)
    yield Case(1, 4096, 4096)
    yield Case(1, 4096, 4096, weights=True)
    for size in (64, 128, 255, 256, 257, 300, 768, 1000, 1024):
        yield Case(size, size, size)
        yield Case(size, size, size, unknown="mnk")
    for m in (1, 2, 3, 4, 5, 6, 7, 8, 13, 16, 17, 31, 32, 64, 128, 384):
        yield Case(m, 768, 768, weights=True, unknown="m")
    for m, n, k in ((128, 3072, 768), (128, 768, 3072), (384, 768, 768), (8, 3072, 768)):
        yield Case(m, n, k, weights=True)
    yield Case(20000, 64, 64)
    yield Case(64, 20000, 64)
    yield Case(64, 64, 20000)
    yield Case(384, 768, 768, transposed=True)
    yield Case(128, 128, 64, 12, transposed=True)
    yield Case(128, 64, 128, 12)


def runs(case: Case, threads: int) -> dict[str, Any]:
    """What runs the case, checked against NumPy."""
    set_num_threads(threads)
    a, b = map(aligned, case.operands())
    func, target, right = case.kernel(), resolve("llvm"), b
    packed = cpu.Product().pack(func, target, (1,)) if case.weights else None
    if packed:
        func, right = packed.func, packed.packings[1](b)
    else:
        func = schedule(func, target, cpu.RULES)
    expected = a @ (b.swapaxes(-1, -2) if case.transposed else b)
    right, result = aligned(right), aligned(np.zeros(expected.shape, "float32"))
    kernel = build_module(func)["main"].packed
    arguments = [tvm_ffi.from_dlpack(array) for array in (a, right, result)]
    kernel(*arguments)
    np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-3 * float(np.sqrt(case.k)))
    feeds = {"a": a} if case.weights else {"a": a, "b": b}
    model = case.model(a, b)
    peers = {"onnxruntime": onnx_runtime(model, feeds, threads), "openvino": openvino(model, feeds, threads)}
    return {"relax": lambda: kernel(*arguments), **{k: run for k, run in peers.items() if run is not None}}


def main() -> None:
    """Print a table for each number of threads."""
    options = arguments("Products of matrices against other engines.", 0.5)
    peak = fastest(1.0, clock_of(options.busy, 1))
    for threads in options.threads:
        title = f"{threads} thread(s), at most {peak * threads:.0f} GFLOP/s"
        clock = clock_of(options.busy, threads)
        columns = ("product", "ms", "GFLOP/s", "of the fastest", "onnxruntime ms", "openvino ms", "ratio")
        table = Table(*columns, title=title)
        for case in cases():
            if options.only not in str(case):
                continue
            best = race(runs(case, threads), options.seconds, clock)
            ours = best.pop("relax")
            speed = case.work / ours
            peers = [best.get(name) for name in ("onnxruntime", "openvino")]
            table.add_row(
                str(case), f"{ours * 1e3:.4f}", f"{speed:.0f}", f"{speed / peak / threads:.0%}",
                *("" if peer is None else f"{peer * 1e3:.4f}" for peer in peers),
                f"{min(best.values()) / ours:.2f}" if best else "",
            )  # fmt: skip
        Console().print(table)


if __name__ == "__main__":
    main()
