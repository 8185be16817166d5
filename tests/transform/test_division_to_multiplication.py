"""DivisionToMultiplication: quotients by constant powers of two become products, which are the same numbers."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax import op
from relax.script import ir as I
from relax.script import relax as R
from relax.transform import DivisionToMultiplication


def test_powers_of_two(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n", 2), "float32")):
            with R.dataflow():
                lv = R.divide(x, R.const(8.0, "float32"))
                gv = R.divide(lv, R.const([0.5, -4.0], "float32"))
                R.output(gv)
            return gv

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor(("n", 2), "float32")):
            with R.dataflow():
                lv = R.multiply(x, R.const(0.125, "float32"))
                gv = R.multiply(lv, R.const([2.0, -0.25], "float32"))
                R.output(gv)
            return gv

    check(DivisionToMultiplication(), Before, Expected)


def divided(divisor: np.ndarray) -> relax.IRModule:
    """A function of x that divides it by a constant."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor(("n",), str(divisor.dtype)))
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(op.divide(x, relax.const(divisor)))
        builder.emit_func_output(result)
    return builder.get()


@pytest.mark.parametrize(
    "divisor",
    [
        np.array(3, "float32"),
        np.array([2, 3], "float32"),
        np.array(0, "float32"),
        np.array(np.inf, "float32"),
        np.array(np.nan, "float32"),
        np.array(2.0**127, "float32"),  # the inverse is no normal number
        np.array(2.0**-128, "float32"),  # the inverse is infinite
        np.array(2.0**15, "float16"),
        np.array(8, "int32"),
    ],
)
def test_declines(check, divisor):
    check(DivisionToMultiplication(), divided(divisor))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("divisor", [8.0, -0.5, 2.0**-14, 2.0**14])
def test_the_same_numbers(dtype, divisor):
    """Of all sizes, with those that become subnormal or infinite."""
    number = relax.DataType(dtype).numpy()
    mod = divided(np.array(divisor, number))
    changed = DivisionToMultiplication()(mod)
    assert "multiply" in changed.script()
    exponents = np.linspace(-1074 if dtype == "float64" else -149, 127, 2000)
    with np.errstate(over="ignore", under="ignore"):
        x = np.concatenate([np.exp2(exponents), [0.0, np.inf, np.nan]])
        x = np.concatenate([x, -x]).astype(number)
    before, after = (relax.interpret(m, "main", x).numpy() for m in (mod, changed))
    assert before.tobytes() == after.tobytes()
