"""Kernels that memory bounds, and others that are neither products nor convolutions, against ONNX Runtime.

    python benchmarks/kernels_memory.py [--seconds S] [--threads N ...] [--only WORD]

Each row is one operator or chain of operators as one kernel. The columns are the time of the kernel as its formula says
it, as the schedule rules arrange it, and of ONNX Runtime where it is installed and has the operator; then the peer's
time as a multiple of the rules', and the speed of a copy of the same number of bytes as a share of the rules' time.
The candidates run in turn in one process; times are the least of all runs.
"""

from __future__ import annotations

import argparse
import importlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm_ffi
from rich.console import Console
from rich.table import Table

from relax.codegen import build_module, resolve
from relax.ir import IRModule
from relax.runtime import set_num_threads
from relax.schedules import cpu, schedule
from relax.script import from_source
from relax.tir import PrimFunc
from relax.transform import FuseOps, FuseTIR, LegalizeOps
from relax.transform.fusion import AnnotateTIROpPattern

Run = Callable[[], object]


@dataclass(frozen=True)
class Case:
    """One kernel: the shapes of its operands, its expression in Relax, and the same as nodes of ONNX."""

    name: str
    shapes: tuple[tuple[int, ...], ...]
    expression: str
    nodes: tuple[tuple[str, str, str, dict[str, Any]], ...] = ()
    """Operator, operands and result (names apart by spaces), attributes. Operands are x0, x1, …; the result is y."""
    constants: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """Further operands of the nodes: integers."""
    dtypes: tuple[str, ...] = ()
    """Dtypes of operands; float32 if there are none."""

    def dtype(self, i: int) -> str:
        return self.dtypes[i] if self.dtypes else "float32"


def one(op: str, inputs: str = "x0", **attributes: Any) -> tuple[tuple[str, str, str, dict[str, Any]], ...]:
    """A model of one node."""
    return ((op, inputs, "y", attributes),)


GELU_CHAIN = (
    ("Mul", "x0 x1", "m", {}), ("Add", "m x2", "s", {}), ("Gelu", "s", "g", {}), ("Add", "g x3", "y", {}),
)  # fmt: skip

