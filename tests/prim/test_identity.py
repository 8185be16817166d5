"""One object for all scalar expressions that are structurally equal (`relax.prim.identity`)."""

from __future__ import annotations

import gc
import weakref

import pytest

from relax.prim import FloatImm, IntImm, Let, Min, Select, SizeVar, Var, cast
from relax.prim.identity import identity as identity_of
from relax.prim.intrin import if_then_else, popcount
from relax.tir import BufferLoad, decl_buffer

N, M = SizeVar("n", "int64"), SizeVar("n", "int64")


def values(n):
    """Expressions over a variable, all of them different."""
    return [
        n,
        n + 1,
        n - 1,
        (n + 1) * 4,
        Min(n, IntImm("int64", 512)),
        Min(IntImm("int64", 512), n),
        cast("int32", n),
        cast("float32", n),
        Select(n > 1, n, n + 1),
        ~(n > 1),
        popcount(n),
        if_then_else(n > 1, n, n + 1),
        Let(Var("x", "int64"), n, n + 1),
    ]


CONSTANTS = [
    IntImm("int64", 1),
    IntImm("int32", 1),
    IntImm("bool", 1),
    FloatImm("float32", 0.0),
    FloatImm("float32", -0.0),
    FloatImm("float64", 0.0),
]


def test_equal_expressions_have_one_and_others_have_another():
    first, second = [[identity_of(value) for value in values(N)] for _ in range(2)]
    assert first == second
    assert len(set(first)) == len(first)


def test_variables_of_the_same_name_are_different():
    assert not {identity_of(value) for value in values(N)} & {identity_of(value) for value in values(M)}


def test_constants_are_told_apart_by_dtype_and_sign():
    assert len({identity_of(value) for value in CONSTANTS}) == len(CONSTANTS)


def test_expressions_of_other_rooms_are_compared_structurally():
    a, b = decl_buffer((8,), "int64", "a"), decl_buffer((8,), "int64", "b")
    assert identity_of(BufferLoad(a, [N]) + 1) is identity_of(BufferLoad(a, [N]) + 1)
    assert identity_of(BufferLoad(a, [N])) is not identity_of(BufferLoad(b, [N]))


def test_nothing_is_kept_when_the_expressions_are_gone():
    gone = weakref.ref(identity_of((N + 12345) * 3))
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("depth", [10, 20_000])
def test_deep_expressions(depth):
    def sum_of(count):
        total = N
        for _ in range(count):
            total = total + M
        return total

    assert identity_of(sum_of(depth)) is identity_of(sum_of(depth))
    assert identity_of(sum_of(depth)) is not identity_of(sum_of(depth + 1))
