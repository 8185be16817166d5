"""with_cut_axes: nests that count groups of channels share the rows of nests that count channels."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from applied import Applied

from relax import te, topi
from relax.schedules import schedule
from relax.schedules.cpu import Nests
from relax.schedules.cut_nests import with_cut_axes
from relax.tir.nests import nest_of, root_of
from support import numbers


def group_norm(channels, groups, dtype, behind=None):
    """Group normalisation of images of any number and size, and what is computed of its result."""
    n, h, w = (te.var(name, "int64") for name in "nhw")
    x = te.placeholder((n, channels, h, w), dtype, "X")
    g, b = (te.placeholder((channels,), dtype, name) for name in "GB")
    y = topi.nn.group_norm(x, g, b, groups, 1, [2, 3])
    return te.create_prim_func([x, g, b, y if behind is None else behind(y)])


def expected(x, g, b, groups):
    x, g, b = (value.astype("float64") for value in (x, g, b))
    parts = x.reshape(len(x), groups, np.prod(x.shape[1:]) // groups)
    centred = parts - parts.mean(-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    return scaled.reshape(x.shape) * g[:, None, None] + b[:, None, None]


@cache
def normalisation(channels, groups, dtype, target, behind=None):
    """The arranged function: interpreted, and compiled."""
    func = group_norm(channels, groups, dtype, behind)
    return Applied(Nests(), func, target), Applied(Nests(), func)


def results_of(runs, x, g, b):
    return [run(x, g, b, np.full(x.shape, 77, x.dtype)).astype("float64") for run in runs]


def data(n, channels, h, w, dtype):
    return [
        numbers(*shape, dtype=dtype, seed=i) for i, shape in enumerate(((n, channels, h, w), (channels,), (channels,)))
    ]


@pytest.mark.parametrize(("channels", "groups"), [(8, 2), (6, 6), (6, 1), (32, 8)])
@pytest.mark.parametrize("size", [(0, 3, 3), (1, 1, 1), (2, 1, 17), (2, 9, 16)])
def test_group_norm(target, channels, groups, size):
    n, h, w = size
    x, g, b = data(n, channels, h, w, "float32")
    for result in results_of(normalisation(channels, groups, "float32", target), x, g, b):
        np.testing.assert_allclose(result, expected(x, g, b, groups), 1e-4, 1e-4)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float16", 1e-2), ("float64", 1e-9)])
def test_dtypes(target, dtype, tolerance):
    x, g, b = data(2, 8, 5, 7, dtype)
    for result in results_of(normalisation(8, 2, dtype, target), x, g, b):
        np.testing.assert_allclose(result, expected(x, g, b, 2), tolerance, tolerance)


def test_nan_and_infinity_stay_in_their_group(target):
    x, g, b = data(1, 6, 4, 5, "float32")
    x[0, 0, 1, 1], x[0, 2, 3, 4] = np.nan, np.inf
    for result in results_of(normalisation(6, 3, "float32", target), x, g, b):
        assert np.isnan(result[0, :2]).all()
        assert np.isnan(result[0, 2, 3, 4])
        np.testing.assert_allclose(result[0, 4:], expected(x, g, b, 3)[0, 4:], 1e-4, 1e-4)


def test_groups_are_rows_of_one_loop(target):
    """The copy of the data by groups is gone, and what is computed of the result is in the same loop."""
    for behind in (None, topi.nn.relu):
        script = schedule(group_norm(32, 8, "float32", behind), target, [Nests()]).script()
        assert script.count("T.parallel") == 1
        assert "grouped" not in script
        assert "// 4]" not in script


def test_relu_behind_group_norm(target):
    x, g, b = data(2, 8, 3, 7, "float32")
    for result in results_of(normalisation(8, 4, "float32", target, topi.nn.relu), x, g, b):
        np.testing.assert_allclose(result, np.maximum(expected(x, g, b, 4), 0), 1e-4, 1e-4)


def nests_of(*tensors):
    _, statements = root_of(te.create_prim_func(tensors))
    return [nest_of(statement) for statement in statements]


def sums_of_groups(by, size=12, spare=0):
    """Elements less the sum of their group; `spare` elements are in none."""
    x = te.placeholder((size + spare,), "float32", "X")
    k = te.reduce_axis((0, by), "k")
    total = te.compute((size // by,), lambda g: te.sum(x[g * by + k], axis=k), "total")
    return x, te.compute((size,), lambda i: x[i] - total[i // by], "Y")


def test_what_is_cut():
    nests, views = with_cut_axes(nests_of(*sums_of_groups(4)), set())
    assert [[int(size) for size in view.shape] for view in views] == [[3, 4], [3, 4]]
    assert [len(nest.block.iter_vars) for nest in nests] == [2, 2]


def test_what_is_not_cut():
    assert with_cut_axes(nests_of(*sums_of_groups(4, spare=1)), set()) is None  # elements of no group
    x = te.placeholder((12,), "float32", "X")
    k = te.reduce_axis((0, 4), "k")
    total = te.compute((3,), lambda g: te.sum(x[g * 4 + k], axis=k), "total")
    two = te.compute((12,), lambda i: x[i] - total[i // 4] - total[i // 6], "Y")
    assert with_cut_axes(nests_of(x, two), set()) is None  # two numbers
    moved = te.compute((12,), lambda i: x[te.max(i - 1, 0)] - total[i // 4], "Y")
    assert with_cut_axes(nests_of(x, moved), set()) is None  # an index that is no sum of a group and a member
