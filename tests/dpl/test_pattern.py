"""Patterns, each by itself: what they match, and what they give back."""

from __future__ import annotations

import pytest

import relax
from relax import op
from relax.analysis import get_var2val
from relax.dpl import (
    has_attr,
    has_dtype,
    is_call_dps_packed,
    is_call_packed,
    is_call_tir,
    is_const,
    is_dfv,
    is_expr,
    is_gv,
    is_op,
    is_shape,
    is_tuple,
    is_tuple_get_item,
    is_var,
    make_fused_bias_activation_pattern,
    make_residual_block_pattern,
    wildcard,
)
from relax.dpl.classes import FunctionPattern
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T

n = relax.tir.SizeVar("n", "int64")
x = relax.Var("x", R.Tensor((n, 4), "float32"))
y = relax.Var("y", R.Tensor((n, 4), "float32"))


@I.ir_module
class Module:
    @T.prim_func(private=True)
    def twice(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("b"):
                vi = T.axis.spatial(4, i)
                b[vi] = a[vi] + a[vi]

    @R.function(pure=False)
    def main(x: R.Tensor((4,), "float32"), w: R.Tensor((4,), "float32")):
        cls = Module
        with R.dataflow():
            a = R.call_tir(cls.twice, (x,), R.Tensor((4,), "float32"))
            b = R.call_dps_packed("lib.f", (a, w), R.Tensor((4,), "float32"))
            c = R.const([1, 2, 3, 4], "float32")
            d = R.add(c, b)
            t = (a, d)
            e = t[1]
            f = R.nn.relu(e)
            R.output(f)
        g = R.call_packed("lib.g", f, sinfo_args=R.Tensor((4,), "float32"))
        return g


VALUES = get_var2val(Module["main"])
BY_NAME = {var.name_hint: var for var in VALUES}


def names(pattern):
    """The variables of the module above whose values match."""
    return [var.name_hint for var in VALUES if pattern.match(var, VALUES)]


@pytest.mark.parametrize(
    "pattern, expected",
    [
        (wildcard(), list("abcdtefg")),
        (is_var("a"), ["a"]),
        (is_dfv(), list("abcdte")),
        (is_const(), ["c"]),
        (is_call_tir("twice"), ["a"]),
        (is_call_tir("twice", [is_var("x")]), ["a"]),
        (is_call_tir("twice", [is_var("w")]), []),
        (is_call_tir("thrice"), []),
        (is_call_dps_packed("lib.f"), ["b"]),
        (is_call_dps_packed("lib.f", [is_call_tir("twice"), is_var("w")]), ["b"]),
        (is_call_packed("lib.g"), ["g"]),
        (is_call_packed("lib.g", [wildcard()]), ["g"]),
        (is_call_packed("lib.g", []), []),
        (is_op("relax.add")(is_const(), wildcard()), ["d"]),
        (is_op("relax.add")(wildcard(), is_const()), ["d"]),  # a sum may be read either way
        (wildcard() + wildcard(), ["d"]),
        (wildcard() * wildcard(), []),
        (wildcard() - wildcard(), []),
        (wildcard() / wildcard(), []),
        (is_tuple([is_call_tir("twice"), wildcard()]), ["t"]),
        (is_tuple([wildcard(), is_call_tir("twice")]), []),
        (is_tuple([wildcard(), is_call_tir("twice")], unordered=True), ["t"]),
        (is_tuple([wildcard()]), []),
        (is_tuple_get_item(wildcard(), 1), ["e"]),
        (is_tuple_get_item(wildcard()), ["e"]),
        (is_tuple([wildcard(), wildcard()])[0], []),
        (is_op("relax.nn.relu")(is_tuple_get_item(is_tuple([wildcard(), wildcard() + wildcard()]))), ["f"]),
        (is_op("relax.nn.relu")(varg_default_wildcard=True), ["f"]),
        (is_op("relax.add")(wildcard()), []),
        (is_expr(relax.const([1, 2, 3, 4], "float32")), ["c"]),
        (is_const() | is_call_tir("twice"), ["a", "c"]),
        (is_dfv() & ~is_const() & ~is_call_tir("twice"), list("bdte")),
        (is_call_tir("twice").has_dtype("float32").has_shape((4,)), ["a"]),
        (is_call_tir("twice").has_dtype("float16"), []),
        (wildcard().has_shape((5,)), []),
        (wildcard().has_struct_info(R.Tensor(ndim=1)), list("abcdefg")),
        (has_dtype("float32", is_const()), ["c"]),
    ],
)
def test_patterns_match(pattern, expected):
    assert names(pattern) == expected


def test_global_variables_and_expressions_match_as_they_are():
    assert is_gv("twice").match(Module.get_global_var("twice"))
    assert not is_gv("main").match(Module.get_global_var("twice"))
    assert is_expr(x).match(x)
    assert not is_expr(x).match(y)
    assert is_op("relax.add")(is_var("x"), is_var("y")).match(op.add(x, y))


def test_without_values_variables_are_not_looked_through():
    relu = is_op("relax.nn.relu")(is_tuple_get_item(wildcard()))
    assert not relu.match(VALUES[BY_NAME["f"]])
    assert relu.match(VALUES[BY_NAME["f"]], VALUES)


def test_shapes_and_struct_info_are_proved():
    assert wildcard().has_shape((n, 4)).match(x)
    assert wildcard().has_shape((n * 2 - n, 4)).match(x)
    assert not wildcard().has_shape((n + 1, 4)).match(x)
    assert not wildcard().has_shape((relax.tir.SizeVar("m", "int64"), 4)).match(x)
    assert is_shape([n, 4]).match(relax.ShapeExpr([n, 4]))
    assert not is_shape([4, n]).match(relax.ShapeExpr([n, 4]))
    assert not is_shape([n, 4]).match(x)
    assert wildcard().has_struct_info(R.Tensor((n, 4), "float32")).match(x)
    assert not wildcard().has_struct_info(R.Tensor((n, 4), "float16")).match(x)


def test_attributes_are_compared():
    total = op.sum(x, axis=[0], keepdims=True)
    assert is_op("relax.sum")(wildcard()).has_attr({"axis": [0], "keepdims": True}).match(total)
    assert not is_op("relax.sum")(wildcard()).has_attr({"axis": [1]}).match(total)
    assert not is_op("relax.sum")(wildcard()).has_attr({"axes": [0]}).match(total)
    cast = op.astype(x, "float16")
    assert has_attr({"dtype": "float16"}).match(cast)
    assert is_op("relax.add").has_attr({"FPurity": True}).match(relax.Op.get("relax.add"))


def test_functions_match_by_parameters_and_result():
    func = Module["main"].with_attr("kind", "example")
    pattern = FunctionPattern([is_var("x"), is_var("w")], is_call_packed("lib.g", [is_op("relax.nn.relu")(wildcard())]))
    assert pattern.match(func)
    assert pattern.has_attr({"kind": "example"}).match(func)
    assert not pattern.has_attr({"kind": "other"}).match(func)
    assert not FunctionPattern([is_var("x")], wildcard()).match(func)


def test_what_matched_is_given_back():
    first, second = is_const(), wildcard()
    total = is_op("relax.add")(second, first)
    matched = total.extract_matched_expr(BY_NAME["d"], VALUES)
    assert matched[first] is BY_NAME["c"]
    assert matched[second] is BY_NAME["b"]
    assert matched[total] is BY_NAME["d"]
    assert total.extract_matched_expr(BY_NAME["a"], VALUES) is None


def test_one_pattern_matches_one_value():
    same = wildcard()
    square = is_op("relax.multiply")(same, same)
    assert square.match(op.multiply(x, x))
    assert not square.match(op.multiply(x, y))
    other = relax.Var("other", R.Tensor((n, 4), "float32"))
    assert square.match(op.multiply(x, other), {other: x})


def test_all_ways_are_tried():
    # The first order of the outer sum fits its left operand, and fails only at the right one.
    a, b = wildcard(), is_var("y")
    pattern = (a + b) + is_op("relax.exp")(a)
    assert pattern.match(op.add(op.exp(x), op.add(y, x)))
    either = wildcard() | is_op("relax.exp")(wildcard())
    assert (either & is_op("relax.exp")(is_var("x"))).match(op.exp(x))


def test_optional_operators():
    product = is_op("relax.matmul")(wildcard(), wildcard())
    pattern = product.optional(lambda out: is_op("relax.nn.relu")(out))
    w = relax.Var("w", R.Tensor((4, 4), "float32"))
    assert pattern.match(op.matmul(x, w))
    assert pattern.match(op.nn.relu(op.matmul(x, w)))
    assert not pattern.match(op.nn.relu(x))


def test_operands_left_out_are_no_arguments():
    image = relax.Var("image", R.Tensor((1, 4, 8, 8), "float32"))
    weight = relax.Var("weight", R.Tensor((4, 4, 3, 3), "float32"))
    assert is_op("relax.nn.conv2d")(wildcard(), wildcard()).match(op.nn.conv2d(image, weight))
    assert is_op("relax.take")(wildcard(), wildcard()).match(op.take(x, relax.const([0]), axis=0))


def test_bias_and_activation():
    w, bias = relax.Var("w", R.Tensor((4, 4), "float32")), relax.Var("bias", R.Tensor((4,), "float32"))
    full = op.nn.relu(op.add(op.matmul(x, w), bias))
    make = make_fused_bias_activation_pattern
    assert make("relax.matmul", with_bias=True, activation="relax.nn.relu").match(full)
    assert not make("relax.matmul", activation="relax.nn.relu").match(full)
    assert make("relax.matmul", with_bias=True).match(full.args[0])
    reshaped = op.add(op.reshape(op.matmul(x, w), relax.ShapeExpr([4 * n])), bias)
    assert make("relax.matmul", with_bias=True, allow_reshape=True).match(reshaped)
    assert not make("relax.matmul", with_bias=True).match(reshaped)


def test_residual_blocks():
    node = is_op("relax.exp")(wildcard())
    pattern, named = make_residual_block_pattern(node, activation="relax.nn.relu")
    matched = pattern.extract_matched_expr(op.nn.relu(op.add(y, op.exp(x))))
    assert matched[named["residual"]] is y
    again, names_ = make_residual_block_pattern((node, {"node": node}), wildcard(), "relax.multiply")
    assert set(names_) == {"node", "residual"}
    assert again.match(op.multiply(op.exp(x), y))


def test_unknown_operators_are_named():
    with pytest.raises(KeyError, match="operator 'relax.ad' is not registered"):
        is_op("relax.ad")


def test_patterns_are_shown():
    assert repr(is_var("x") | is_const()) == "OrPattern(left=VarPattern(name='x'), right=ConstantPattern())"
