"""Relax expressions: what their constructors take, and what Python's operators mean on them."""

from __future__ import annotations

import pickle

import ml_dtypes
import numpy as np
import pytest

import relax
from relax import tir
from relax.expr import (
    Constant,
    DataTypeImm,
    PrimValue,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
    const,
    convert,
    is_leaf,
)
from relax.info.text import prim_text, struct_info_text
from relax.ir import DataType, IRModule, Op, structural_equal
from relax.prim import IntImm, SizeVar
from relax.script import from_source
from relax.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)

n, m = SizeVar("n", "int64"), SizeVar("m", "int64")


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (1, None, "int32"),
        (2**40, None, "int64"),
        (1.5, None, "float32"),
        (True, None, "bool"),
        ([1.0, 2.0], None, "float32"),
        ([[1, 2]], "int8", "int8"),
        (np.zeros(3), None, "float64"),
        (np.float16(1), None, "float16"),
        (1.5, "bfloat16", "bfloat16"),
        (1.5, "float8_e4m3fn", "float8_e4m3fn"),
        ([], None, "float32"),
        (np.array(2, ml_dtypes.bfloat16), None, "bfloat16"),
    ],
)
def test_constants_take_the_dtype_tvm_gives_them(value, dtype, expected):
    found = const(value, dtype)
    assert found.dtype == expected
    assert found.struct_info.dtype == expected
    assert found.struct_info.ndim == found.data.ndim


def test_constants_are_read_only_copies():
    array = np.zeros(2, "float32")
    found = Constant(array)
    array[0] = 1.0
    assert found.data[0] == 0.0
    with pytest.raises(ValueError, match="read-only"):
        found.data[0] = 1.0


def test_what_is_no_tensor_is_no_constant():
    with pytest.raises(ValueError, match="unknown dtype"):
        Constant(np.array(["text"]))


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (3, PrimValue, 'R.Prim("int64", value=3)'),
        (2.5, PrimValue, 'R.Prim("float64", value=2.5)'),
        (False, PrimValue, 'R.Prim("bool", value=False)'),
        (n * 2, PrimValue, 'R.Prim("int64", value=n * 2)'),
        ("text", StringImm, "R.Object"),
        (DataType("int8"), DataTypeImm, "R.Object"),
        (np.ones(2, "int8"), Constant, 'R.Tensor((2,), "int8")'),
        ([1, (2,)], Tuple, 'R.Tuple(R.Prim("int64", value=1), R.Tuple(R.Prim("int64", value=2)))'),
        ((), Tuple, "R.Tuple()"),
    ],
)
def test_arguments_are_converted(value, kind, text):
    found = convert(value)
    assert type(found) is kind
    assert struct_info_text(found.struct_info) == text


def test_what_has_no_meaning_as_an_argument_is_refused():
    with pytest.raises(TypeError, match="expected a Relax expression, found object"):
        convert(object())


