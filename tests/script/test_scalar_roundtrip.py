"""Scalar expressions: printing and reading give the same nodes, whatever they are made of."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from script_helpers import parse

from relax import prim
from relax.ir import DataType, assert_structural_equal
from relax.prim import expr as nodes
from relax.script import from_source
from relax.script import tir as T
from relax.tir.buffer import Broadcast, BufferLoad, Ramp, Shuffle, decl_buffer
from relax.tir.stmt import Evaluate, PrimFunc

INTS = ("int8", "int32", "int64", "uint8", "uint32")
FLOATS = ("float16", "float32", "float64", "bfloat16")
PARAMS = {dtype: [nodes.Var(f"{dtype}_{i}", dtype) for i in range(2)] for dtype in (*INTS, *FLOATS, "bool")}
BUFFERS = {dtype: decl_buffer((4, 4), dtype, f"buf_{dtype}") for dtype in (*INTS, *FLOATS)}


def function_of(expr):
    """A PrimFunc that evaluates the expression."""
    params = [var for group in PARAMS.values() for var in group]
    handles = {b: nodes.Var(f"h_{b.name}", "handle") for b in BUFFERS.values()}
    return PrimFunc(
        (*params, *handles.values()),
        Evaluate(expr),
        buffer_map={handle: buffer for buffer, handle in handles.items()},
        attrs={"global_symbol": "main"},
    )


def same_again(expr):
    func = function_of(expr)
    text = func.script(show_meta=True)
    assert_structural_equal(from_source(text, allow_extern=True), func)
    return text.splitlines()[-1].strip()


def ints(dtype):
    kind = DataType(dtype)
    return st.integers(max(kind.min_value, -(2**40)), min(kind.max_value, 2**40)).map(
        lambda value: nodes.IntImm(dtype, value)
    )


def floats(dtype):
    return st.floats(width=64).map(lambda value: nodes.FloatImm(dtype, value))


def leaf(dtype):
    options = [st.sampled_from(PARAMS[dtype])]
    if dtype == "bool":
        options.append(st.booleans().map(lambda v: nodes.IntImm("bool", v)))
    else:
        options.append(floats(dtype) if dtype in FLOATS else ints(dtype))
    return st.one_of(options)


ARITHMETIC = [
    nodes.Add,
    nodes.Sub,
    nodes.Mul,
    nodes.Div,
    nodes.Min,
    nodes.Max,
    nodes.FloorDiv,
    nodes.FloorMod,
    nodes.Mod,
]
COMPARISONS = [nodes.EQ, nodes.NE, nodes.LT, nodes.LE, nodes.GT, nodes.GE]


@st.composite
def expressions(draw, dtype=None, depth=4):
    """An expression of some dtype."""
    if dtype is None:
        dtype = draw(st.sampled_from([*INTS, *FLOATS, "bool"]))
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return draw(leaf(dtype))
    inner = lambda kind=dtype: draw(expressions(kind, depth - 1))  # noqa: E731
    if dtype == "bool":
        which = draw(st.integers(0, 3))
        if which == 0:
            other = draw(st.sampled_from([*INTS, *FLOATS, "bool"]))
            return draw(st.sampled_from(COMPARISONS))(inner(other), inner(other))
        if which == 1:
            return draw(st.sampled_from([nodes.And, nodes.Or]))(inner(), inner())
        return nodes.Not(inner()) if which == 2 else nodes.Select(inner(), inner(), inner())
    which = draw(st.integers(0, 9))
    if which <= 4:
        return draw(st.sampled_from(ARITHMETIC))(inner(), inner())
    if which == 5:
        other = draw(st.sampled_from([*INTS, *FLOATS, "bool"]))
        return nodes.Cast(dtype, inner(other))
    if which == 6:
        return nodes.Select(inner("bool"), inner(), inner())
    if which == 7:
        name = draw(st.sampled_from(["tir.if_then_else", "tir.abs", "tir.custom", "tir.max_value"]))
        args = {"tir.if_then_else": lambda: (inner("bool"), inner(), inner()), "tir.abs": lambda: (inner(),)}
        return nodes.Call(dtype, name, args.get(name, lambda: (inner(), inner("int32")))())
    if which == 8:
        return BufferLoad(BUFFERS[dtype], (inner("int32"), inner("int64")))
    if dtype in FLOATS:
        return nodes.Call(dtype, draw(st.sampled_from(["tir.exp", "tir.sqrt", "tir.floor"])), (inner(),))
    name = draw(st.sampled_from(["tir.bitwise_and", "tir.bitwise_xor", "tir.shift_left", "tir.shift_right"]))
    return nodes.Call(dtype, name, (inner(), inner()))


@given(expressions())
def test_any_expression(expr):
    same_again(expr)


n, m = PARAMS["int64"]
i, j = PARAMS["int32"]
x, y = PARAMS["float32"]
p, q = PARAMS["bool"]
ONE = nodes.IntImm("int64", 1)  # one object on both sides


@pytest.mark.parametrize(
    "expr, text",
    [
        (n + m * 2, "int64_0 + int64_1 * 2"),
        ((n + m) * 2, "(int64_0 + int64_1) * 2"),
        (n - (m - 1), "int64_0 - (int64_1 - 1)"),
        ((n - m) - 1, "int64_0 - int64_1 - 1"),
        (n // 2 % 3, "int64_0 // 2 % 3"),
        (n // (m % 3), "int64_0 // (int64_1 % 3)"),
        (n + -1, "int64_0 + -1"),
        (nodes.Add(nodes.IntImm("int64", 1), nodes.IntImm("int64", 2)), "T.int64(1) + 2"),
        (nodes.Add(nodes.IntImm("int32", 1), nodes.IntImm("int32", 2)), "T.int32(1) + 2"),
        (nodes.Sub(ONE, ONE), "T.int64(1) - 1"),
        (nodes.Mul(nodes.Add(nodes.IntImm("int32", 1), nodes.IntImm("int32", 2)), i), "(T.int32(1) + 2) * int32_0"),
        (n < m, "int64_0 < int64_1"),
        (nodes.EQ(n < m, p), "(int64_0 < int64_1) == bool_0"),
        (nodes.And(p, nodes.And(q, p)), "bool_0 and (bool_1 and bool_0)"),
        (nodes.And(nodes.And(p, q), p), "bool_0 and bool_1 and bool_0"),
        (nodes.Or(nodes.And(p, q), p), "bool_0 and bool_1 or bool_0"),
        (nodes.And(nodes.Or(p, q), p), "(bool_0 or bool_1) and bool_0"),
        (nodes.Not(nodes.And(p, q)), "not (bool_0 and bool_1)"),
        (nodes.And(nodes.Not(p), q), "not bool_0 and bool_1"),
        (nodes.And(nodes.IntImm("bool", 1), q), "T.bool(True) and bool_1"),
        (nodes.Min(n, nodes.IntImm("int64", 4)), "T.min(int64_0, 4)"),
        (nodes.Min(nodes.IntImm("int64", 3), nodes.IntImm("int64", 4)), "T.min(T.int64(3), T.int64(4))"),
        (nodes.Mod(i, j), "T.truncmod(int32_0, int32_1)"),
        (nodes.Div(i, nodes.IntImm("int32", 3)), "T.truncdiv(int32_0, 3)"),
        (x / y, "float32_0 / float32_1"),
        (x / (y / x), "float32_0 / (float32_1 / float32_0)"),
        (x * 0.5, "float32_0 * T.float32(0.5)"),
        (nodes.FloatImm("float32", float("-inf")), 'T.float32("-inf")'),
        (nodes.FloatImm("float64", float("nan")), 'T.float64("nan")'),
        (nodes.FloatImm("bfloat16", -0.0), "T.bfloat16(-0.0)"),
        (prim.intrin.exp(x), "T.exp(float32_0)"),
        (nodes.Call("float32", "tir.exp", (nodes.FloatImm("float32", 1.0),)), "T.exp(T.float32(1.0))"),
        (nodes.Call("int8", "tir.exp", (x,)), 'T.call_intrin("int8", "tir.exp", float32_0)'),
        (nodes.Call("int32", "tir.nobody_knows", (i,)), 'T.call_intrin("int32", "tir.nobody_knows", int32_0)'),
        (i << 2, "T.shift_left(int32_0, 2)"),
        (i & j, "T.bitwise_and(int32_0, int32_1)"),
        (nodes.Cast("int64", i), 'T.Cast("int64", int32_0)'),
        (nodes.Cast("int64", nodes.IntImm("int32", 3)), 'T.Cast("int64", T.int32(3))'),
        (nodes.Select(p, i, nodes.IntImm("int32", 0)), "T.Select(bool_0, int32_0, T.int32(0))"),
        (T.if_then_else(p, x, 0.0), "T.if_then_else(bool_0, float32_0, T.float32(0.0))"),
        (T.call_extern("float32", "powf", x, y), 'T.call_extern("float32", "powf", float32_0, float32_1)'),
        (Ramp(i, 1, 4), "T.Ramp(int32_0, 1, 4)"),
        (Broadcast(x, 4), "T.Broadcast(float32_0, 4)"),
        (
            BufferLoad(BUFFERS["float32"], (Ramp(0, 1, 4), Broadcast(2, 4))),
            "buf_float32[T.Ramp(0, 1, 4), T.Broadcast(2, 4)]",
        ),
        (
            BufferLoad(BUFFERS["float32"], (i, Ramp(0, 1, 4)), Broadcast(p, 4)),
            "buf_float32.vload([int32_0, T.Ramp(0, 1, 4)], predicate=T.Broadcast(bool_0, 4))",
        ),
        (Shuffle([x, Broadcast(y, 2)], [2, 0]), "T.Shuffle([float32_0, T.Broadcast(float32_1, 2)], [2, 0])"),
        (T.fma(x, y, 1.0), "T.fma(float32_0, float32_1, T.float32(1.0))"),
    ],
)  # fmt: skip
def test_text(expr, text):
    printed = same_again(expr)
    assert printed.removeprefix("T.evaluate(").removesuffix(")" * printed.startswith("T.evaluate(")) == text


def test_expressions_alone():
    assert (n * 2 + 1).script() == "int64_0 * 2 + 1"
    assert nodes.IntImm("int64", 3).script() == "T.int64(3)"
    assert nodes.Let(i, j + 1, i * i).script() == "T.Let(int32_0 * int32_0, where={int32_0: int32_1 + 1})"


def test_let_expressions():
    v, w = nodes.Var("v", "int32"), nodes.Var("v", "int32")
    same_again(nodes.Let(v, i + 1, v * v))
    same_again(nodes.Let(v, nodes.IntImm("int32", 1), nodes.Add(v, nodes.Let(w, i, w + v))))


def test_in_shapes_of_relax():
    """The same text means the same in a dimension."""
    func = parse("""
        @R.function
        def main(x: R.Tensor(("n", "m"), "float32"), c: R.Prim("int64")):
            n = T.int64()
            m = T.int64()
            return R.shape([n * 2, n // 2 + 1, T.min(n, m), T.max(n, 1), (n + 3) // 4 * 4, n % 8, -n, 0 - n, 7])
        """)
    assert_structural_equal(from_source(func.script(show_meta=True), allow_extern=True), func)


def test_deep_expressions_print():
    total = n
    for k in range(400):
        total = total + m if k % 2 else total - 1
    assert same_again(total).count("int64_1") == 200
