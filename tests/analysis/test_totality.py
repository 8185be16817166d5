"""Expressions that certainly give a value."""

from __future__ import annotations

import pytest

from relax.analysis.totality import is_condition, is_nonnegative, is_surely_size, scalar_never_fails
from relax.prim import Let, Max, Min, SizeVar, Var, const
from relax.runtime.limits import DIMENSION_LIMIT
from relax.struct_info import ObjectStructInfo, PrimStructInfo, ShapeStructInfo, TensorStructInfo

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
    [
        (n, True),
        (i, False),
        (n * m, True),
        (n - m, False),
        (const(3, "int64"), True),
        (const(-1, "int64"), False),
    ],
)
def test_nonnegative(value, answer):
    assert is_nonnegative(value) is answer
