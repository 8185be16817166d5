"""PrimFuncs for known sizes."""

from __future__ import annotations

import pytest

from relax import tir
from relax.ir import DiagnosticError, assert_structural_equal
from relax.tir import specialize

SYMBOLIC = """
@T.prim_func
def f(a: T.handle, B: T.Buffer(("n * 2", "m"), "float32"), k: T.int64):
    n = T.int64()
    m = T.int64()
    A = T.match_buffer(a, (n, m), "float32")
    for i, j in T.grid(n, m):
        B[i * 2 + k, j] = A[i, j]
"""


@pytest.fixture
def func(parse):
    return parse(SYMBOLIC)


def sizes(func):
    return func.buffer_map[func.params[0]].shape


def test_sizes_and_scalars(func, parse):
    n, m = sizes(func)
    made = specialize(func, {n: 3, m: 4, func.params[2]: 1})
    assert_structural_equal(
        made,
        parse("""
@T.prim_func
def f(A: T.Buffer((3, 4), "float32"), B: T.Buffer((T.int64(3) * 2, 4), "float32")):
    for i, j in T.grid(T.int64(3), T.int64(4)):
        B[i * 2 + T.int64(1), j] = A[i, j]
"""),
    )
    assert specialize(func, {n: 3}).params == func.params


def test_by_buffer(func):
    made = specialize(func, {func.params[0]: tir.decl_buffer((3, 4))})
    assert [int(size) for size in sizes(made)] == [3, 4]


@pytest.mark.parametrize(
    "mapping, message",
    [
        (lambda f: {tir.Var("x", "int64"): 3}, "x is neither a parameter nor a size of one"),
        (lambda f: {f.params[0]: 3}, "parameter a is a tensor: give a Buffer"),
        (lambda f: {f.params[0]: tir.decl_buffer((3,))}, "A has 2 dimensions, the given buffer 1"),
        (lambda f: {f.params[0]: tir.decl_buffer((3, 4), "int8")}, "A has dtype float32, the given buffer int8"),
        (lambda f: {sizes(f)[0]: 4, f.params[0]: tir.decl_buffer((3, 4))}, "n would be"),
    ],
)
def test_what_does_not_fit(func, mapping, message):
    with pytest.raises(DiagnosticError, match=f"E5020.*{message}"):
        specialize(func, mapping(func))
