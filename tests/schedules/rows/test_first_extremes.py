"""Reductions to the first greatest or least element: its place and value, along memory and across it."""

from __future__ import annotations

import ml_dtypes  # noqa: F401  (NumPy learns bfloat16)
import numpy as np
import pytest
from applied import Applied

from relax import te, tir, topi
from relax.prim import Select, const
from relax.schedules import schedule
from relax.schedules.cpu import Nests
from relax.schedules.cpu.rows import first_extremes
from support import numbers

REDUCTIONS = {"argmax": topi.argmax, "argmin": topi.argmin}


def func_of(name, dtype, axis):
    """The reduction of a matrix of any size."""
    x = te.placeholder((te.var("n", "int64"), te.var("m", "int64")), dtype, "X")
    return te.create_prim_func([x, REDUCTIONS[name](x, axis=axis)])


def is_recognised(func, target):
    script = schedule(func, target, [Nests()]).script()
    return " as best:" in script or " best = T.allocate" in script


def runs_of(func, target):
    """The arranged function: interpreted, and compiled."""
    return Applied(Nests(), func, target), Applied(Nests(), func)


def check(runs, name, data, axis):
    result = expected(name, data, axis).astype("int64")
    for run in runs:
        run.computes(result, data)


def expected(name, data, axis):
    """NumPy's answer; -1 where there is no element."""
    if data.shape[axis] == 0:
        return np.full(data.shape[1 - axis], -1)
    return getattr(np, name)(data.astype("float64") if data.dtype.itemsize == 2 else data, axis=axis)


SIZES = [(0, 3), (3, 0), (1, 1), (15, 17), (3, 65), (130, 3), (7, 530)]


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_sizes(target, name, axis):
    """Few different values: the first of equals."""
    func = func_of(name, "float32", axis)
    assert is_recognised(func, target)
    runs = runs_of(func, target)
    for size in SIZES:
        check(runs, name, numbers(*size, dtype="int8", low=-2, high=3).astype("float32"), axis)


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("shape", [(1024,), (1, 1031), (33, 41), ("n",)], ids=str)
def test_one_row(target, shape, name):
    """Of a whole tensor: the place is what another block copies, the value what nothing else uses."""
    dims = [te.var(size, "int64") if isinstance(size, str) else size for size in shape]
    x = te.placeholder(dims, "float32", "X")
    func = te.create_prim_func([x, REDUCTIONS[name](x, axis=0 if len(shape) == 1 else None)])
    assert shape != (1024,) or is_recognised(func, target)
    runs = runs_of(func, target)
    for size in (0, 1, 17, 2053) if shape == ("n",) else (np.prod(shape),):
        data = numbers(size, dtype="int8", low=-2, high=3).astype("float32")
        place = np.asarray(expected(name, data[:, None], 0)[0], "int64")
        for run in runs:
            run.computes(place, data.reshape([size] if shape == ("n",) else shape))


@pytest.mark.parametrize(("name", "axis"), [("argmax", 0), ("argmin", 1)])
@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "int8", "uint8", "int64", "uint64"])
def test_dtypes(target, dtype, name, axis):
    func = func_of(name, dtype, axis)
    assert is_recognised(func, target)
    data = np.random.default_rng(0).integers(0, 100, (70, 90)).astype(dtype)
    check(runs_of(func, target), name, data, axis)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_values_at_the_ends(target, name, axis):
    """NaN counts more than all others, and the first one; infinities and the ends of integers are values like others."""
    data = np.random.default_rng(0).standard_normal((40, 150)).astype("float32")
    data[3, 20] = data[3, 90] = data[30, 20] = data[39, 149] = data[0, 0] = np.nan
    data[5], data[6], data[7, 77], data[8, 78] = -np.inf, np.inf, np.inf, -np.inf
    data[9, 10], data[9, 5], data[9, 60:] = 0.0, -0.0, -0.0
    array = data if axis else np.ascontiguousarray(data.T)
    check(runs_of(func_of(name, "float32", axis), target), name, array, axis)
    for dtype in ("int8", "int64"):
        ends = np.iinfo(dtype)
        values = np.full((3, 40), ends.min if name == "argmax" else ends.max, dtype)
        values[1, 30] = ends.max if name == "argmax" else ends.min
        array = values if axis else np.ascontiguousarray(values.T)
        for run in runs_of(func_of(name, dtype, axis), target):
            run.computes(np.array([0, 30, 0]), array)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_bools(target, name, axis):
    """The first true, or the first false."""
    runs = runs_of(func_of(name, "bool", axis), target)
    for size in SIZES:
        check(runs, name, np.random.default_rng(1).random(size) > 0.7, axis)


def test_places_beyond_a_piece(target, monkeypatch):
    """Numbers of 32 bits are those within a piece."""
    monkeypatch.setattr(first_extremes, "PIECE", 8)
    runs = runs_of(func_of("argmax", "float32", 0), target)
    for n in (0, 1, 7, 8, 9, 30):
        check(runs, "argmax", numbers(n, 20, dtype="int8", low=0, high=5).astype("float32"), 0)


def selection(keep, index=lambda k: k, value=lambda v: v):
    """The place of an element chosen by a condition on the one so far and the next."""

    def combine(lhs, rhs):
        chosen = keep(lhs, rhs)
        return Select(chosen, lhs[0], rhs[0]), Select(chosen, lhs[1], rhs[1])

    reducer = te.comm_reducer(combine, lambda i, v: (const(-1, i), const(-1e30, v)), "chosen")
    x = te.placeholder((80, 90), "float32", "X")
    k = te.reduce_axis((0, 90), "k")
    pair = te.compute((80,), lambda i: reducer((index(k.var), value(x[i, k])), axis=k), "pair")
    return te.create_prim_func([x, te.compute((80,), lambda i: pair[0][i], "Y")])


def first(a, b):
    return (a[1] > b[1]) | ((a[1].equal(b[1])) & (a[0] < b[0]))


def last(a, b):
    return (a[1] > b[1]) | ((a[1].equal(b[1])) & (a[0] > b[0]))


def first_or_nan(a, b):
    better = (a[1] > b[1]) | (te.isnan(a[1]) & ~te.isnan(b[1]))
    return better | ((a[1].equal(b[1]) | te.isnan(a[1])) & (a[0] < b[0]))


def test_what_is_computed_of_elements(target):
    """Of a user's selection, by other conditions than those of argmax."""
    func = selection(first_or_nan, value=lambda v: te.abs(v) * 2)
    assert is_recognised(func, target)
    data = np.random.default_rng(0).standard_normal((80, 90)).astype("float32")
    data[3, 4] = np.nan
    for run in runs_of(func, target):
        run.computes(np.abs(data).argmax(1), data)


@pytest.mark.parametrize("func", [selection(last), selection(first), selection(first, lambda k: 89 - k)])
def test_other_selections_stay_with_lanes(target, func):
    """The last of equals; a condition that says nothing of NaN; numbers that fall."""
    assert not is_recognised(func, target)


def test_rows_whose_places_need_more_bits_are_refused(target, monkeypatch):
    monkeypatch.setattr(first_extremes, "LONGEST", 100)
    n, k = (te.var(name, "int64") for name in "nk")
    x = te.placeholder((n, k), "int8", "X")
    func = schedule(te.create_prim_func([x, topi.argmax(x, axis=1)]), target, [Nests()])
    tir.interpret(func, np.zeros((2, 99), "int8"), np.zeros(2, "int64"))
    with pytest.raises(AssertionError, match="^the first extreme element of 100 or more cannot be found"):
        tir.interpret(func, np.zeros((2, 100), "int8"), np.zeros(2, "int64"))
