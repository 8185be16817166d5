"""saturating_astype: compiled and interpreted, the extremes of each dtype, and the roundings of float8_e8m0fnu."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import relax
from relax.ir import DataType, DiagnosticError
from relax.script import from_source
from support import PLAIN_LOOPS

FLOATS8 = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def run(source, dtype, values, rounding="nearest"):
    """The values, converted by compiled code; by the interpreter the same."""
    mod = from_source(f"""
@R.function
def main(x: R.Tensor(("n",), "{source}")):
    return R.saturating_astype(x, "{dtype}", rounding="{rounding}")
""")
    x = relax.nd.array(np.array(values).astype(DataType(source).numpy()))
    compiled = relax.VirtualMachine(relax.build(mod, PLAIN_LOOPS))["main"](x).numpy()
    interpreted = relax.interpret(relax.IRModule.from_expr(mod), "main", x).numpy()
    assert compiled.dtype == interpreted.dtype == DataType(dtype).numpy()
    assert str(compiled.tolist()) == str(interpreted.tolist())
    return compiled.tolist()


@pytest.mark.parametrize(
    "dtype, source", list(itertools.product(FLOATS8, ("float32", "float16", "float64", "bfloat16")))
)
def test_extremes(dtype, source):
    most = DataType(dtype).max_finite
    found = run(source, dtype, [math.inf, -math.inf, 65000.0, -65000.0, 0.4, most, math.nan])
    assert found[:6] == [most, -most, most, -most, float(np.array(0.4).astype(DataType(dtype).numpy())), most]
    assert math.isnan(found[6])


def test_beside_ties():
    """Numbers beyond the greatest one; a float64 beside a tie, which float32 does not tell from it."""
    assert run("float32", "float8_e4m3fn", [447.9, 448.1, 464.0, 480.0]) == [448.0] * 4
    assert run("float64", "float8_e4m3fn", [17.0, 17 + 2.0**-40]) == [16.0, 18.0]
    assert run("int32", "float8_e5m2", [17, 2**31 - 1, -(2**31)]) == [16.0, 57344.0, -57344.0]
    assert run("float32", "float4_e2m1fn", [5.5, -math.inf, math.nan]) == [6.0, -6.0, 0.0]


@pytest.mark.parametrize("source", ["float32", "float16"])
def test_powers_of_two(source):
    values = [0.0, 0.125, 0.13, 1.1, 1.5, 1.6, 3.0, 4.0, math.inf]
    least, most = 2.0**-127, 2.0**127
    expected = {
        "up": [least, 0.125, 0.25, 2, 2, 2, 4, 4, most],
        "down": [least, 0.125, 0.125, 1, 1, 1, 2, 4, most],
        "nearest": [least, 0.125, 0.125, 1, 2, 2, 4, 4, most],
    }
    for rounding, powers in expected.items():
        assert run(source, "float8_e8m0fnu", values, rounding) == powers
        assert math.isnan(run(source, "float8_e8m0fnu", [math.nan], rounding)[0])


@pytest.mark.parametrize(
    "call, message",
    [
        ('R.saturating_astype(x, "int8")', "dtype must be a float of 8 or 4 bits, found 'int8'"),
        ('R.saturating_astype(x, "float16")', "dtype must be a float of 8 or 4 bits, found 'float16'"),
        ('R.saturating_astype(x, "float8_e5m2", "up")', "rounding must be 'nearest' for float8_e5m2, found 'up'"),
        (
            'R.saturating_astype(x, "float8_e8m0fnu", "even")',
            "rounding must be 'nearest', 'up' or 'down', found 'even'",
        ),
    ],
)
def test_errors(call, message):
    with pytest.raises(DiagnosticError) as caught:
        from_source(f'@R.function\ndef main(x: R.Tensor((2,), "float32")):\n    return {call}')
    (found,) = caught.value.diagnostics
    assert (found.code, found.message, found.span.line) == ("E3105", f"saturating_astype: {message}", 3)


def test_the_dtype_must_be_known():
    with pytest.raises(DiagnosticError) as caught:
        from_source('@R.function\ndef main(x: R.Tensor((2,))):\n    return R.saturating_astype(x, "float8_e5m2")')
    (found,) = caught.value.diagnostics
    assert (found.code, found.message) == ("E3103", "saturating_astype: the dtype of x is not known")
    assert found.hint == "R.match_cast states a dtype that is only known at run time"
