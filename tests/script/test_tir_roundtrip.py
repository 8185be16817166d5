"""Printing a PrimFunc and reading it back gives the same function: formulas, blocks, lowered forms, random ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relax import te, tir, topi
from relax.ir import assert_structural_equal
from relax.script import from_source
from relax.tir import interpret
from relax.tir.transform import lower

N = te.var("n", "int64")


def tensor(name, *shape, dtype="float32"):
    return te.placeholder(shape, dtype, name)


def reread(func):
    text = func.script(show_meta=True)
    again = from_source(text)
    assert_structural_equal(again, func)
    assert again.script(show_meta=True) == text
    return again


A, B, M = tensor("A", N, 4), tensor("B", N, 4), tensor("M", 4, N)
X, W = tensor("X", 2, 3, 8, 8), tensor("W", 5, 3, 3, 3)

FORMULAS = {
    "exp": lambda: [A, topi.exp(A)],
    "relu": lambda: [A, topi.nn.relu(A)],
    "cast": lambda: [A, topi.cast(A, "float16")],
    "clip": lambda: [A, topi.clip(A, -1.0, 1.0)],
    "add": lambda: [A, B, topi.add(A, B)],
    "power": lambda: [A, B, topi.power(A, B)],
    "less": lambda: [A, B, topi.less(A, B)],
    "sum": lambda: [A, topi.sum(A, 1)],
    "max": lambda: [A, topi.max(A, 0, keepdims=True)],
    "argmax": lambda: [A, topi.argmax(A, 1)],
    "matmul": lambda: [A, M, topi.matmul(A, M)],
    "softmax": lambda: [A, topi.nn.softmax(A, -1)],
    "reshape": lambda: [A, topi.reshape(A, (N * 2, 2))],
    "transpose": lambda: [A, topi.transpose(A, (1, 0))],
    "concatenate": lambda: [A, B, topi.concatenate([A, B], 0)],
    "conv2d": lambda: [X, W, topi.nn.conv2d(X, W, (1, 1), (1, 1), (1, 1))],
}


@pytest.mark.parametrize("name", FORMULAS)
def test_formulas(name):
    func = te.create_prim_func(FORMULAS[name]())
    reread(func)
    reread(lower(func))


@pytest.mark.parametrize(
    "dtype",
    ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32",
     "float64", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn", "int2", "int4", "uint2", "uint4"],
)  # fmt: skip
def test_constants_of_every_dtype(dtype):
    a = tensor("A", 4, dtype=dtype)
    low, high = tir.min_value(dtype), tir.max_value(dtype)
    reread(te.create_prim_func([a, te.compute((4,), lambda i: tir.max(tir.min(a[i], high), low), "B")]))


@pytest.mark.parametrize("value", [0.1, -0.0, 1e300, 5e-324, float("inf"), float("-inf"), float("nan"), 2.0**60])
def test_float_constants(value):
    a = tensor("A", 4, dtype="float64")
    reread(te.create_prim_func([a, te.compute((4,), lambda i: a[i] + te.const(value, "float64"), "B")]))


INDEX = st.deferred(
    lambda: st.one_of(
        st.sampled_from(["i", "j"]),
        st.integers(-7, 7),
        st.tuples(st.sampled_from(["+", "-", "*", "//", "%", "min", "max"]), INDEX, INDEX),
    )
)


def build(tree, i, j):
    """An index expression from a tree; divisors are made positive constants."""
    if not isinstance(tree, tuple):
        return {"i": i, "j": j}.get(tree, tree)
    op, left, right = tree
    a, b = build(left, i, j), build(right, i, j)
    if op in ("//", "%"):
        b = abs(b) + 1 if isinstance(b, int) else 3
    match op:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "//":
            return a // b
        case "%":
            return a % b
        case "min":
            return tir.min(a, b)
        case _:
            return tir.max(a, b)


@settings(max_examples=60)
@given(INDEX, INDEX, st.sampled_from(["serial", "vectorized", "unrolled", "parallel"]), st.booleans())
def test_random_programs(source, condition, kind, swap):
    """B[i, j] = A[source % 16] where a condition holds: read back, and lowered, it computes the same."""
    i, j = tir.Var("i", "int64"), tir.Var("j", "int64")
    a, b = tir.decl_buffer((16,), "int32", "A"), tir.decl_buffer((5, 4), "int32", "B")
    index = tir.convert(build(source, i, j)).astype("int64") % 16
    value = a[index] + tir.Select((tir.convert(build(condition, i, j)).astype("int64") > j), i, j).astype("int32")
    store = tir.BufferStore(b, value, (i, j))
    loops = [(i, 5, "serial"), (j, 4, kind)]
    body = store
    for var, extent, loop_kind in loops if swap else reversed(loops):
        body = tir.For(var, 0, extent, loop_kind, body)
    handles = tir.Var("a", "handle"), tir.Var("b", "handle")
    func = tir.PrimFunc(handles, body, buffer_map=dict(zip(handles, (a, b))))
    results = []
    for candidate in (func, reread(func), lower(func), reread(lower(func))):
        out = np.zeros((5, 4), "int32")
        interpret(candidate, np.arange(16, dtype="int32") * 3, out)
        results.append(out)
    for other in results[1:]:
        np.testing.assert_array_equal(results[0], other)
