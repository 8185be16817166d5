"""with_split_axes: reshapes behind and before transposes are copies of runs of memory, or across it."""

from __future__ import annotations

import ml_dtypes  # noqa: F401  (NumPy learns bfloat16)
import pytest

from relax import te
from relax.schedules import schedule
from relax.schedules.cpu import Nests
from relax.schedules.split_axes import with_split_axes
from relax.schedules.stages import group_of
from relax.tir.nests import nest_of, root_of

DTYPES = ["float32", "bfloat16", "int8"]
LENGTHS = [0, 1, 15, 16, 17, 70]


def heads_together(n, dtype):
    """(3, n, 32) to (n, 96)."""
    x = te.placeholder((3, n, 32), dtype, "X")
    return te.create_prim_func([x, te.compute((n, 96), lambda i, c: x[c // 32, i, c % 32], "Y")])


def heads_apart(n, dtype):
    """(n, 96) to (3, n, 32)."""
    x = te.placeholder((n, 96), dtype, "X")
    return te.create_prim_func([x, te.compute((3, n, 32), lambda h, i, d: x[i, h * 32 + d], "Y")])


def heads_apart_and_across(n, dtype):
    """(n, 96) to (3, 32, n)."""
    x = te.placeholder((n, 96), dtype, "X")
    return te.create_prim_func([x, te.compute((3, 32, n), lambda h, d, i: x[i, h * 32 + d], "Y")])


def with_a_table(n, dtype):
    """The same quotient beside the axis itself."""
    x, b = te.placeholder((3, n, 32), dtype, "X"), te.placeholder((96,), dtype, "B")
    return te.create_prim_func([x, b, te.compute((n, 96), lambda i, c: x[c // 32, i, c % 32] + b[c], "Y")])


SHAPES = {
    heads_together: lambda n: [(3, n, 32), (n, 96)],
    heads_apart: lambda n: [(n, 96), (3, n, 32)],
    heads_apart_and_across: lambda n: [(n, 96), (3, 32, n)],
    with_a_table: lambda n: [(3, n, 32), (96,), (n, 96)],
}


def cut_in_two_ways(n, dtype):
    """(n, 64) to (2, n, 32), read by another sum of the same axes as well."""
    x = te.placeholder((n, 64), dtype, "X")
    return te.create_prim_func([x, te.compute((2, n, 32), lambda h, i, d: x[i, h * 32 + d] + x[i, h * 16 + d], "Y")])


def shifted(n, dtype):
    """(n, 64) to (2, n, 32), read a place before as well."""
    x = te.placeholder((n, 64), dtype, "X")
    return te.create_prim_func(
        [x, te.compute((2, n, 32), lambda h, i, d: x[i, h * 32 + d] + x[i, te.max(h * 32 + d - 1, 0)], "Y")]
    )


@pytest.mark.parametrize("make", [cut_in_two_ways, shifted])
def test_a_dimension_with_another_index_is_not_cut(same, make):
    same(make(te.var("n", "int64"), "float32"), Nests(), *([(n, 64), (2, n, 32)] for n in LENGTHS))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("make", SHAPES)
def test_results(same, make, dtype):
    same(make(te.var("n", "int64"), dtype), Nests(), *(SHAPES[make](n) for n in LENGTHS), dtype=dtype)


@pytest.mark.parametrize("make", SHAPES)
def test_nothing_is_divided_in_the_loops(target, make):
    """Vectors of whole runs are left: where a run begins is the only index that is computed of a quotient."""
    func = make(te.var("n", "int64"), "float32")
    text = schedule(func, target, [Nests()]).script()
    assert "T.vectorized" in text or "T.Ramp" in text or "T.Shuffle" in text
    assert "% 32" not in text


def group(shape, formula, size):
    """The group of a nest that computes elements of X by a formula."""
    x = te.placeholder(shape, "float32", "X")
    _, (statement,) = root_of(te.create_prim_func([x, te.compute(size, lambda *i: x[formula(*i)], "Y")]))
    result = group_of([nest_of(statement)])
    assert result is not None
    return result


def test_what_is_cut():
    """Axes of both, dimensions by views; the number must divide them, and be at least a vector."""
    (stage,) = with_split_axes(group((3, 40, 32), lambda i, c: (c // 32, i, c % 32), (40, 96))).stages
    assert [axis.size for axis in stage.axes] == [40, 3, 32]
    cut = with_split_axes(group((40, 96), lambda h, i, d: (i, h * 32 + d), (3, 40, 32)))
    assert [[int(size) for size in view.shape] for view in cut.views] == [[40, 3, 32]]
    for other in (
        group((3, 40, 8), lambda i, c: (c // 8, i, c % 8), (40, 24)),  # shorter than a vector
        group((4, 40, 32), lambda i, c: (c // 32, i, c % 32), (40, 100)),  # the last run is a part of one
        group((4, 40, 32), lambda i, c: (c // 32, i, c % 20), (40, 96)),  # two numbers
        group((40, 96), lambda h, i, d: (i, h * 32 + d), (3, 40, 20)),  # columns that nobody reads
        group((40, 64), lambda h, d, i: (i, h * 16 + d), (3, 32, 40)),  # runs that overlap
    ):
        assert with_split_axes(other) is other


def flattened(n, dtype):
    """(n, 12, 32) to (n, 384)."""
    x = te.placeholder((n, 12, 32), dtype, "X")
    return te.create_prim_func([x, te.compute((n, 384), lambda i, c: x[i, c // 32, c % 32] + x[i, 0, 0], "Y")])


def longer_rows(n, dtype):
    """(n, 24, 16) to (n, 6, 64)."""
    x = te.placeholder((n, 24, 16), dtype, "X")
    return te.create_prim_func([x, te.compute((n, 6, 64), lambda i, j, c: (
        x[i, (j * 64 + c) // 16, (j * 64 + c) % 16] + x[i, 0, 0]), "Y")])  # fmt: skip


def shorter_rows(n, dtype):
    """(n, 6, 64) to (n, 24, 16)."""
    x = te.placeholder((n, 6, 64), dtype, "X")
    return te.create_prim_func([x, te.compute((n, 24, 16), lambda i, j, c: (
        x[i, (j * 16 + c) // 64, (j * 16 + c) % 64] + x[i, 0, 0]), "Y")])  # fmt: skip


def images_in_rows(n, dtype):
    """(n, 4, 96) to (n, 4, 6, 16), by three terms."""
    x = te.placeholder((n * 4, 96), dtype, "X")
    return te.create_prim_func([x, te.compute((n, 4, 6, 16), lambda i, j, k, c: (
        x[(i * 384 + j * 96 + k * 16 + c) // 96, (i * 384 + j * 96 + k * 16 + c) % 96] + x[0, 0]), "Y")])  # fmt: skip


RESHAPES = {
    flattened: lambda n: [(n, 12, 32), (n, 384)],
    longer_rows: lambda n: [(n, 24, 16), (n, 6, 64)],
    shorter_rows: lambda n: [(n, 6, 64), (n, 24, 16)],
    images_in_rows: lambda n: [(n * 4, 96), (n, 4, 6, 16)],
}


@pytest.mark.parametrize("make", RESHAPES)
def test_reshapes_run_along_memory(same, target, make):
    func = make(te.var("n", "int64"), "float32")
    assert "T.vectorized" in schedule(func, target, [Nests()]).script()
    same(func, Nests(), *(RESHAPES[make](n) for n in (0, 1, 3)))


def uneven_rows(n, dtype):
    """(n, 20, 12) to (n, 15, 16): neither length divides the other."""
    x = te.placeholder((n, 20, 12), dtype, "X")
    return te.create_prim_func([x, te.compute((n, 15, 16), lambda i, j, c: (
        x[i, (j * 16 + c) // 12, (j * 16 + c) % 12] + x[i, 0, 0]), "Y")])  # fmt: skip


def test_rows_that_do_not_divide_each_other(same):
    same(uneven_rows(te.var("n", "int64"), "float32"), Nests(), *([(n, 20, 12), (n, 15, 16)] for n in (0, 1, 7)))
