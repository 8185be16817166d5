"""Element-wise nests that read elements several times in a row: enlarged images."""

from __future__ import annotations

import numpy as np
import pytest
from applied import Applied

from relax import te, tir
from relax.schedules import schedule
from relax.schedules.cpu import Nests


def enlarging(n, m, times, dtype="float32"):
    """Images enlarged to nearest neighbours, one of them scaled, plus what has their size."""
    x, y = te.placeholder((n, n, m), dtype, "X"), te.placeholder((n, n, m), dtype, "Y")
    z, b = te.placeholder((n, n * times, m * times), dtype, "Z"), te.placeholder((n,), dtype, "B")

    def element(c, i, j):
        near = c, i // times, j // times
        return x(*near) + z[c, i, j] * y(*near) + b[c] + z[c, i, j]

    out = te.compute((n, n * times, m * times), element, "out")
    return te.create_prim_func([x, y, z, b, out])


def shapes(n, m, times):
    """The shapes of the operands and the result."""
    large = (n, n * times, m * times)
    return (n, n, m), (n, n, m), large, (n,), large


@pytest.mark.parametrize("times", [2, 3, 4, 8])
def test_unknown_sizes(same, target, times):
    func = enlarging(te.var("n", "int64"), te.var("m", "int64"), times)
    assert "T.Shuffle" in schedule(func, target, [Nests()]).script()
    cases = [(0, 9), (3, 0), (1, 1), (2, 7), (2, 15), (1, 16), (3, 17), (2, 33), (1, 1100)]
    same(func, Nests(), *(shapes(n, m, times) for n, m in cases))


@pytest.mark.parametrize("dtype", ["float64", "int8", "float16", "bfloat16"])
def test_known_sizes(same, target, dtype):
    func = enlarging(3, 37, 2, dtype)
    assert "T.Shuffle" in schedule(func, target, [Nests()]).script()
    same(func, Nests(), shapes(3, 37, 2), dtype=dtype)


def test_what_is_no_number_is_repeated():
    x = te.placeholder((32, 20), "float32", "X")
    func = te.create_prim_func([x, te.compute((32, 80), lambda i, j: x[i, j // 4], "out")])
    given = np.arange(640, dtype="float32").reshape(32, 20)
    given[0, :3] = [np.nan, np.inf, -np.inf]
    Applied(Nests(), func).computes(np.repeat(given, 4, axis=1), given)


def test_others_are_left_alone(target):
    m = te.var("m", "int64")
    x, long = te.placeholder((8, 180), "float32", "X"), te.placeholder((8, m), "float32", "X")
    others = {
        "many times": (x, te.compute((8, 180 * 9), lambda i, j: x[i, j // 9], "out")),
        "lines that end amid an element": (long, te.compute((8, m), lambda i, j: long[i, j // 4], "out")),
        "several numbers": (x, te.compute((8, 360), lambda i, j: x[i, j // 3] + x[i, j // 4], "out")),
        "under a condition": (
            x,
            te.compute(
                (8, 800), lambda i, j: tir.if_then_else(j < 720, x[i, j // 4], tir.const(0.0, "float32")), "out"
            ),
        ),
        "two dimensions": (x, te.compute((180, 180), lambda i, j: x[j // 60, j // 4], "out")),
    }
    for reason, (source, out) in others.items():
        arranged = schedule(te.create_prim_func([source, out]), target, [Nests()]).script()
        assert "T.Shuffle" not in arranged, reason
