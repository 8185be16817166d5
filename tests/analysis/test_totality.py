"""Expressions that certainly give a value."""

from __future__ import annotations

import pytest

from relax import op
from relax.analysis.totality import is_condition, is_nonnegative, never_fails
from relax.expr import Call, ExternFunc, PrimValue, ShapeExpr, Tuple, TupleGetItem
from relax.expr import Var as Name
from relax.ir import Op, set_slot
from relax.prim import Let, Max, Min, SizeVar, Var, const
from relax.prim.totality import is_surely_size, scalar_never_fails
from relax.runtime.limits import DIMENSION_LIMIT
from relax.struct_info import ObjectStructInfo, PrimStructInfo, ShapeStructInfo, TensorStructInfo, TupleStructInfo

VECTOR = TensorStructInfo((4,), "float32")
n, m, i = SizeVar("n", "int64"), SizeVar("m", "int64"), Var("i", "int64")


@pytest.mark.parametrize(
    "info, answer",
    [
        (PrimStructInfo("bool"), True),
        (PrimStructInfo("int64"), False),
        (TensorStructInfo((), "bool"), True),
        (TensorStructInfo((1,), "bool"), False),
        (TensorStructInfo((), "int32"), False),
        (TensorStructInfo(None, "bool"), False),
        (ShapeStructInfo(()), False),
        (ObjectStructInfo(), False),
        (None, False),
    ],
)
def test_conditions(info, answer):
    assert is_condition(info) is answer


@pytest.mark.parametrize(
    "value, answer",
    [
        (n + 1, True),
        (n - m, True),
        (n // const(2, "int64"), True),
        (n % const(3, "int64"), True),
        (n // const(0, "int64"), False),
        (n // m, False),
        (n % m, False),
        (i + 1, False),
        (n * m * n * m, False),
        (Min(n, m), True),
        (Max(n, m), True),
        (i // const(-1, "int64"), False),
        (Let(i, n, i), False),
    ],
)
def test_scalars_that_never_fail(value, answer):
    assert scalar_never_fails(value) is answer


@pytest.mark.parametrize(
    "value, answer",
    [
        (n, True),
        (i, False),
        (n - m, False),
        (n + m, False),
        (Min(n, m), True),
        (const(DIMENSION_LIMIT, "int64"), False),
    ],
)
def test_sizes(value, answer):
    assert is_surely_size(value) is answer


@pytest.mark.parametrize(
    "value, answer",
    [(n, True), (i, False), (n * m, True), (n - m, False), (const(3, "int64"), True), (const(-1, "int64"), False)],
)
def test_nonnegative(value, answer):
    assert is_nonnegative(value) is answer


def test_calls_that_never_fail():
    x, y = Name("x", VECTOR), Name("y", VECTOR)
    derived = op.add(x, y)
    set_slot(derived, "_struct_info", VECTOR)
    assert never_fails(derived)
    assert not never_fails(Call(Op.get("relax.add"), [x, y]))  # of which nothing is derived yet
    assert not never_fails(op.add(x, Name("v", TensorStructInfo(None, "float32", ndim=1))))
    anything = Call(Op.get("relax.add"), [x, Name("o", ObjectStructInfo())])
    set_slot(anything, "_struct_info", VECTOR)
    assert not never_fails(anything)
    assert never_fails(op.shape_of(x))
    for unknown in (Name("z", ObjectStructInfo()), Name("w")):
        assert not never_fails(Call(Op.get("relax.shape_of"), [unknown]))
    assert not never_fails(Call(Op.get("relax.take"), [x, y]))
    assert not never_fails(Call(ExternFunc("f"), [x]))


def test_leaves_that_never_fail():
    x = Name("x", TupleStructInfo([VECTOR]))
    assert never_fails(PrimValue(n))
    assert not never_fails(PrimValue(n // m))
    assert never_fails(Tuple([x, ShapeExpr([n])]))
    assert not never_fails(Tuple([x, ShapeExpr([i])]))
    assert never_fails(TupleGetItem(x, 0))
    assert not never_fails(TupleGetItem(Name("o", ObjectStructInfo()), 0))