CASES: tuple[Case, ...] = (
    Case("softmax 1024x1024", ((1024, 1024),), "R.nn.softmax(x0)", one("Softmax")),
    Case("softmax 4608x384", ((4608, 384),), "R.nn.softmax(x0)", one("Softmax")),
    Case("softmax axis 1, 8x64x1024", ((8, 64, 1024),), "R.nn.softmax(x0, axis=1)", one("Softmax", axis=1)),
    Case("log_softmax 1024x1024", ((1024, 1024),), "R.nn.log_softmax(x0)", one("LogSoftmax")),
    Case("layer_norm 1024x768", ((1024, 768), (768,), (768,)), "R.nn.layer_norm(x0, x1, x2, axes=[-1])",
         one("LayerNormalization", "x0 x1 x2")),
    Case("layer_norm 128x768", ((128, 768), (768,), (768,)), "R.nn.layer_norm(x0, x1, x2, axes=[-1])",
         one("LayerNormalization", "x0 x1 x2")),
    Case("rms_norm 1024x768", ((1024, 768), (768,)), "R.nn.rms_norm(x0, x1, axes=[-1])",
         one("RMSNormalization", "x0 x1")),
    Case("instance_norm 8x64x56x56", ((8, 64, 56, 56), (64,), (64,)),
         "R.nn.instance_norm(x0, x1, x2, channel_axis=1, axes=[2, 3])", one("InstanceNormalization", "x0 x1 x2")),
    Case("group_norm 8x64x56x56", ((8, 64, 56, 56), (64,), (64,)),
         "R.nn.group_norm(x0, x1, x2, num_groups=8, channel_axis=1, axes=[2, 3])",
         one("GroupNormalization", "x0 x1 x2", num_groups=8)),
    Case("gelu(x*a + b) + r 1024x3072", ((1024, 3072), (3072,), (3072,), (1024, 3072)),
         "R.add(R.nn.gelu(R.add(R.multiply(x0, x1), x2)), x3)", GELU_CHAIN),
    Case("relu 1024x3072", ((1024, 3072),), "R.nn.relu(x0)", one("Relu")),
    Case("exp 1024x1024", ((1024, 1024),), "R.exp(x0)", one("Exp")),
    Case("tanh 1024x1024", ((1024, 1024),), "R.tanh(x0)", one("Tanh")),
    Case("sigmoid 1024x1024", ((1024, 1024),), "R.sigmoid(x0)", one("Sigmoid")),
    Case("erf 1024x1024", ((1024, 1024),), "R.erf(x0)", one("Erf")),
    Case("add 64x56x56 + 64x1x1", ((64, 56, 56), (64, 1, 1)), "R.add(x0, x1)", one("Add", "x0 x1")),
    Case("add 1024x3072", ((1024, 3072), (1024, 3072)), "R.add(x0, x1)", one("Add", "x0 x1")),
    Case("sum of all 1024x1024", ((1024, 1024),), "R.sum(x0)", one("ReduceSum", keepdims=0)),
    Case("sum of rows 1024x1024", ((1024, 1024),), "R.sum(x0, axis=1)",
         one("ReduceSum", "x0 c0", keepdims=0), (("c0", (1,)),)),
    Case("sum of columns 1024x1024", ((1024, 1024),), "R.sum(x0, axis=0)",
         one("ReduceSum", "x0 c0", keepdims=0), (("c0", (0,)),)),
    Case("max of rows 1024x1024", ((1024, 1024),), "R.max(x0, axis=1)",
         one("ReduceMax", "x0 c0", keepdims=0), (("c0", (1,)),)),
    Case("argmax of rows 1024x1024", ((1024, 1024),), "R.argmax(x0, axis=1)",
         one("ArgMax", axis=1, keepdims=0)),
    Case("mean of images 8x256x28x28", ((8, 256, 28, 28),), "R.mean(x0, axis=[2, 3])",
         one("ReduceMean", "x0 c0", keepdims=0), (("c0", (2, 3)),)),
    Case("transpose 1024x1024", ((1024, 1024),), "R.permute_dims(x0)", one("Transpose", perm=[1, 0])),
    Case("heads 4x384x12x64 0213", ((4, 384, 12, 64),), "R.permute_dims(x0, [0, 2, 1, 3])",
         one("Transpose", perm=[0, 2, 1, 3])),
    Case("NCHW to NHWC 4x64x56x56", ((4, 64, 56, 56),), "R.permute_dims(x0, [0, 2, 3, 1])",
         one("Transpose", perm=[0, 2, 3, 1])),
    Case("concat 1024x(512 + 256)", ((1024, 512), (1024, 256)), "R.concat((x0, x1), axis=1)",
         one("Concat", "x0 x1", axis=1)),
    Case("take 30000x768 by 512", ((30000, 768), (512,)), "R.take(x0, x1, axis=0)",
         one("Gather", "x0 x1", axis=0), dtypes=("float32", "int64")),
    Case("max_pool 3x3/2 1x64x112x112", ((1, 64, 112, 112),), "R.nn.max_pool2d(x0, (3, 3), (2, 2), (1, 1))",
         one("MaxPool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])),
    Case("avg_pool 2x2/2 1x64x112x112", ((1, 64, 112, 112),), "R.nn.avg_pool2d(x0, (2, 2), (2, 2))",
         one("AveragePool", kernel_shape=[2, 2], strides=[2, 2])),
    Case("cumsum of rows 1024x1024", ((1024, 1024),), "R.cumsum(x0, axis=1)",
         one("CumSum", "x0 c0"), (("c0", (1,)),)),
)  # fmt: skip


def kernel_of(case: Case) -> PrimFunc:
    """The one kernel that the case's expression becomes."""
    params = ", ".join(f'x{i}: R.Tensor({shape!r}, "{case.dtype(i)}")' for i, shape in enumerate(case.shapes))
    source = f"""
from relax.script import ir as I, relax as R

@I.ir_module
class Model:
    @R.function
    def main({params}):
        with R.dataflow():
            y = {case.expression}
            R.output(y)
        return y
"""
    mod = from_source(source)
    assert isinstance(mod, IRModule)
    for step in (LegalizeOps(), AnnotateTIROpPattern(), FuseOps(), FuseTIR()):
        mod = step(mod)
    (kernel,) = (func for func in mod.functions.values() if isinstance(func, PrimFunc))
    return kernel


def operands(case: Case) -> list[Any]:
    """Random numbers; indices below 30,000."""
    generator = np.random.default_rng(0)
    return [
        generator.integers(0, 30000, shape) if case.dtype(i) == "int64" else
        generator.standard_normal(shape).astype(case.dtype(i))
        for i, shape in enumerate(case.shapes)
    ]  # fmt: skip


def own(kernel: PrimFunc, given: Sequence[Any], arranged: bool) -> tuple[Run, Any]:
    """A run of the kernel, and the array of its result."""
    if arranged:
        kernel = schedule(kernel, resolve("llvm"), cpu.RULES)
    outputs = [kernel.buffer_map[param] for param in kernel.params[len(given) :]]
    results = [np.zeros([int(size) for size in out.shape], str(out.dtype)) for out in outputs]
    compiled = build_module(kernel)["main"].packed
    arguments = [tvm_ffi.from_dlpack(array) for array in (*given, *results)]
    return (lambda: compiled(*arguments)), results[0]


def peer(case: Case, given: Sequence[Any], threads: int) -> tuple[Run, Callable[[], Any]] | None:
    """A run of ONNX Runtime with operands and result in place, and its result; None without it."""
    try:
        onnxruntime = importlib.import_module("onnxruntime")
        helper, numpy_helper = (
            importlib.import_module(f"onnx.{part}") for part in ("helper", "numpy_helper")
        )
    except ImportError:
        return None
    if not case.nodes:
        return None
    nodes = [helper.make_node(op, i.split(), [o], **attributes) for op, i, o, attributes in case.nodes]
    inputs = [
        helper.make_tensor_value_info(f"x{i}", helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for i, array in enumerate(given)
    ]
    constants = [numpy_helper.from_array(np.array(values, "int64"), name) for name, values in case.constants]
    outputs = [helper.make_empty_tensor_value_info("y")]
    graph = helper.make_graph(nodes, "g", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 4
    try:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except Exception:  # noqa: BLE001  the peer does not have the operator
        return None
    feeds = {f"x{i}": array for i, array in enumerate(given)}
    result = session.run(None, feeds)[0]
    binding = session.io_binding()
    for name, array in feeds.items():
        binding.bind_cpu_input(name, array)
    place = onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros_like(result))
    binding.bind_ortvalue_output("y", place)
    return (lambda: session.run_with_iobinding(binding)), place.numpy


def race(candidates: dict[str, Run], seconds: float) -> dict[str, float]:
    """The least time of each, in turn until the seconds are over."""
    best = dict.fromkeys(candidates, float("inf"))
    end = time.perf_counter() + seconds
    while True:
        for name, run in candidates.items():
            start = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - start)
        if time.perf_counter() > end:
            return best


def measure(case: Case, threads: int, seconds: float) -> tuple[str, ...]:
    """One row of the table."""
    given, kernel = operands(case), kernel_of(case)
    set_num_threads(threads)
    plain, expected = own(kernel, given, arranged=False)
    start = time.process_time()
    rules, result = own(kernel, given, arranged=True)
    compiling = time.process_time() - start
    source = np.zeros(max(sum(array.nbytes for array in given) + result.nbytes, 128) // 8, "float32")
    target = np.zeros_like(source)
    candidates: dict[str, Run] = {"plain": plain, "rules": rules, "copy": lambda: np.copyto(target, source)}
    other = peer(case, given, threads)
    if other is not None:
        candidates["peer"] = other[0]
    best = race(candidates, seconds)
    np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-4)
    if other is not None:
        np.testing.assert_allclose(result, other[1](), rtol=1e-3, atol=1e-4)
    show = [f"{best[name] * 1e3:.3f}" for name in ("plain", "rules")]
    show += [f"{best['peer'] * 1e3:.3f}", f"{best['peer'] / best['rules']:.2f}"] if other else ["", ""]
    return (case.name, str(threads), *show, f"{best['copy'] / best['rules']:.2f}", f"{compiling * 1e3:.0f}")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Kernels that memory bounds, against ONNX Runtime.")
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    table = Table(
        "kernel", "threads", "plain ms", "rules ms", "peer ms", "peer / rules", "copy / rules", "compile ms"
    )
    for case in CASES:
        if options.only in case.name:
            for threads in options.threads:
                table.add_row(*measure(case, threads, options.seconds))
    Console(width=130).print(table)


if __name__ == "__main__":
    main()
