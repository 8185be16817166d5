"""Struct info and scalars as they are written in messages."""

from __future__ import annotations

import pytest

import relax
from relax import op
from relax.expr import Call, Var, const
from relax.info.text import dims_text, prim_text, struct_info_text
from relax.ir import GlobalVar, VDevice
from relax.prim import Add, Cast, FloatImm, IntImm, Let, Mod, Not, Select, SizeVar, StringImm
from relax.prim import Call as PrimCall
from relax.prim.expr import And, Max, Min, Or
from relax.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)

n, m = SizeVar("n", "int64"), SizeVar("m", "int64")

SCALARS = [
    (n, "n"),
    (IntImm("int64", 3), "3"),
    (IntImm("bool", 1), "True"),
    (FloatImm("float32", 0.5), "0.5"),
    (StringImm("a b"), "'a b'"),
    (n + m * 2, "n + m * 2"),
    ((n + m) * 2, "(n + m) * 2"),
    (n - (m - 1), "n - (m - 1)"),
    (n - m - 1, "n - m - 1"),
    (n + (m + 1), "n + m + 1"),
    (n * (m * 2), "n * m * 2"),
    (n // (m // 2), "n // (m // 2)"),
    (n * IntImm("int64", -1), "n * (-1)"),
    (n % 4, "n % 4"),
    (n < m, "n < m"),
    (Mod(n, m), "T.truncmod(n, m)"),
    (Min(n, m), "T.min(n, m)"),
    (Max(n, m), "T.max(n, m)"),
    (And(n < m, n > 1), "T.And(n < m, n > 1)"),
    (Or(n < m, n > 1), "T.Or(n < m, n > 1)"),
    (Not(n < m), "T.Not(n < m)"),
    (Cast("int32", n), 'T.Cast("int32", n)'),
    (Select(n < m, n, m), "T.Select(n < m, n, m)"),
    (Let(n, m, n + 1), "T.Let(n + 1, where={n: m})"),
    (relax.tir.call_intrin("int64", "tir.clz", n), "T.clz(n)"),
    (PrimCall("int64", GlobalVar("f"), (n,)), "f(n)"),
]


@pytest.mark.parametrize(("expr", "text"), SCALARS)
def test_scalars(expr, text):
    assert prim_text(expr) == text


def test_what_is_no_scalar_of_the_language_is_shown_plainly():
    assert prim_text(relax.tir.Ramp(n, IntImm("int64", 1), 4)).startswith("Ramp(")


def test_dimensions():
    assert [dims_text(dims) for dims in ((), (n,), (n, m + 1))] == ["()", "(n,)", "(n, m + 1)"]


INFOS = [
    (None, "?"),
    (ObjectStructInfo(), "R.Object"),
    (TensorStructInfo(dtype=""), "R.Tensor()"),
    (TensorStructInfo(), 'R.Tensor(dtype="float32")'),
    (TensorStructInfo(4), 'R.Tensor((4,), "float32")'),
    (TensorStructInfo(n + 1, ""), "R.Tensor((n + 1,))"),
    (TensorStructInfo((), "bool"), 'R.Tensor((), "bool")'),
    (TensorStructInfo(ndim=0), 'R.Tensor(dtype="float32", ndim=0)'),
    (TensorStructInfo(Var("s", ShapeStructInfo(ndim=2)), "int8"), 'R.Tensor(s, "int8", ndim=2)'),
    (TensorStructInfo((4,), "int8", VDevice("cuda", 1)), 'R.Tensor((4,), "int8", vdevice="cuda:1")'),
    (ShapeStructInfo(), "R.Shape"),
    (ShapeStructInfo(ndim=0), "R.Shape(ndim=0)"),
    (ShapeStructInfo(()), "R.Shape([])"),
    (ShapeStructInfo((n, 4)), "R.Shape([n, 4])"),
    (PrimStructInfo("int8"), 'R.Prim("int8")'),
    (PrimStructInfo(value=n), 'R.Prim("int64", value=n)'),
    (TupleStructInfo([]), "R.Tuple()"),
    (TupleStructInfo([ObjectStructInfo(), ShapeStructInfo()]), "R.Tuple(R.Object, R.Shape)"),
    (FuncStructInfo([], ObjectStructInfo()), "R.Callable((), R.Object)"),
    (FuncStructInfo([ObjectStructInfo()], ShapeStructInfo(), False),
     "R.Callable((R.Object,), R.Shape, purity=False)"),
    (FuncStructInfo.opaque_func(purity=True), 'R.PackedFunc(derive="relax.default_derivation")'),
]  # fmt: skip


@pytest.mark.parametrize(("info", "text"), INFOS)
def test_struct_info(info, text):
    assert struct_info_text(info) == text


def test_struct_info_that_breaks_rule_14_is_shown_plainly():
    x = Var("x", TensorStructInfo((4,)))
    assert "shape_of" in struct_info_text(TensorStructInfo(op.shape_of(x), ndim=1))
    assert struct_info_text(TensorStructInfo(Call(x, [const(1)]))).startswith("R.Tensor(")


def test_a_kind_of_struct_info_from_elsewhere_is_shown_plainly():
    class Other(relax.StructInfo):
        __slots__ = ()

    assert "Other" in struct_info_text(Other())


def test_what_is_shared_without_end_is_cut_off():
    value, info = n, ShapeStructInfo((n,))
    for _ in range(40):
        value, info = Add(value, value), TupleStructInfo([info, info])
    for text in (prim_text(value), struct_info_text(info)):
        assert "…" in text
        assert len(text) < 20_000