def test_operators_build_calls():
    x = Var("x", TensorStructInfo((n,)))
    names = [
        e.op.name for e in (x + x, 1.0 + x, x - x, x * 2.0, x / x, x // x, x % x, x**2.0, -x, x < x, x >= x, x @ x)
    ]
    assert names == [
        "relax.add", "relax.add", "relax.subtract", "relax.multiply", "relax.divide", "relax.floor_divide",
        "relax.mod", "relax.power", "relax.negative", "relax.less", "relax.greater_equal", "relax.matmul",
    ]  # fmt: skip
    assert x.astype("int8").op.name == "relax.astype"
    assert x(x).op is x


def test_fields_of_tuples_can_be_unpacked():
    t = Var("t", TupleStructInfo([ObjectStructInfo(), TensorStructInfo((n,))]))
    first, last = t
    assert [first.index, last.index] == [0, 1]
    assert isinstance(t[-1], TupleGetItem)
    assert t[-1].index == t[np.int64(1)].index == t[IntImm("int64", 1)].index == 1
    with pytest.raises(IndexError, match="tuple index 2 is out of range for a tuple of 2 fields"):
        t[2]
    with pytest.raises(TypeError):
        t["first"]
    a, b = Tuple([t, first])
    assert (a, b) == (t, first)
    assert next(iter(ShapeExpr([n, 4]))) is n


def test_what_may_have_any_number_of_fields_is_not_unpacked():
    for info in (None, ObjectStructInfo(), TensorStructInfo((2,))):
        with pytest.raises(TypeError, match="can only be unpacked if it is known to be a tuple"):
            list(Var("x", info))


def test_leaves():
    x = Var("x", TensorStructInfo((n,)))
    assert is_leaf(Tuple([x, Tuple([const(1), ShapeExpr([n])])]))
    assert not is_leaf(Tuple([x + x]))
    assert not is_leaf(x[0])


def test_struct_info_fills_in_what_follows():
    assert TensorStructInfo((n, 4)).ndim == 2
    assert TensorStructInfo([1, 2], "int8") is not None
    assert TensorStructInfo().ndim == -1
    assert TensorStructInfo(Var("s", ShapeStructInfo(ndim=3))).ndim == 3
    assert ShapeStructInfo([n]).ndim == 1
    assert PrimStructInfo(value=n).dtype == "int64"
    with pytest.raises(ValueError, match="give a dtype or a value"):
        PrimStructInfo()
    with pytest.raises(TypeError, match="vdevice is a VDevice, found str"):
        TensorStructInfo((n,), vdevice="llvm:0")
    with pytest.raises(TypeError, match="a dimension must be an integer expression, found dtype float32"):
        TensorStructInfo((1.5,))


@pytest.mark.parametrize(
    ("info", "text"),
    [
        (ObjectStructInfo(), "R.Object"),
        (TensorStructInfo(dtype=""), "R.Tensor()"),
        (TensorStructInfo(dtype="", ndim=2), "R.Tensor(ndim=2)"),
        (TensorStructInfo((n,), ""), "R.Tensor((n,))"),
        (TensorStructInfo(()), 'R.Tensor((), "float32")'),
        (TensorStructInfo(Var("s", ShapeStructInfo(ndim=1))), 'R.Tensor(s, "float32", ndim=1)'),
        (TensorStructInfo((4,), vdevice=relax.VDevice("llvm", 1)), 'R.Tensor((4,), "float32", vdevice="llvm:1")'),
        (ShapeStructInfo(), "R.Shape"),
        (ShapeStructInfo([]), "R.Shape([])"),
        (FuncStructInfo([], ObjectStructInfo()), "R.Callable((), R.Object)"),
        (None, "?"),
    ],
)
def test_struct_info_as_text(info, text):
    assert struct_info_text(info) == text


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (n + m * 4, "n + m * 4"),
        ((n + m) * 4, "(n + m) * 4"),
        (n - (m - 1), "n - (m - 1)"),
        (n + (m + 1), "n + m + 1"),
        (n // 2 % 3, "n // 2 % 3"),
        (n // (m // 2), "n // (m // 2)"),
        (-n, "0 - n"),
        (IntImm("int64", -1) * n, "(-1) * n"),
        (n * IntImm("int64", -1), "n * (-1)"),
        (relax.prim.intrin.min(n, 4), "T.min(n, 4)"),
        (n < m, "n < m"),
        (n.astype("float32"), 'T.Cast("float32", n)'),
    ],
)
def test_dimensions_as_text(expr, text):
    assert prim_text(expr) == text


def test_programs_are_pickled_with_their_struct_info():
    func = from_source(
        "from relax.script import relax as R\n@R.function\n"
        "def main(x: R.Tensor(('n', 4), 'float32')):\n    y = R.exp(x)\n    return (y, R.const(1))\n"
    )
    mod = IRModule({"main": func})
    again = pickle.loads(pickle.dumps(mod))
    assert structural_equal(again, mod)
    binding = again["main"].body.blocks[0].bindings[0]
    assert struct_info_text(binding.var.struct_info) == 'R.Tensor((n, 4), "float32")'
    assert relax.analysis.well_formed(again)


def test_a_constant_is_not_changed_through_the_array_it_was_made_of():
    owner = np.zeros(3, "float32")
    view = owner[:2]
    view.flags.writeable = False
    constants = [Constant(owner), Constant(view), Constant(owner.reshape(1, 3))]
    owner[:] = 7
    assert all((constant.data == 0).all() for constant in constants)
    again = Constant(constants[0].data)
    assert again.data is constants[0].data
    assert type(again.data.numpy()) is np.ndarray
    assert not again.data.numpy().flags.writeable


def test_what_counts_as_an_expression():
    prim_func = tir.PrimFunc([], tir.Evaluate(0))
    for value in (relax.GlobalVar("f"), Op.get("relax.add"), prim_func, relax.ExternFunc("f"), relax.Var("x")):
        assert isinstance(value, relax.Expr)
    assert not isinstance(relax.GlobalVar("f"), relax.ExprWithOp)


@pytest.mark.parametrize("make", [relax.TensorStructInfo, relax.ShapeStructInfo, relax.ShapeExpr])
def test_a_dimension_given_as_text_says_who_reads_it(make):
    with pytest.raises(TypeError, match="found the text 'n'; R.Tensor and R.Shape read text, here stands a variable"):
        make(("n", 4))
