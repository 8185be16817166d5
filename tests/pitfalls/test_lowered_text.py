"""What passes leave behind is a program like any other: it prints, parses without a warning, and re-derives."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from pitfall_helpers import arrays, parse

import relax
from relax.analysis import assert_well_formed
from relax.ir import DiagnosticError, IRModule, assert_structural_equal
from relax.ir.transform import PassContext, VerifyInstrument
from relax.optimize.pipeline import DEFAULT, MACHINE

PROGRAM = """
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def double(A: T.Buffer(("n",), "float32"), B: T.Buffer(("n",), "float32")):
        n = T.int64()
        for i in range(n):
            B[i] = A[i] * T.float32(2)

    @R.function
    def main(
        x: R.Tensor(("n", "m"), "float32"), y: R.Tensor(("m",), "float32"), c: R.Tensor((), "bool"), s: R.Shape(["k"])
    ) -> R.Tuple(R.Tensor(ndim=2, dtype="float32"), R.Tensor(("m",), "float32"), R.Shape(["n * m + k"])):
        cls = Module
        n = T.int64()
        m = T.int64()
        k = T.int64()
        with R.dataflow():
            z = R.call_tir(cls.double, (y,), R.Tensor((m,), "float32"))
            a = R.add(x, z)
            b = R.reshape(a, (m, n))
            R.output(b, z)

        @R.function
        def local(w: R.Tensor((m, n), "float32")) -> R.Tensor((m, n), "float32"):
            return R.add(w, b)

        if c:
            d = local(b)
        else:
            d = R.exp(b)
        e = R.shape([n * m + k])
        j = T.int64()
        u = R.match_cast(R.unique(z), R.Tensor((j,), "float32"))
        return (R.multiply(d, R.sum(u)), z, e)
"""

SHAPES = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", "m"), "float32"), c: R.Tensor((), "bool")) -> R.Tuple(R.Shape(ndim=2), R.Object):
        n = T.int64()
        m = T.int64()
        if c:
            r = R.shape([n * 2, m])
        else:
            r = R.shape([n * m, m])
        v = R.prim_value(n * m + 1)
        return (r, v)
"""

BUILTINS = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", "m"), "float32")) -> R.Tuple(R.Shape(ndim=2), R.Tensor((2,), "int64")):
        s = R.shape_of(x)
        t = R.shape_to_tensor(s)
        return (s, t)
"""

FLOATS = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n",), "float32"), p: R.Prim("float64")) -> R.Tuple(
        R.Prim("float64"), R.Shape(["n * 2 + 1"]), R.Prim("int64")
    ):
        n = T.int64()
        q = T.float64()
        _ = R.match_cast(p, R.Prim(value=q))
        a = R.prim_value(q * q + T.float64(1))
        b = R.shape([n * 2 + 1])
        c = R.prim_value(n * 3)
        return (a, b, c)
"""


def again(mod: IRModule) -> IRModule:
    """The module from its own text, without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return relax.script.from_source(mod.script(show_meta=True))


@pytest.mark.parametrize("count", range(len(DEFAULT) + 1))
def test_after_every_pass(count):
    mod = parse(PROGRAM)
    for step in DEFAULT[:count]:
        mod = step.make()(mod)
    parsed = again(mod)
    assert_structural_equal(parsed, mod)
    assert_well_formed(parsed)
    # And the text is as good a program as the module: it is compiled and run from here.
    with PassContext(instruments=[VerifyInstrument(assert_well_formed)]):
        vm = relax.VirtualMachine(relax.build(parsed, "llvm", pipeline=None if count > len(DEFAULT) - 3 else "default"))
    for n, m in ((0, 1), (1, 1), (2, 3)):
        x, y = np.linspace(0, 1, n * m, dtype="float32").reshape(n, m), np.linspace(1, 2, m, dtype="float32")
        b = (x + 2 * y).reshape(m, n)
        total = np.sum(np.unique(2 * y))
        for c in (True, False):
            d, z, e = arrays(vm["main"](x, y, np.array(c), (7,)))
            np.testing.assert_allclose(d, (b + b if c else np.exp(b)) * total, rtol=1e-5)
            assert z.tolist() == (2 * y).tolist()
            assert tuple(e) == (n * m + 7,)


@pytest.mark.parametrize("step", [step.make for step in MACHINE], ids=lambda make: make.__name__)
@pytest.mark.parametrize("text", [SHAPES, BUILTINS], ids=["shapes", "builtins"])
def test_passes_of_the_machine_alone_on_pure_functions(step, text):
    mod = step()(parse(text))
    parsed = again(mod)
    assert_structural_equal(parsed, mod)
    assert_well_formed(parsed)
    assert mod["main"].is_pure
    x = np.ones((2, 3), "float32")
    args = (x, np.array(True)) if text is SHAPES else (x,)
    original = arrays(relax.interpret(parse(text), "main", *args))
    for result in (
        relax.interpret(mod, "main", *args),
        relax.VirtualMachine(relax.build(parsed, "llvm", pipeline=None))["main"](*args),
    ):
        shape, other = arrays(result)
        assert tuple(shape) == tuple(original[0])
        np.testing.assert_array_equal(other, original[1])


def test_scalars_of_floats_are_computed_in_the_heap():
    """The heap and its view as float64 share memory, which no shape function may take for granted to be apart."""
    mod = parse(FLOATS)
    lowered = relax.transform.VMShapeLower()(mod)
    assert_structural_equal(again(lowered), lowered)
    for n in (0, 1, 2):
        x = np.zeros(n, "float32")
        for result in (
            relax.VirtualMachine(relax.build(mod, "llvm"))["main"](x, 1.5),
            relax.interpret(mod, "main", x, 1.5),
            relax.interpret(lowered, "main", x, 1.5),
        ):
            assert (result[0], tuple(result[1]), result[2]) == (3.25, (2 * n + 1,), 3 * n)


def test_what_a_pass_cannot_take_is_told():
    with pytest.raises(
        DiagnosticError, match="run LegalizeOps and CallTIRRewrite before, as the default pipeline does"
    ):
        relax.transform.VMBuiltinLower()(parse(PROGRAM))
