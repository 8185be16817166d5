"""Operators as torch's functions: each gives what the interpreter gives, at several sizes, saved and loaded."""

from __future__ import annotations

import importlib
import subprocess
import sys

import numpy as np
import onnxruntime as ort
import pytest

import relax
from relax.backend.torch import partition_for_torch
from relax.frontend.onnx import from_onnx
from relax.runtime import Executable
from relax.runtime.libraries.torch import BINARY, UNARY, TorchRuntime
from relax.script import from_source
from support import numbers

pytest.importorskip("torch")


def parse(params, *body):
    """A program with one dataflow block."""
    lines = "\n".join(f"            {line}" for line in body)
    return from_source(
        "from relax.script import ir as I, relax as R, tir as T\n@I.ir_module\nclass M:\n    @R.function\n"
        f"    def main({params}):\n        with R.dataflow():\n{lines}\n            R.output(y)\n        return y\n"
    )


X = (("n", 4),)
CASES = {
    **{name: (X, f"R.{name}(x0)") for name in UNARY},
    **{name: (X * 2, f"R.{name}(x0, x1)") for name in BINARY if name != "matmul"},
    "matmul": (X * 2, "R.matmul(x0, R.permute_dims(x1))"),
    "nn.gelu": (X, "R.nn.gelu(x0)"),
    "nn.silu": (X, "R.nn.silu(x0)"),
    "nn.leakyrelu": (X, "R.nn.leakyrelu(x0, alpha=0.25)"),
    "nn.softmax": (X, "R.nn.softmax(x0, axis=-1)"),
    "nn.log_softmax": (X, "R.nn.log_softmax(x0, axis=1)"),
    "nn.layer_norm": ((*X, (4,), (4,)), "R.nn.layer_norm(x0, x1, x2, axes=[-1])"),
    "nn.conv2d": ((("n", 2, 5, 6), (4, 1, 3, 2)), "R.nn.conv2d(x0, x1, strides=[2, 1], padding=[1, 2], groups=2)"),
    "permute_dims": (X, "R.permute_dims(x0)"),
    "sum": (X, "R.sum(x0, axis=[0])"),
    "mean": (X, "R.mean(x0, axis=[-1], keepdims=True)"),
}
"""For each operator, the shapes of its operands and a call."""


def parameters(shapes, dtype):
    """Parameters of these shapes, as text."""
    return ", ".join(f'x{i}: R.Tensor({shape}, "{dtype}")' for i, shape in enumerate(shapes))


def arguments(shapes, n, dtype):
    """Tensors of these shapes, the first with a NaN and an infinity."""
    values = [
        numbers(*(n if size == "n" else size for size in shape), dtype=dtype, seed=seed)
        for seed, shape in enumerate(shapes)
    ]
    if values[0].size > 4:
        values[0].flat[:2] = np.nan, np.inf
    return values


@pytest.mark.parametrize("name", CASES)
def test_each_operator(name):
    shapes, call = CASES[name]
    for dtype in ("float32", "float64"):
        mod = parse(parameters(shapes, dtype), f"y = {call}")
        executable = Executable.from_bytes(relax.build(partition_for_torch(mod)).to_bytes())
        assert [module.kind for module in executable.modules] == ["torch"]
        run = relax.VirtualMachine(executable)["main"]
        for n in (3, 1, 0):
            args = arguments(shapes, n, dtype)
            expected = relax.interpret(mod, "main", *args).numpy()
            np.testing.assert_allclose(run(*args).numpy(), expected, 1e-4, 1e-5)


@pytest.mark.parametrize("call", ["R.sum(x0)", "R.sum(x0, axis=[])", "R.mean(x0, axis=[])", "R.mean(x0, axis=[0, 1])"])
def test_axes_of_reductions(call):
    mod = parse(parameters(X, "float32"), f"y = {call}")
    split = partition_for_torch(mod)
    assert split is not mod
    x = numbers(3, 4)
    np.testing.assert_allclose(
        relax.VirtualMachine(relax.build(split))["main"](x).numpy(), relax.interpret(mod, "main", x).numpy(), 1e-5, 1e-5
    )


def test_every_operator_has_a_case():
    assert {name.removeprefix("torch.") for name in TorchRuntime.operators} == {*CASES}


@pytest.mark.parametrize(
    ("params", "call"),
    [
        ('x: R.Tensor((2,), "int32")', "R.add(x, x)"),
        ('x: R.Tensor((2,), "float16")', "R.exp(x)"),
        ('x: R.Tensor("float32")', "R.exp(x)"),
        (
            'x: R.Tensor((1, 5, 6, 2), "float32"), w: R.Tensor((4, 2, 3, 2), "float32")',
            'R.nn.conv2d(x, w, data_layout="NHWC", kernel_layout="OIHW")',
        ),
        (
            'x: R.Tensor((1, 2, 5, 6), "float32"), w: R.Tensor((4, 2, 3, 2), "float32")',
            "R.nn.conv2d(x, w, padding=[1, 2, 0, 2])",
        ),
        (
            'x: R.Tensor((1, 1, 5, 6, 2), "float32"), w: R.Tensor((4, 2, 3, 2), "float32")',
            'R.nn.conv2d(x, w, data_layout="NCHW2c", out_layout="NCHW")',
        ),
    ],
)
def test_what_torch_does_not_compute_stays(params, call):
    mod = parse(params, f"y = {call}")
    assert partition_for_torch(mod) is mod


def test_a_model_is_one_function():
    mod = parse(
        'x: R.Tensor(("n", 4), "float32"), w: R.Tensor((8, 4), "float32")',
        "h = R.matmul(x, R.permute_dims(w))", "g = R.nn.gelu(h)", "y = R.nn.softmax(R.add(g, R.const(1.0)), axis=-1)",
    )  # fmt: skip
    split = partition_for_torch(mod)
    assert split["main"].script().count("R.call_dps_packed") == 1
    for n in (0, 1, 5):
        args = numbers(n, 4), numbers(8, 4)
        np.testing.assert_allclose(
            relax.VirtualMachine(relax.build(split))["main"](*args).numpy(),
            relax.interpret(mod, "main", *args).numpy(), 1e-5, 1e-6,
        )  # fmt: skip


def test_a_fresh_process_without_the_compiler(tmp_path):
    mod = parse(parameters(X, "float32"), "y = R.nn.softmax(x0, axis=-1)")
    relax.build(partition_for_torch(mod)).save(tmp_path / "model.rxe")
    code = f"""
import sys
import numpy as np, relax
main = relax.VirtualMachine(relax.runtime.load_module({str(tmp_path / "model.rxe")!r}))["main"]
print(main(np.zeros((2, 4), "float32")).numpy().tolist())
assert "relax.ir" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert eval(done.stdout) == [[0.25] * 4] * 2


@pytest.mark.parametrize("name", ["mobilenet", "bert", "llama"])
def test_models(name):
    module = importlib.import_module(f"models.{name}")
    model = module.model(**module.SMALL)
    executable = Executable.from_bytes(relax.build(partition_for_torch(from_onnx(model))).to_bytes())
    assert {module.kind for module in executable.modules} == {"torch"}
    run = relax.VirtualMachine(executable)["main"]
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for index in range(3):
        sizes = {dimension: values[index] for dimension, values in module.DIMENSIONS.items()}
        arrays = module.inputs(np.random.default_rng(1), **sizes)
        result = run(*(arrays[item.name] for item in model.graph.input))
        results = result if isinstance(result, (tuple, list)) else [result]
        for found, expected in zip(results, session.run(None, arrays), strict=True):
            np.testing.assert_allclose(found.numpy(), expected, 1e-4, 1e-5)
