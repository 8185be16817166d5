"""Element-wise nests over elements that alternate, as the parts of complex numbers do: they are unrolled."""

from __future__ import annotations

import pytest

from relax import te, tir
from relax.schedules import schedule
from relax.schedules.cpu import Nests


def products(n, m, parts):
    """Products of complex numbers, whose parts are the last axis."""
    x, y = te.placeholder((n, m, parts), "float32", "X"), te.placeholder((m, parts), "float32", "Y")

    def element(i, j, part):
        real = x[i, j, 0] * y[j, 0] - x[i, j, 1] * y[j, 1]
        imaginary = x[i, j, 0] * y[j, 1] + x[i, j, 1] * y[j, 0]
        return tir.Select(part % 2 == 0, real, imaginary)

    return te.create_prim_func([x, y, te.compute((n, m, parts), element, "out")])


def rotated(n, size, period):
    """Rows in which elements of groups of `period` are scaled by factors, from the first one of their group on."""
    x, factors = te.placeholder((n, size), "float32", "X"), te.placeholder((period,), "float32", "F")
    out = te.compute((n, size), lambda i, j: x[i, j // period * period] * factors[j % period] + x[i, j], "out")
    return te.create_prim_func([x, factors, out])


@pytest.mark.parametrize("parts", [2, 3, 4])
def test_a_short_last_axis(same, target, parts):
    func = products(te.var("n", "int64"), te.var("m", "int64"), parts)
    assert f"in T.unroll(T.int64({parts}))" in schedule(func, target, [Nests()]).script()
    cases = [(0, 3), (2, 0), (1, 1), (3, 17), (2, 2050), (1, 4100)]
    same(func, Nests(), *(((n, m, parts), (m, parts), (n, m, parts)) for n, m in cases))


@pytest.mark.parametrize(("size", "period"), [(64, 2), (48, 3), (52, 4), (4104, 4)])
def test_a_last_axis_of_groups(same, target, size, period):
    func = rotated(te.var("n", "int64"), size, period)
    assert f"in T.unroll(T.int64({period}))" in schedule(func, target, [Nests()]).script()
    same(func, Nests(), *(((n, size), (period,), (n, size)) for n in (0, 1, 3)))


@pytest.mark.parametrize(("size", "period"), [(63, 2), (64, 8), (te.var("m", "int64"), 2), (32, 2)])
def test_others_are_not_unrolled(target, size, period):
    """A group that is not whole, of many elements, of an unknown number of them, or a loop that is short."""
    assert "T.unroll" not in schedule(rotated(3, size, period), target, [Nests()]).script()


def test_a_short_axis_that_chooses_rows_is_left(target):
    """As in a transposition: its reads are far apart."""
    x, b = te.placeholder((9, 3, 100), "float32", "X"), te.placeholder((3,), "float32", "B")
    func = te.create_prim_func([x, b, te.compute((9, 100, 3), lambda i, k, j: x[i, j, k] + b[j], "out")])
    assert "T.unroll" not in schedule(func, target, [Nests()]).script()
