"""Run-time checks: each wrong kind, rank, dtype, dimension, length, value and function, and its message."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
import tvm_ffi

from relax.runtime import ShapeTuple, nd
from relax.runtime.builtin_table import BUILTINS
from relax.runtime.closure import Closure
from relax.runtime.heap import ShapeHeap
from relax.runtime.info import (
    FuncInfo,
    Info,
    ObjectInfo,
    PrimInfo,
    ShapeInfo,
    TensorInfo,
    TupleInfo,
    mismatch,
    substitute_dim,
)
from relax.runtime.info_text import parse_info
from relax.runtime.match import ASSERT_IMM, ASSERT_SLOT, IGNORE, LOAD_SLOT, STORE, USE_IMM

B = {name.removeprefix("vm.builtin."): b.function for name, b in BUILTINS.items()}
W = "main: parameter w"


def tensor(*shape, dtype="float32"):
    return nd.empty(shape, dtype).tensor


NOTES = ("n bound by x, dimension 1", "m bound by y, dimension 0", "2 * n + m from 0 1")


def heap(*values):
    result = ShapeHeap(max(len(values), 3), NOTES)
    result.slots[: len(values)] = values
    return result


@pytest.mark.parametrize(
    "check, args, error, message",
    [
        ("check_tensor_info", (3, 2, "float32"), TypeError, "expected a tensor, found the int 3"),
        ("check_tensor_info", ((), 2, "float32"), TypeError, "expected a tensor, found a tuple of 0"),
        ("check_tensor_info", (ShapeTuple((1,)), 2, ""), TypeError, "expected a tensor, found the shape (1,)"),
        ("check_tensor_info", (None, 2, "float32"), TypeError, "expected a tensor, found the null object"),
        ("check_tensor_info", (tensor(1, 2), 3, "float32"), ValueError, "expected rank 3, found rank 2 (shape (1, 2))"),
        ("check_tensor_info", (tensor(1), 1, "int32"), TypeError, "expected dtype int32, found float32"),
        ("check_shape_info", ((1, 2), 2), TypeError, "expected a shape, found a tuple of 2"),
        (
            "check_shape_info",
            (ShapeTuple((1,)), 2),
            ValueError,
            "expected a shape of 2 dimensions, found 1 (shape (1,))",
        ),
        ("check_prim_value_info", (tensor(), "int64"), TypeError, "expected an int64 value, found a tensor"),
        ("check_prim_value_info", (1.5, "int64"), TypeError, "expected an int64 value, found the float 1.5"),
        ("check_prim_value_info", (True, "int64"), TypeError, "expected an int64 value, found the bool True"),
        ("check_prim_value_info", (1, "float32"), TypeError, "expected a float32 value, found the int 1"),
        ("check_prim_value_info", (128, "int8"), TypeError, "expected an int8 value, found the int 128"),
        ("check_prim_value_info", (-1, "uint8"), TypeError, "expected a uint8 value, found the int -1"),
        ("check_tuple_info", (tensor(), 2), TypeError, "expected a tuple of 2, found a tensor"),
        ("check_tuple_info", (ShapeTuple((1, 2)), 2), TypeError, "expected a tuple of 2, found the shape (1, 2)"),
        ("check_tuple_info", ((1,), 2), ValueError, "expected a tuple of 2, found a tuple of 1"),
        ("match_shape", (tensor(3), None, 1, ASSERT_IMM, 4), ValueError, "dimension 0 is 3, expected 4"),
        (
            "match_shape",
            (tensor(2, 3), heap(784), 2, IGNORE, 0, ASSERT_SLOT, 0),
            ValueError,
            "dimension 1 is 3, expected n = 784 (n was bound by x, dimension 1)",
        ),
        (
            "match_shape",
            (ShapeTuple((9,)), heap(3, 2, 8), 1, ASSERT_SLOT, 2),
            ValueError,
            "dimension 0 is 9, expected 2 * n + m = 8 (n = 3 was bound by x, dimension 1; "
            "m = 2 was bound by y, dimension 0)",
        ),
        ("match_shape", (ShapeTuple((9,)), None, 2), ValueError, "expected rank 2, found rank 1 (shape (9,))"),
        ("match_prim_value", (3, heap(4), ASSERT_IMM, 4), ValueError, "the value is 3, expected 4"),
        (
            "match_prim_value",
            (3, heap(4), ASSERT_SLOT, 0),
            ValueError,
            "the value is 3, expected n = 4 (n was bound by x, dimension 1)",
        ),
    ],
)
def test_messages(check, args, error, message):
    with pytest.raises(error) as caught:
        B[check](*args, W)
    assert str(caught.value) == f"{W}: {message}"


@pytest.mark.parametrize(
    "check, args",
    [
        ("check_tensor_info", (tensor(2, 3), 2, "float32")),
        ("check_tensor_info", (tensor(), 0, "float32")),
        ("check_tensor_info", (tensor(2, 3), -1, None)),
        ("check_shape_info", (ShapeTuple(()), 0)),
        ("check_shape_info", (ShapeTuple((1, 2)), -1)),
        ("check_prim_value_info", (1, "int64")),
        ("check_prim_value_info", (255, "uint8")),
        ("check_prim_value_info", (-128, "int8")),
        ("check_prim_value_info", (False, "bool")),
        ("check_prim_value_info", (0.1, "bfloat16")),
        ("check_tuple_info", ((), 0)),
        ("check_tuple_info", (tvm_ffi.Array([1, 2]), 2)),
        ("match_shape", (tensor(), None, 0)),
        ("match_shape", (tensor(0, 1), heap(1), 2, ASSERT_IMM, 0, ASSERT_SLOT, 0)),
    ],
)
def test_what_fits(check, args):
    assert B[check](*args, W) is None


def test_binding_and_making():
    slots = heap(0, 0, 0)
    B["match_shape"](tensor(5, 7), slots, 2, STORE, 1, STORE, 0, W)
    assert list(slots.slots) == [7, 5, 0]
    B["match_prim_value"](-9, slots, STORE, 2, W)
    assert B["make_shape"](slots, 3, LOAD_SLOT, 0, USE_IMM, 4, LOAD_SLOT, 1) == (7, 4, 5)
    assert B["make_shape"](None, 0) == ()
    assert B["make_prim_value"](slots, LOAD_SLOT, 2, "int64") == -9
    assert B["make_prim_value"](slots, USE_IMM, 2.5, "float32") == 2.5
    assert B["make_prim_value"](slots, LOAD_SLOT, 0, "bool") is True
    np.from_dlpack(slots.tensor)[0] = 11
    assert slots.slots[0] == 11
    B["match_prim_value"](2**63 + 1, slots, STORE, 1, W)
    assert B["make_prim_value"](slots, LOAD_SLOT, 1, "uint64") == 2**63 + 1
    B["match_prim_value"](2**63 + 1, slots, ASSERT_SLOT, 1, W)
    slots.notes = ("float64: q bound by a",)
    B["match_prim_value"](0.1, slots, STORE, 0, W)
    assert B["make_prim_value"](slots, LOAD_SLOT, 0, "float64") == 0.1
    assert np.from_dlpack(B["shape_heap_floats"](slots))[0] == 0.1
    B["match_prim_value"](0.1, slots, ASSERT_SLOT, 0, W)
    with pytest.raises(ValueError, match="the value is 0.2, expected q = 0.1 .q was bound by a"):
        B["match_prim_value"](0.2, slots, ASSERT_SLOT, 0, W)


# ------------------------------------------------------------------------------------- functions

F32 = "float32"


def func(*params: Info, ret: Info | None = None, pure: bool = True) -> FuncInfo:
    return FuncInfo(params, ret or ObjectInfo(), pure)


def vector(dim, dtype=F32):
    return TensorInfo((dim,), dtype, 1)


@pytest.mark.parametrize(
    "actual, expected, why",
    [
        (func(), func(), None),
        (func(vector("n"), ret=vector("n")), func(vector("k"), ret=vector("k")), None),
        (func(vector("n"), ret=vector(("*", 2, "n"))), func(vector(4), ret=vector(8)), None),
        (func(TensorInfo(None, F32, 1)), func(vector("k")), None),
        (func(ObjectInfo(), ret=vector(3)), func(vector("k"), ret=TensorInfo()), None),
        (func(pure=True), func(pure=False), None),
        (
            func(vector("n"), ret=vector(("*", 2, ("+", "n", 1)))),
            func(vector("k"), ret=vector(("+", ("+", "k", "k"), 2))),
            None,
        ),
        (func(vector("n"), ret=vector(("//", "n", 2))), func(vector("k"), ret=vector(("//", ("*", "k", 1), 2))), None),
        (
            func(ret=vector("n")),
            func(ret=vector("n")),
            'its result is R.Tensor((n,), dtype="float32"), expected R.Tensor((n,), dtype="float32")',
        ),
        (
            func(ret=vector(("unknown",))),
            func(ret=vector(("unknown",))),
            'its result is R.Tensor((unknown(),), dtype="float32"), expected R.Tensor((unknown(),), dtype="float32")',
        ),
        (func(TupleInfo((vector("n"), ShapeInfo(("n",), 1)))), func(TupleInfo((vector(2), ShapeInfo((2,), 1)))), None),
        (func(func(vector("n"))), func(func(vector("m"))), None),
        (func(PrimInfo("int64", "n"), ret=vector("n")), func(PrimInfo("int64", "k"), ret=vector("k")), None),
        (func(), func(ObjectInfo()), "it takes 0 arguments, expected 1 argument"),
        (func(pure=False), func(pure=True), "it is impure, expected a pure function"),
        (func(vector("n")), func(TensorInfo(None, F32, 1)), None),  # any vector will do
        (func(TupleInfo((ShapeInfo(("n", "m"), 2),))), func(TupleInfo((ShapeInfo(None, 2),))), None),
        (func(PrimInfo("int64", "n")), func(PrimInfo("int64")), None),
        (
            func(vector("n"), ret=vector("n")),
            func(TensorInfo(None, F32, 1), ret=vector("n")),
            'its result is R.Tensor((n,), dtype="float32"), expected R.Tensor((n,), dtype="float32")',
        ),
        (
            func(vector("n"), vector("n")),
            func(TensorInfo(None, F32, 1), TensorInfo(None, F32, 1)),
            'its parameter 0 is R.Tensor((n,), dtype="float32"), expected R.Tensor(dtype="float32", ndim=1)',
        ),
        (
            func(ShapeInfo(("n", ("+", "m", 1)), 2)),
            func(ShapeInfo(None, 2)),
            "its parameter 0 is R.Shape([n, m + 1]), expected R.Shape(ndim=2)",
        ),
        (
            func(vector("n", "int8")),
            func(vector("k")),
            'its parameter 0 is R.Tensor((k,), dtype="int8"), expected R.Tensor((k,), dtype="float32")',
        ),
        (
            func(vector("n"), ret=vector("n")),
            func(vector("k"), ret=vector(("*", 2, "k"))),
            'its result is R.Tensor((k,), dtype="float32"), expected R.Tensor((2 * k,), dtype="float32")',
        ),
        (
            func(vector("n"), vector("n")),
            func(vector("a"), vector("b")),
            'its parameter 1 is R.Tensor((a,), dtype="float32"), expected R.Tensor((b,), dtype="float32")',
        ),
        (func(ret=ObjectInfo()), func(ret=ShapeInfo()), "its result is R.Object, expected R.Shape"),
        (
            func(func(vector(3))),
            func(func(vector(4))),
            'its parameter 0 is R.Callable((R.Tensor((3,), dtype="float32"),), R.Object, True), '
            'expected R.Callable((R.Tensor((4,), dtype="float32"),), R.Object, True)',
        ),
    ],
)
def test_functions_are_compared(actual, expected, why):
    assert mismatch(actual, expected) == why


def test_check_func_info():
    check = B["check_func_info"]
    closure = Closure(None, "f", None, (), func(vector("n"), ret=vector("n")))
    check(closure, None, str(func(vector("k"), ret=vector("k"))), W)
    check(closure, heap(4), str(func(vector(("slot", 0)), ret=vector(4))), W)
    packed = tvm_ffi.get_global_func("testing.echo")
    check(packed, None, str(FuncInfo(None, ObjectInfo(), False)), W)
    for value, expected, message in [
        (closure, func(vector(("slot", 0)), ret=vector(5)), 'its result is R.Tensor((4,), dtype="float32")'),
        (packed, func(), "expected a Relax function, found a packed function"),
        (closure, FuncInfo(None, ObjectInfo(), False), "expected a packed function, found the function f"),
        (tensor(), func(), "expected a Relax function, found a tensor"),
    ]:
        with pytest.raises(TypeError) as caught:
            check(value, heap(4), str(expected), W)
        assert str(caught.value).startswith(f"{W}: ")
        assert message in str(caught.value)


@pytest.mark.parametrize(
    "dim, value",
    [
        (("+", "n", ("*", 2, "m")), 17),
        (("int8", ("*", "n", 40)), -56),
        (("uint8", ("-", "m", "n")), 1),
        (("uint8", ("-", "n", "m")), 255),
        (("bool", ("+", "n", "m")), True),
        (("int64", "q"), 0),
        (("float32", ("*", "q", "q")), float(np.float32(0.1 * 0.1))),
        (("float16", ("*", 1e300, 1e300)), math.inf),
        (("both", ("lt", "q", 1.0), ("negated", ("le", "n", "m"))), False),
        (("either", ("ne", "n", "m"), ("eq", "n", "m")), True),
        (("//", "n", 0), ("//", 5, 0)),
        (("int64", ("*", math.inf, "q")), 2**63 - 1),
        (("int8", ("*", -3000, "q")), -128),
        (("uint8", ("*", math.nan, "q")), 0),
        (("unknown",), ("unknown",)),
    ],
)
def test_dimensions_are_computed_in_their_dtype(dim, value):
    """What fails, or is not known, is left as it is."""
    assert substitute_dim(dim, {"n": 5, "m": 6, "q": 0.1}) == value


@pytest.mark.parametrize(
    "note, value, text",
    [
        ("n bound by x", 3, "n = 3 (n was bound by x)"),
        ("float32: q bound by a", 0.5, "q = 0.5 (q was bound by a)"),
        ("bool: b bound by a", True, "b = True (b was bound by a)"),
        ("uint64: u bound by a", 2**64 - 1, f"u = {2**64 - 1} (u was bound by a)"),
        ("float64: q + q from 1", 1.5, "q + q = 1.5 (q = 0.75 was bound by a)"),
        ("", 7, "7"),
    ],
)
def test_a_slot_holds_a_value_of_its_dtype(note, value, text):
    found = ShapeHeap(2, (note, "float64: q bound by a"))
    if isinstance(value, float):
        found.store_float(0, value)
    else:
        found.slots[0] = value
    found.store_float(1, 0.75)
    assert found.value(0) == value
    assert type(found.value(0)) is type(value)
    assert found.expected(0) == text


def test_infos_are_read_back_from_their_text():
    dims = (("+", ("*", 2, "n"), ("slot", 3)), -1, ("min", "n", ("//", "m", 4)), ("truncmod", "n", 5))
    for info in [
        ObjectInfo(),
        PrimInfo("int64", "n"),
        PrimInfo("bool"),
        PrimInfo("float64", -0.5),
        PrimInfo("float64", math.inf),
        PrimInfo("float64", -math.inf),
        PrimInfo("float32", ("float32", ("*", "q", ("float32", "n")))),
        PrimInfo("bool", ("negated", ("either", ("lt", "q", 0.5), ("eq", "n", 3)))),
        ShapeInfo(dims, 4),
        ShapeInfo(None, 2),
        ShapeInfo(),
        TensorInfo(dims, F32, 4, "cpu"),
        TensorInfo((), "", 0),
        TensorInfo(None, F32, 2),
        TensorInfo(),
        TupleInfo((ObjectInfo(), TupleInfo(()), ShapeInfo(("n",), 1))),
        func(vector("n"), func(), ret=TupleInfo(()), pure=False),
        FuncInfo(None, ObjectInfo(), False),
    ]:
        assert parse_info(str(info)) == info
    for text in ["", "R.Nothing", "R.Tensor(", "f()", "R.Tensor((n ** 2,))", "R.Tensor((__import__('os'),))"]:
        with pytest.raises(ValueError, match="not structural information"):
            parse_info(text)


def test_match_shape_value():
    B["match_shape_value"](tensor(2, 3), ShapeTuple((2, 3)), W)
    with pytest.raises(ValueError, match=r"^main: parameter w: the shape is \(2, 3\), expected \(2, 4\)$"):
        B["match_shape_value"](tensor(2, 3), ShapeTuple((2, 4)), W)


@pytest.mark.parametrize(
    ("name", "args", "error", "message"),
    [
        ("make_shape", (None, 3, USE_IMM, 1), ValueError, "make_shape: 3 dimensions are 6 codes and numbers, found 2"),
        ("make_shape", (None, 1), ValueError, "make_shape: 1 dimensions are 2 codes and numbers, found 0"),
        ("make_shape", (ShapeHeap(2), 1, LOAD_SLOT, 2), IndexError, "there is no slot 2 in a shape heap of 2"),
        ("make_shape", (ShapeHeap(2), 1, LOAD_SLOT, -1), IndexError, "there is no slot -1 in a shape heap of 2"),
        ("make_prim_value", (ShapeHeap(2), LOAD_SLOT, 2, "bool"), IndexError, "there is no slot 2"),
        ("make_prim_value", (ShapeHeap(2), LOAD_SLOT, 2, "float32"), IndexError, "there is no slot 2"),
        ("match", ((), ShapeHeap(1), "tuple", 0, None, 1, "f"), ValueError, "match: 1 dimensions are 2 codes"),
        ("match", ((), ShapeHeap(1), "tuple", 0, None, 0), ValueError, "match: the text with which messages begin"),
        ("match_prim_value", (3, ShapeHeap(1), STORE, 1, "f"), IndexError, "there is no slot 1 in a shape heap of 1"),
    ],
)  # fmt: skip
def test_arguments_that_are_missing_are_errors_with_a_text(name, args, error, message):
    with pytest.raises(error, match=f"^{message}"):
        BUILTINS[f"vm.builtin.{name}"].function(*args)


PAIR = '[["tensor",1,"float32",[3,0],[]],["tuple",2,"",[],[0,0]],["tuple",2,"",[],[1,1]]]'
"""Pairs of pairs of a vector, whose size is in a slot."""


def test_match_parts():
    check = B["match_parts"]
    pair = (tensor(4), tensor(4))
    check((pair, pair), heap(4), PAIR, W)
    with pytest.raises(ValueError, match=re.escape(f"{W}[1][0]: dimension 0 is 3, expected n = 4")):
        check((pair, (tensor(3), tensor(4))), heap(4), PAIR, W)
    with pytest.raises(ValueError, match=re.escape(f"{W}[0]: ")):
        check(((tensor(4),), pair), heap(4), PAIR, W)


@pytest.mark.parametrize(
    "table",
    [
        "",
        "[",
        "[]",
        "7",
        "[7]",
        '[["tuple",1,"",[],[0]]]',
        '[["tuple",2,"",[],[null]]]',
        '[["tensor",1,"float32",[1,0],[]]]',
        '[["tensor",1,"float32",[3],[]]]',
        '[["tensor",1,"float32",[],[null]]]',
        '[["list",0,"",[],[]]]',
        '[["tuple",0,"",[],["0"]]]',
        "[" * 100_000,
    ],
)
def test_a_table_that_is_none(table):
    with pytest.raises(ValueError, match="match_parts: this is no table of what is matched: "):
        B["match_parts"]((), None, table, W)
