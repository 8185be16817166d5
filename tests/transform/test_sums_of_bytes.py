"""SumsOfBytes: quantised tensors are added by two fused multiply-adds."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax.codegen import resolve
from relax.script import from_source
from relax.transform import SumsOfBytes

rng = np.random.default_rng(11)

SUM = """
@I.ir_module
class Module:
    @R.function
    def main(a: R.Tensor(("n", 3), "LEFT"), b: R.Tensor(SHAPE, "RIGHT"), s: R.Tensor((), "float32")):
        with R.dataflow():
            x = R.dequantize(a, R.const(0.037), R.const(ZERO, "LEFT"))
            y = R.dequantize(b, SCALE, R.const(-3 if "RIGHT" == "int8" else 7, "RIGHT"))
            v = R.add(x, y)
            q = R.quantize(v, R.const(0.051), R.const(19, "OUT"), out_dtype="OUT")
            R.output(q)
        return q
"""


def summed(
    left: str = "uint8",
    right: str = "uint8",
    out: str = "uint8",
    *,
    zero: int = 100,
    scale: str = "R.const(0.029)",
    shape: str = '("n", 3)',
    relu: bool = False,
) -> relax.IRModule:
    """A sum of two quantised tensors."""
    text = SUM.replace("LEFT", left).replace("OUT", out).replace("SCALE", scale).replace("SHAPE", shape)
    text = text.replace('R.const(-3 if "RIGHT" == "int8" else 7', f"R.const({-3 if right == 'int8' else 7}")
    text = text.replace("RIGHT", right).replace("ZERO", str(zero))
    return from_source(text.replace("R.add(x, y)", "R.nn.relu(R.add(x, y))") if relu else text)


def rewritten(module: relax.IRModule, target: str = "llvm -mcpu=skylake-avx512") -> relax.IRModule:
    with resolve(target):
        return SumsOfBytes()(module)


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize(
    ("left", "right", "out", "zero"),
    [("uint8", "uint8", "uint8", 100), ("int8", "uint8", "int8", -20), ("uint8", "int8", "int8", 0)],
)
def test_every_pair(left, right, out, zero, relu):
    """The integers of all pairs are what the interpreter computes of the program as it was written."""
    module = summed(left, right, out, zero=zero, relu=relu)
    assert "fma" in rewritten(module).script()
    assert "R.dequantize" not in rewritten(module).script()
    machine = relax.VirtualMachine(relax.build(module, "llvm"), relax.cpu())
    a, b = (
        np.ascontiguousarray(part.reshape(-1)).astype("uint8") for part in np.meshgrid(np.arange(256), np.arange(256))
    )
    for n in (0, 1, 5, 65536 // 3):
        one, other = (np.resize(part, (n, 3)) for part in (a, b))
        args = one.view(left), other.view(right), np.float32(0)
        expected = relax.interpret(module, "main", *args).numpy()
        np.testing.assert_array_equal(machine["main"](*args).numpy(), expected)


@pytest.mark.parametrize(
    "module",
    [
        pytest.param(summed(scale="s"), id="a scale that is known when the program runs"),
        pytest.param(summed(scale="R.const([0.5, 0.25, 0.125])"), id="a scale for each column"),
        pytest.param(summed(shape='("m", 3)'), id="rows that are not known to be as many"),
        pytest.param(summed(shape="(3,)"), id="a row for all"),
        pytest.param(summed(right="int16"), id="wide integers"),
        pytest.param(summed(scale="R.const(float('inf'))"), id="no finite scale"),
    ],
)
def test_declines(module):
    assert rewritten(module) is module


def test_machines_without_fused_multiply_adds():
    module = summed()
    assert rewritten(module, "llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64") is module
    assert SumsOfBytes()(module) is module


ROUNDED = """
@I.ir_module
class Module:
    @R.function
    def main(a: R.Tensor(("n", 5), "int32"), b: R.Tensor(("n", 5), "uint8")):
        with R.dataflow():
            f = R.multiply(R.astype(a, "float32"), R.const(FACTOR))
            q = R.quantize(f, R.const(1.0), R.const(ZERO, "OUT"), out_dtype="OUT")
            x = R.dequantize(q, R.const(0.037), R.const(ZERO, "OUT"))
            y = R.dequantize(b, R.const(0.029), R.const(7, "uint8"))
            v = R.add(y, x)
            p = R.quantize(v, R.const(0.051), R.const(19, "uint8"), out_dtype="uint8")
            R.output(OUTPUT)
        return (OUTPUT,)
"""


@pytest.mark.parametrize(("out", "zero"), [("uint8", 100), ("int8", -20)])
@pytest.mark.parametrize("output", ["p", "q, p"])
def test_what_is_quantised_for_the_sum_only_is_no_tensor_of_bytes(out, zero, output):
    text = ROUNDED.replace("OUTPUT", output).replace("OUT", out).replace("ZERO", str(zero))
    module = from_source(text.replace("FACTOR", "0.0173"))
    assert ("R.quantize" in rewritten(module).script()) == (output != "p")
    machine = relax.VirtualMachine(relax.build(module, "llvm"), relax.cpu())
    for n in (0, 1, 3, 16, 17, 999):
        a = rng.integers(-15000, 15000, (n, 5)).astype("int32")
        a.reshape(-1)[:2] = [2**31 - 1, -(2**31)][: a.size]
        b = rng.integers(0, 256, (n, 5)).astype("uint8")
        expected = relax.interpret(module, "main", a, b)
        for one, other in zip(machine["main"](a, b), expected, strict=True):
            np.testing.assert_array_equal(one.numpy(), other.numpy())


def test_floats_that_may_be_no_number_stay_bytes():
    """NaN is quantised to 0, which is not the least integer of int8."""
    text = ROUNDED.replace("OUTPUT", "p").replace("OUT", "int8").replace("ZERO", "-20")
    module = from_source(text.replace("FACTOR", "float('inf')"))
    assert "R.quantize" in rewritten(module).script()
    machine = relax.VirtualMachine(relax.build(module, "llvm"), relax.cpu())
    a, b = np.array([[0, 1, -1, 0, 5]], "int32"), np.full((1, 5), 3, "uint8")
    expected = relax.interpret(module, "main", a, b)[0].numpy()
    np.testing.assert_array_equal(machine["main"](a, b)[0].numpy(), expected)
