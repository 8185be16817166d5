"""Greatest and least floats of rows: NaN, infinities and sums that overflow give what a plain maximum does."""

from __future__ import annotations

import numpy as np
import pytest

from relax import te, tir, topi
from relax.codegen import build_module, resolve
from relax.schedules import cpu, schedule
from relax.script import from_source


def reduced(columns, dtype="float32", least=False):
    x = te.placeholder((te.var("m", "int64"), columns), dtype, "x")
    return te.create_prim_func([x, (topi.min if least else topi.max)(x, axis=1)])


def arranged(func, target):
    return schedule(func, target, cpu.RULES)


def rows(n, dtype="float32"):
    """Rows of numbers; with NaN, infinities of one sign and of both, and with what overflows when it is added up."""
    x = np.random.default_rng(0).standard_normal((14, n)).astype(dtype)
    big = np.finfo(dtype).max
    values = (np.nan, -np.nan, np.inf, -np.inf, big, -big)
    for i, value in enumerate(values):
        x[i, n // 2] = value
    x[6, :] = -np.inf
    x[7, :] = np.nan
    x[8, 0], x[8, -1] = np.inf, -np.inf
    x[9, 0], x[9, -1] = np.nan, np.inf
    x[10, :] = big
    x[11, :] = -big
    x[12, ::2], x[12, 1::2] = big, np.inf
    x[13, -1] = np.nan
    return x


@pytest.mark.parametrize("least", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 15, 16, 17, 31, 64, 65, 100, 128, 1000])
def test_extremes_of_rows(n, dtype, least):
    x = rows(n, dtype)
    result = np.zeros(len(x), dtype)
    build_module(arranged(reduced(n, dtype, least), resolve("llvm")))["main"](x, result)
    np.testing.assert_array_equal(result, (np.min if least else np.max)(x, axis=1))


@pytest.mark.parametrize("least", [False, True])
def test_rows_of_unknown_length(target, least):
    """Of no element the result is what the reduction starts from."""
    func = reduced(te.var("n", "int64"), least=least)
    kernel, interpreted = build_module(arranged(func, resolve("llvm")))["main"], arranged(func, target)
    for n in (0, 1, 2, 16, 63, 64, 65, 200):
        x = rows(n) if n else np.zeros((14, 0), "float32")
        expected = (np.min if least else np.max)(x, axis=1, initial=np.inf if least else -np.inf)
        for run in (kernel, lambda *args: tir.interpret(interpreted, *args)):
            result = np.zeros(len(x), "float32")
            with np.errstate(all="ignore"):
                run(x, result)
            np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("least", [False, True])
@pytest.mark.parametrize("n", [33, 64, 70])
def test_the_interpreter_computes_the_same(target, n, least):
    func = arranged(reduced(n, least=least), target)
    assert "total != total" in func.script()
    tir.verify_well_formed(func)
    x = rows(n)
    result = np.zeros(len(x), "float32")
    with np.errstate(all="ignore"):
        tir.interpret(func, x, result)
    np.testing.assert_array_equal(result, (np.min if least else np.max)(x, axis=1))


@pytest.mark.parametrize("n", [1, 16, 100, 384])
def test_softmax_of_rows_with_nan(n):
    x = te.placeholder((te.var("m", "int64"), n), "float32", "x")
    kernel = build_module(arranged(te.create_prim_func([x, topi.nn.softmax(x, axis=1)]), resolve("llvm")))["main"]
    data = rows(n)
    result = np.zeros_like(data)
    kernel(data, result)
    with np.errstate(all="ignore"):
        e = np.exp(data.astype("float64") - data.max(axis=1, keepdims=True))
        expected = e / e.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-30)


def test_what_a_reduction_starts_from_counts(target):
    """The greatest of a row and 3."""
    text = """
from relax.script import tir as T

@T.prim_func
def main(A: T.Buffer((4, 100), "float32"), M: T.Buffer((4,), "float32")):
    T.func_attr({"tir.noalias": True})
    for i, k in T.grid(4, 100):
        with T.block("M"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                M[vi] = T.float32(3)
            M[vi] = T.max(M[vi], A[vi, vk])
"""
    func = arranged(from_source(text), target)
    a = np.random.default_rng(0).standard_normal((4, 100)).astype("float32")
    a[1, 50], a[2, 50], a[3, 50] = 7, np.nan, -np.inf
    result = np.zeros(4, "float32")
    tir.interpret(func, a, result)
    np.testing.assert_array_equal(result, np.maximum(a.max(axis=1), np.float32(3)))


def test_rows_of_integers_have_the_plain_loops(target):
    x = te.placeholder((4, 100), "int32", "x")
    assert "total" not in arranged(te.create_prim_func([x, topi.max(x, axis=1)]), target).script()
