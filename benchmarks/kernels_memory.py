"""Kernels that memory bounds, and others that are neither products nor convolutions, against other engines.

    python benchmarks/kernels_memory.py [--seconds S] [--threads N ...] [--only WORD] [--busy]

Each row is one operator or chain of operators as one kernel. The columns are the time of the kernel as its formula says
it, as the schedule rules arrange it, and of ONNX Runtime and OpenVINO where they are installed and have the operator;
then the faster one's time as a multiple of the rules'; the time of a plain copy that reads and writes as many bytes as
the kernel does, or of a plain read for a kernel that writes less than a tenth of what it reads, as a share of the
rules' time; and what compiling took of processors.
The candidates run in turn in one process; times are the least of all runs.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm_ffi
from kernels import Run, aligned, arguments, clock_of, memory, onnx_runtime, openvino, race
from onnx import helper, numpy_helper
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
    nread: int | None = None
    """The bytes that are read of the operands, if not all."""

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
    Case("cast 1024x3072 to float16", ((1024, 3072),), 'R.astype(x0, "float16")', one("Cast", to=10)),
    Case("cast 1024x3072 to int32", ((1024, 3072),), 'R.astype(x0, "int32")', one("Cast", to=6)),
    Case("cast bytes 1024x3072", ((1024, 3072),), 'R.astype(x0, "float32")', one("Cast", to=1), dtypes=("uint8",)),
    Case("sum of all 1024x1024", ((1024, 1024),), "R.sum(x0)", one("ReduceSum", keepdims=0)),
    Case("sum of rows 1024x1024", ((1024, 1024),), "R.sum(x0, axis=1)",
         one("ReduceSum", "x0 c0", keepdims=0), (("c0", (1,)),)),
    Case("sum of columns 1024x1024", ((1024, 1024),), "R.sum(x0, axis=0)",
         one("ReduceSum", "x0 c0", keepdims=0), (("c0", (0,)),)),
    Case("sum of columns 4096x1024", ((4096, 1024),), "R.sum(x0, axis=0)",
         one("ReduceSum", "x0 c0", keepdims=0), (("c0", (0,)),)),
    Case("max of rows 1024x1024", ((1024, 1024),), "R.max(x0, axis=1)",
         one("ReduceMax", "x0 c0", keepdims=0), (("c0", (1,)),)),
    Case("max of columns 1024x1024", ((1024, 1024),), "R.max(x0, axis=0)",
         one("ReduceMax", "x0 c0", keepdims=0), (("c0", (0,)),)),
    Case("mean of the middle 32x256x512", ((32, 256, 512),), "R.mean(x0, axis=1)",
         one("ReduceMean", "x0 c0", keepdims=0), (("c0", (1,)),)),
    Case("sum of ends 64x256x64", ((64, 256, 64),), "R.sum(x0, axis=[0, 2])",
         one("ReduceSum", "x0 c0", keepdims=0), (("c0", (0, 2)),)),
    Case("argmax of columns 1024x1024", ((1024, 1024),), "R.argmax(x0, axis=0)",
         one("ArgMax", axis=0, keepdims=0)),
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
    Case("concat (512 + 256)x1024", ((512, 1024), (256, 1024)), "R.concat((x0, x1), axis=0)",
         one("Concat", "x0 x1", axis=0)),
    Case("concat 1x(64 + 64)x56x56", ((1, 64, 56, 56), (1, 64, 56, 56)), "R.concat((x0, x1), axis=1)",
         one("Concat", "x0 x1", axis=1)),
    Case("pad 64x112x112 by 1", ((64, 112, 112),), "R.nn.pad(x0, (0, 0, 1, 1, 1, 1))",
         one("Pad", "x0 c0"), (("c0", (0, 1, 1, 0, 1, 1)),)),
    Case("heads 4x384x12x64 0231", ((4, 384, 12, 64),), "R.permute_dims(x0, [0, 2, 3, 1])",
         one("Transpose", perm=[0, 2, 3, 1])),
    Case("NHWC to NCHW 4x56x56x64", ((4, 56, 56, 64),), "R.permute_dims(x0, [0, 3, 1, 2])",
         one("Transpose", perm=[0, 3, 1, 2])),
    Case("transpose bytes 1024x1024", ((1024, 1024),), "R.permute_dims(x0)", one("Transpose", perm=[1, 0]),
         dtypes=("uint8",)),
    Case("slice 1024x(1024 of 3072)", ((1024, 3072),), "R.strided_slice(x0, (1,), (1024,), (2048,))",
         one("Slice", "x0 c0 c1 c2"), (("c0", (1024,)), ("c1", (2048,)), ("c2", (1,))), nread=1024 * 1024 * 4),
    Case("take 30000x768 by 512", ((30000, 768), (512,)), "R.take(x0, x1, axis=0)",
         one("Gather", "x0 x1", axis=0), dtypes=("float32", "int64"), nread=512 * 768 * 4),
    Case("max_pool 3x3/2 1x64x112x112", ((1, 64, 112, 112),), "R.nn.max_pool2d(x0, (3, 3), (2, 2), (1, 1))",
         one("MaxPool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])),
    Case("avg_pool 2x2/2 1x64x112x112", ((1, 64, 112, 112),), "R.nn.avg_pool2d(x0, (2, 2), (2, 2))",
         one("AveragePool", kernel_shape=[2, 2], strides=[2, 2])),
    Case("sort 256x1000", ((256, 1000),), "R.sort(x0, axis=1)",
         (("TopK", "x0 c0", "y i", {"axis": 1, "largest": 0}),), (("c0", (1000,)),)),
    Case("top 10 of 256x1000", ((256, 1000),), 'R.topk(x0, k=10, axis=1, ret_type="values")',
         (("TopK", "x0 c0", "y i", {"axis": 1}),), (("c0", (10,)),)),
    Case("scatter_elements 1000x256 by 512x256", ((1000, 256), (512, 256), (512, 256)),
         "R.scatter_elements(x0, x1, x2, axis=0)", one("ScatterElements", "x0 x1 x2", axis=0),
         dtypes=("float32", "int64", "float32")),
    Case("gather_elements 30000x256 by 512x256", ((30000, 256), (512, 256)),
         "R.gather_elements(x0, x1, axis=0)", one("GatherElements", "x0 x1", axis=0),
         dtypes=("float32", "int64"), nread=512 * 256 * 36),
    Case("cumsum of rows 1024x1024", ((1024, 1024),), "R.cumsum(x0, axis=1)",
         one("CumSum", "x0 c0"), (("c0", (1,)),)),
    Case("cumsum of columns 1024x1024", ((1024, 1024),), "R.cumsum(x0, axis=0)",
         one("CumSum", "x0 c0"), (("c0", (0,)),)),
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
    """Random numbers; indices of rows of the first operand."""
    generator = np.random.default_rng(0)
    return [
        aligned(generator.integers(0, case.shapes[0][0], shape) if case.dtype(i) == "int64" else
                generator.standard_normal(shape).astype(case.dtype(i)))
        for i, shape in enumerate(case.shapes)
    ]  # fmt: skip


def own(kernel: PrimFunc, given: Sequence[Any], arranged: bool) -> tuple[Run, Any]:
    """A run of the kernel, and the array of its result."""
    if arranged:
        kernel = schedule(kernel, resolve("llvm"), cpu.RULES)
    outputs = [kernel.buffer_map[param] for param in kernel.params[len(given) :]]
    results = [aligned(np.zeros([int(size) for size in out.shape], str(out.dtype))) for out in outputs]
    compiled = build_module(kernel)["main"].packed
    arguments = [tvm_ffi.from_dlpack(array) for array in (*given, *results)]
    return (lambda: compiled(*arguments)), results[0]


def model_of(case: Case, given: Sequence[Any]) -> bytes:
    """The case as an ONNX model."""
    nodes = [helper.make_node(op, i.split(), o.split(), **attributes) for op, i, o, attributes in case.nodes]
    inputs = [
        helper.make_tensor_value_info(f"x{i}", helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for i, array in enumerate(given)
    ]
    constants = [numpy_helper.from_array(np.array(values, "int64"), name) for name, values in case.constants]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_empty_tensor_value_info("y")], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10).SerializeToString()


def peers(case: Case, given: Sequence[Any], threads: int) -> dict[str, Run]:
    """Runs of the engines that are installed and take the case."""
    if not case.nodes:
        return {}
    model = model_of(case, given)
    feeds = {f"x{i}": array for i, array in enumerate(given)}
    makers = {"onnxruntime": onnx_runtime, "openvino": openvino}
    made = {name: make(model, feeds, threads) for name, make in makers.items()}
    return {name: run for name, run in made.items() if run is not None}


def measure(case: Case, threads: int, seconds: float, busy: bool) -> tuple[str, ...]:
    """One row of the table."""
    given, kernel = operands(case), kernel_of(case)
    set_num_threads(threads)
    plain, expected = own(kernel, given, arranged=False)
    start = time.process_time()
    rules, result = own(kernel, given, arranged=True)
    compiling = time.process_time() - start
    nread = sum(array.nbytes for array in given) if case.nread is None else case.nread
    few = result.nbytes * 10 < nread
    most = memory("read", nread) if few else memory("copy", nread + result.nbytes)
    candidates = {"plain": plain, "rules": rules, "memory": most, **peers(case, given, threads)}
    best = race(candidates, seconds, clock_of(busy, threads))
    np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-4)
    others = [best.get(name) for name in ("onnxruntime", "openvino")]
    found = [t for t in others if t is not None]
    return (
        case.name, str(threads), f"{best['plain'] * 1e3:.3f}", f"{best['rules'] * 1e3:.3f}",
        *("" if t is None else f"{t * 1e3:.3f}" for t in others),
        f"{min(found) / best['rules']:.2f}" if found else "",
        f"{best['memory'] / best['rules']:.2f}", f"{compiling * 1e3:.0f}",
    )  # fmt: skip


def main() -> None:
    """Print the table."""
    options = arguments("Kernels that memory bounds, against other engines.", 0.5)
    columns = (
        "kernel", "threads", "plain ms", "rules ms", "onnxruntime", "openvino", "faster / rules",
        "memory / rules", "compile ms",
    )  # fmt: skip
    table = Table(*columns)
    for case in CASES:
        if options.only in case.name:
            for threads in options.threads:
                table.add_row(*measure(case, threads, options.seconds, options.busy))
    Console(width=150).print(table)


if __name__ == "__main__":
    main()
