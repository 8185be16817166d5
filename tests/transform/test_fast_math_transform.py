"""FastMathTransform: tanh by a faster formula."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax.analysis import assert_well_formed
from relax.ir import DiagnosticError
from relax.script import ir as I
from relax.script import relax as R
from relax.transform import FastMathTransform, LegalizeOps, PassContext, VerifyInstrument
from support import PLAIN_LOOPS


def applied(mod):
    """The module after the pass, which keeps its promises, and changes nothing the second time."""
    step = FastMathTransform()
    with PassContext(instruments=[VerifyInstrument(assert_well_formed)]):
        after = step(mod)
        assert step(after) is after
    return after


def value(*shape):
    return np.resize(np.array([np.nan, np.inf, -np.inf, -0.0, 0.3, -1.5, 7.0], "float32"), shape)


@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor(("n", 3), "float32"), c: R.Tensor((), "bool")):
        y = R.tanh(x)
        if c:
            z = R.tanh(y)
        else:
            z = R.exp(y)
        return R.add(z, y)


def test_tanh_of_any_size_and_in_branches():
    after = applied(Model)
    text = after["main"].script()
    assert text.count("fast_tanh") == 2
    assert "R.tanh" not in text
    assert "R.exp" in text
    main = relax.VirtualMachine(relax.build(after, PLAIN_LOOPS))["main"]
    for n in (0, 1, 4):
        x = value(n, 3)
        for c in (True, False):
            expected = relax.interpret(Model, "main", x, np.array(c)).numpy()
            for found in (relax.interpret(after, "main", x, np.array(c)), main(x, np.array(c))):
                np.testing.assert_allclose(found.numpy(), expected, rtol=2e-6)
                np.testing.assert_array_equal(np.signbit(found.numpy()), np.signbit(expected))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_floats(dtype):
    x = relax.Var("x", R.Tensor((7,), dtype))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(relax.op.tanh(x)))
    after = applied(builder.get())
    assert f'R.Tensor((7,), dtype="{dtype}")' in after["main"].script()
    given = relax.nd.array(value(7), dtype=dtype)
    found, expected = (relax.interpret(m, "main", given).numpy() for m in (after, builder.get()))
    np.testing.assert_allclose(found.astype("float32"), expected.astype("float32"), rtol=2**-7)


def test_the_virtual_device_stays():
    @I.ir_module
    class Placed:
        I.module_global_infos({"vdevice": [I.vdevice("llvm")]})

        @R.function
        def main(x: R.Tensor((2,), "float32", "llvm:0")):
            return R.tanh(x)

    after = applied(Placed)
    assert "fast_tanh" in after["main"].script()
    relax.ir.assert_structural_equal(after["main"].ret_struct_info, Placed["main"].ret_struct_info)


def test_what_stays():
    @I.ir_module
    class Stays:
        @R.function
        def main(x: R.Tensor((2,), "float64"), y: R.Tensor("float32"), z: R.Tensor((2,), "float32")):
            return R.tanh(x), R.tanh(y), R.exp(z), R.erf(z), R.nn.softmax(z)

    assert applied(Stays) is Stays


def test_operators_legalized_afterwards():
    after = LegalizeOps()(applied(Model))
    assert [g.name_hint for g in after.functions][:2] == ["main", "fast_tanh"]
    np.testing.assert_allclose(
        relax.interpret(after, "main", value(2, 3), np.array(True)).numpy(),
        relax.interpret(Model, "main", value(2, 3), np.array(True)).numpy(),
        rtol=2e-6,
    )


def test_a_tanh_of_whole_numbers_is_an_error_before():
    text = Model.script().replace('"float32"', '"int32"')
    with pytest.raises(DiagnosticError, match="E31.*tanh") as error:
        relax.script.from_source(text)
    assert error.value.diagnostics[0].span is not None
