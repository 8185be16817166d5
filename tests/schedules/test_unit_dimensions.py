"""without_unit_dimensions: arrays that were squeezed or expanded on the way run along memory as others do."""

from __future__ import annotations

import pytest

from relax import te, topi
from relax.schedules import schedule
from relax.schedules.cpu import Nests

N, M = te.var("n", "int64"), te.var("m", "int64")


def func_of(shape, formula):
    x = te.placeholder(shape, name="X")
    return te.create_prim_func([x, formula(x)])


FUNCTIONS = {
    "a last dimension": (
        func_of((N, M, 1), lambda x: topi.nn.relu(topi.squeeze(x, [2]))),
        lambda n, m: [(n, m, 1), (n, m)],
    ),
    "a middle dimension": (
        func_of((N, 1, M), lambda x: topi.nn.relu(topi.squeeze(x, [1]))),
        lambda n, m: [(n, 1, m), (n, m)],
    ),
    "a result of more dimensions": (
        func_of((N, M), lambda x: topi.nn.relu(topi.expand_dims(x, 2))),
        lambda n, m: [(n, m), (n, m, 1)],
    ),
    "a transpose": (
        func_of((N, 40, M, 1), lambda x: topi.transpose(x, (0, 2, 1, 3))),
        lambda n, m: [(n, 40, m, 1), (n, m, 40, 1)],
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_vectors_run_along_memory(same, target, name):
    func, shapes = FUNCTIONS[name]
    script = schedule(func, target, [Nests()]).script()
    assert "T.vectorized" in script or "T.Shuffle" in script
    same(func, Nests(), *(shapes(n, m) for n, m in ((0, 3), (1, 1), (2, 17), (3, 64), (5, 0))))


def test_dimensions_with_other_indices_stay(same):
    """A dimension of one element that a sum indexes, and all those of a scalar."""
    x, s = te.placeholder((N, 1), name="X"), te.placeholder((1, 1), name="S")
    shifted = te.compute((N, 1), lambda i, j: x[i, j - j] * s[0, 0], "Y")
    same(te.create_prim_func([x, s, shifted]), Nests(), *([(n, 1), (1, 1), (n, 1)] for n in (0, 1, 40)))
