"""Operators on two scalars give the scalar that R.prim_value of their expression is."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax import op
from relax.interpreter import interpret
from relax.ir import DiagnosticError
from relax.script import from_source
from relax.tir import Var
from support import PLAIN_LOOPS

N = Var("n", "int64")


def prim(dtype, name="p"):
    return relax.Var(name, relax.PrimStructInfo(dtype))


def derived(call):
    return relax.BlockBuilder().normalize(call).struct_info


def test_values_are_derived():
    assert derived(op.add(relax.PrimValue(N), relax.PrimValue(2))) == relax.PrimStructInfo(value=N + 2)
    assert derived(op.multiply(relax.PrimValue(3), relax.PrimValue(2))) == relax.PrimStructInfo(
        value=relax.PrimValue(6).value
    )
    assert derived(op.add(prim("float32"), prim("float32"))) == relax.PrimStructInfo("float32")
    assert derived(op.less(prim("int8"), prim("int8"))) == relax.PrimStructInfo("bool")


@pytest.mark.parametrize("operator", [op.floor_divide, op.divide, op.mod, op.floor_mod])
def test_what_fails_has_no_known_value(operator):
    call = operator(relax.PrimValue(1), relax.PrimValue(0))
    assert derived(call) == relax.PrimStructInfo("int64")


def test_what_overflows_has_no_known_value():
    large = relax.PrimValue(2**62)
    assert derived(op.add(large, large)) == relax.PrimStructInfo("int64")


def test_refused():
    with pytest.raises(DiagnosticError, match="power: one operand must be a tensor"):
        op.power(prim("int64"), prim("int64"))
    with pytest.raises(DiagnosticError, match="dtype"):
        op.add(prim("int64"), prim("int32"))
    with pytest.raises(DiagnosticError, match="bitwise_and"):
        op.bitwise_and(prim("float32"), prim("float32"))


def test_kinds_that_are_not_known():
    unknown = relax.Var("o", relax.ObjectStructInfo())
    tensor = relax.Var("t", relax.TensorStructInfo((2,), "float32"))
    assert derived(op.add(unknown, unknown)) == relax.ObjectStructInfo()
    assert derived(op.add(unknown, prim("float32"))) == relax.ObjectStructInfo()
    assert derived(op.add(unknown, tensor)) == relax.TensorStructInfo(None, "")
    assert derived(op.power(unknown, unknown)) == relax.TensorStructInfo(None, "")


NUMBERS = {
    "int64": (7, -3),
    "int8": (100, 50),
    "uint8": (3, 5),
    "float32": (0.1, -2.5),
    "float16": (1.0, 3.0),
    "bool": (True, False),
}
EVERY = "add subtract multiply divide floor_divide mod floor_mod maximum minimum".split()
COMPARED = "equal not_equal less less_equal greater greater_equal".split()
WHOLE = "bitwise_and bitwise_or bitwise_xor left_shift right_shift".split()
LOGIC = "logical_and logical_or logical_xor bitwise_and equal".split()


def names_for(dtype):
    return LOGIC if dtype == "bool" else EVERY + COMPARED + ([] if "float" in dtype else WHOLE)


@pytest.mark.parametrize("dtype", NUMBERS)
def test_compiled_and_interpreted_agree_with_the_reference(dtype):
    names = names_for(dtype)
    lines = "".join(f"        r_{name} = R.{name}(a, b)\n" for name in names)
    mod = from_source(
        "@I.ir_module\nclass M:\n    @R.function\n"
        f'    def main(a: R.Prim("{dtype}"), b: R.Prim("{dtype}")):\n{lines}'
        f"        return ({', '.join(f'r_{name}' for name in names)})\n"
    )
    a, b = NUMBERS[dtype]
    compiled = relax.VirtualMachine(relax.build(mod, PLAIN_LOOPS), relax.cpu())["main"](a, b)
    interpreted = interpret(mod, "main", a, b)
    assert list(compiled) == list(interpreted)
    with np.errstate(all="ignore"):
        for name, found in zip(names, compiled, strict=True):
            cls = relax.ir.Op.get(f"relax.{name}").get_attr("operator_class")
            expected = cls().evaluate(np.asarray(a, dtype), np.asarray(b, dtype))
            assert found == expected.item(), name


@pytest.mark.parametrize(
    ("operator", "a", "b", "error"),
    [
        ("floor_divide", 1, 0, ZeroDivisionError),
        ("mod", 1, 0, ZeroDivisionError),
        ("add", 2**62, 2**62, OverflowError),
        ("multiply", 2**40, 2**40, OverflowError),
    ],
)
def test_errors(operator, a, b, error):
    mod = from_source(
        '@I.ir_module\nclass M:\n    @R.function\n    def main(a: R.Prim("int64"), b: R.Prim("int64")):\n'
        f"        return R.{operator}(a, b)\n"
    )
    with pytest.raises(error):
        interpret(mod, "main", a, b)
    with pytest.raises(error):
        relax.VirtualMachine(relax.build(mod, PLAIN_LOOPS), relax.cpu())["main"](a, b)
