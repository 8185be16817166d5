"""Building scalar expressions with Python operators."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from relax.ir import DataType, load_json, save_json, structural_equal
from relax.prim import (
    EQ,
    Add,
    And,
    Call,
    Cast,
    FloatImm,
    FloorDiv,
    IntImm,
    Let,
    Mul,
    Not,
    Or,
    Select,
    SizeVar,
    StringImm,
    Sub,
    Var,
    cast,
    const,
    convert,
    dimension,
    dimensions,
    is_const,
    mark_nonnegative,
    promote,
    same,
)
from relax.prim.arithmetic import wrap
from relax.prim.bounds import Facts
from relax.prim.normal import Normalizer

n = SizeVar("n", "int64")
i = Var("i", "int32")
x = Var("x", "float32")
p = Var("p", "bool")


def test_operators_build_nodes():
    match n * 4 + 1:
        case Add(Mul(a, IntImm(_, 4)), IntImm(_, 1)):
            assert a is n
        case other:
            raise AssertionError(other)
    assert isinstance(n // 2, FloorDiv)
    assert (n // 2).dtype == "int64"
    assert isinstance(1 - n, Sub)
    assert isinstance(~p, Not)
    assert isinstance(p & p, And)
    assert isinstance(p | p, Or)
    assert (i & 7).intrinsic == "bitwise_and"
    assert (i << 1).intrinsic == "shift_left"
    assert (n < 3).dtype == "bool"


def test_constants_are_folded_with_wraparound():
    assert (const(100, "int8") + const(100, "int8")).value == -56
    assert (const(7) // const(-2)).value == -4
    assert (-const(-128, "int8")).value == -128
    assert isinstance(const(7) // const(0), FloorDiv)  # not folded: it stays an error


def test_literals_take_the_other_operands_dtype():
    assert (n + 1).b.dtype == "int64"
    assert (x * 2).b.dtype == "float32"
    assert (i + 0.5).dtype == "float32"
    assert (Var("u", "uint8") + 300).dtype == "int32"


def test_operands_meet_in_the_wider_type():
    assert (i + n).dtype == "int64"
    assert isinstance((i + n).a, Cast)
    assert promote(cast("float16", x).dtype, x.dtype) == "float32"
    with pytest.raises(TypeError, match="no common type for float16 and bfloat16"):
        promote(Var("a", "float16").dtype, Var("b", "bfloat16").dtype)


def test_integers_do_not_divide_silently():
    with pytest.raises(TypeError, match=r"write a // b \(floor\) or truncdiv"):
        n / 2
    assert (x / 2).dtype == "float32"


def test_equality_builds_an_expression_and_keys_work():
    assert isinstance(n == 4, EQ)
    assert bool(n == n)
    assert not bool(n == 4)
    assert {n: 1, i: 2}[n] == 1
    assert n in [i, n]


def test_the_truth_of_an_expression_is_refused():
    with pytest.raises(TypeError, match="truth of the symbolic expression"):
        bool(n < 3)
    assert bool(const(3))
    assert not bool(const(0))


def test_operands_of_different_dtype_are_refused_by_the_nodes():
    with pytest.raises(TypeError, match="Add: the operands differ in dtype: int64 and int32"):
        Add(n, i)
    with pytest.raises(TypeError, match="And: an operand has dtype int32, expected bool"):
        And(p, i)
    with pytest.raises(TypeError, match="Not: the operand has dtype int64, expected bool"):
        Not(n)
    with pytest.raises(TypeError, match="Select: the values differ in dtype: int64 and int32"):
        Select(p, n, i)


@pytest.mark.parametrize(
    "dtype, value", [("int8", 128), ("int8", -129), ("uint8", 256), ("uint8", -1), ("bool", 2), ("int64", 2**63)]
)
def test_constants_must_fit(dtype, value):
    with pytest.raises(ValueError, match=f"{value} does not fit {dtype}"):
        IntImm(dtype, value)


def test_const_chooses_a_dtype():
    assert const(1).dtype == "int32"
    assert const(2**31).dtype == "int64"
    assert const(True).dtype == "bool"
    assert const(1.5).dtype == "float32"
    assert const(np.int8(3)).value == 3
    with pytest.raises(ValueError, match="const: 1.5 is not an integer, and the dtype is int32"):
        const(1.5, "int32")


def test_convert():
    assert convert(n) is n
    assert convert("name").value == "name"
    assert isinstance(convert("name"), StringImm)
    with pytest.raises(TypeError, match="expected a scalar expression, found list"):
        convert([1])


def test_dimensions_are_int64():
    assert [d.dtype for d in dimensions((1, n, const(3)))] == ["int64", "int64", "int64"]
    with pytest.raises(TypeError, match="a dimension must be an integer expression, found dtype float32"):
        dimension(x)


def test_cast_folds_and_skips():
    assert cast("int64", n) is n
    assert cast("int8", const(200)).value == -56
    assert cast("float32", const(2)).value == 2.0
    assert isinstance(cast("float32", n), Cast)


def test_marking_a_variable_as_a_size():
    v = Var("v", "int64")
    assert not v.nonnegative
    mark_nonnegative(v)
    assert v.nonnegative
    assert pickle.loads(pickle.dumps(v)).nonnegative
    assert load_json(save_json(v)).nonnegative


def test_same_and_is_const():
    assert same(n, n)
    assert same(const(1), const(1))
    assert not same(n, n + 0)
    assert is_const(const(4), 4)
    assert not is_const(n)


def test_json_and_pickle_keep_shared_variables_shared():
    expr = Let(i, const(3), Select(p, i + i, Call("int32", "tir.abs", (i,))))
    for copy in (load_json(save_json(expr)), pickle.loads(pickle.dumps(expr))):
        assert structural_equal(copy, expr, map_free_vars=True)
        assert copy.body.true_value.a is copy.body.true_value.b is copy.var


def test_special_floats_survive_json():
    for value in (float("inf"), float("-inf"), float("nan"), -0.0, 1e-45):
        assert structural_equal(load_json(save_json(FloatImm("float32", value))), FloatImm("float32", value))


def test_node_constructors_take_numbers():
    assert Add(n, 1).b.dtype == "int64"
    assert EQ(0, x).a.dtype == "float32"
    assert Select(p, x, 0).false_value.dtype == "float32"
    assert And(p, True).b.dtype == "bool"
    assert Call("float32", "tir.exp", (1.0,)).args[0].value == 1.0
    assert Cast("int8", 3).value.value == 3
    assert Add(np.int64(3), n).a.value == 3
    with pytest.raises(TypeError, match="expected a scalar expression, found NoneType"):
        Add(n, None)


def test_operators_with_a_number_on_the_left():
    spelled = [2 - n, 2 * n, 7 // n, 7 % n, 3 + n]
    assert [(type(e).__name__, e.a.value, e.b) for e in spelled] == [
        ("Sub", 2, n), ("Mul", 2, n), ("FloorDiv", 7, n), ("FloorMod", 7, n), ("Add", 3, n)
    ]  # fmt: skip
    x = Var("x", "float32")
    assert (type(1.0 / x).__name__, type(x / 2).__name__) == ("Div", "Div")
    with pytest.raises(TypeError, match="integers divide in several ways"):
        n / 2


def test_operators_on_bits():
    i = Var("i", "int32")
    names = [(5 & i), (5 | i), (5 ^ i), i & 5, i | 5, i ^ 5, i << 2, i >> 2, ~i]
    assert [e.intrinsic for e in names] == [
        "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_and", "bitwise_or", "bitwise_xor",
        "shift_left", "shift_right", "bitwise_not",
    ]  # fmt: skip
    with pytest.raises(TypeError, match="bitwise_and: expected integers, found float32 and float32"):
        Var("x", "float32") & 1.0


def test_comparisons_are_expressions():
    assert [type(e).__name__ for e in (n < 1, n <= 1, n > 1, n >= 1, n == 1, n != 1)] == [
        "LT", "LE", "GT", "GE", "EQ", "NE"
    ]  # fmt: skip
    assert (n == "text") is False
    assert (n != "text") is True
    assert bool(n == n) is True
    assert bool(n != n) is False
    with pytest.raises(TypeError, match="the truth of the symbolic expression"):
        bool(n + 1)


def test_constants_are_numbers():
    two, half = const(2, "int64"), const(0.5, "float32")
    assert (int(two), [7, 8, 9][two], bool(two), bool(const(0))) == (2, 9, True, False)
    assert (float(half), bool(half), bool(const(0.0))) == (0.5, True, False)
    assert ((-two).value, (-half).value) == (-2, -0.5)
    assert const(two, "int8").dtype == "int8"


def test_a_variable():
    assert n.name_hint == "n"
    assert n.astype("int32").dtype == "int32"
    assert type(n.equal(3)) is EQ
    with pytest.raises(TypeError, match="a variable's name is text, found int"):
        Var(3, "int64")
    twice = SizeVar("t", "int64")
    mark_nonnegative(twice)  # a second time changes nothing
    assert twice.nonnegative
    for var, known in ((n, True), (Var("i", "int64"), False)):
        assert pickle.loads(pickle.dumps(var)).nonnegative is known


def test_where_dtypes_meet():
    with pytest.raises(TypeError, match="different numbers of lanes: int32 and int32x4"):
        promote(DataType("int32"), DataType("int32x4"))
    assert promote(DataType("bool"), DataType("int8")) == "int8"
    assert promote(DataType("int8"), DataType("bool")) == "int8"
    with pytest.raises(TypeError, match="no common type for float16 and bfloat16"):
        promote(DataType("float16"), DataType("bfloat16"))
    assert promote(DataType("uint8"), DataType("int8")) == "int8"
    with pytest.raises(TypeError, match="no common type for handle and int64"):
        promote(DataType("handle"), DataType("int64"))


def test_conversions_of_constants():
    assert cast("float32", const(2)).value == 2.0
    assert cast("float64", const(0.5)).dtype == "float64"
    assert isinstance(cast("int32", const(0.5)), Cast)
    assert isinstance(cast("handle", const(3)), Cast)
    assert isinstance(cast("int32x4", const(3)), Cast)


def test_what_is_made_of_wrong_parts():
    with pytest.raises(ValueError, match="IntImm: dtype float32 is not an integer type"):
        IntImm("float32", 1)
    with pytest.raises(ValueError, match="FloatImm: dtype int32 is not a floating-point type"):
        FloatImm("int32", 1.0)
    assert wrap(2, DataType("bool")) == 1
    with pytest.raises(TypeError, match="Select: the condition has dtype int64, expected bool"):
        Select(n, n, n)
    with pytest.raises(TypeError, match="Select: the values differ in dtype"):
        Select(EQ(n, 1), n, Var("i", "int32"))

    class Axis:
        def asobject(self):
            return n

    assert convert(Axis()) is n
    with pytest.raises(TypeError, match="expected a scalar expression, found object"):
        convert(object())


def test_an_atom_says_what_it_is():
    """For those who look at the normal form."""
    (atom,) = next(iter(Normalizer(Facts()).normal(n // 4)))
    assert repr(atom).startswith("FloorDiv(")
    (atom,) = next(iter(Normalizer(Facts()).normal(Call("int64", "tir.popcount", (n,)))))
    assert repr(atom).startswith("count")


def test_a_let_takes_numbers():
    let = Let(i, 3, 5)
    assert (let.value.dtype, let.value.value) == ("int32", 3)
    assert (let.body.dtype, let.body.value) == ("int32", 5)


def test_constants_of_constants():
    assert const(const(3, "int8")).dtype == "int8"
    assert const(const(2.0, "float64"), "int16").value == 2
    with pytest.raises(ValueError, match="const: 1e\\+39 does not fit float32"):
        const(1e39, "float32")
    with pytest.raises(ValueError, match="does not fit float16"):
        const(10**400, "float16")
