"""Lanes: reductions along memory with several vectors of partial results, and a last vector with a mask."""

from __future__ import annotations

import numpy as np
import pytest
from applied import Applied

from relax import te, topi
from relax.schedules import schedule
from relax.schedules.cpu import Nests
from support import numbers


def function(operation, rows, elements):
    x = te.placeholder((rows, elements), name="X")
    return te.create_prim_func([x, operation(x)])


def last_axis(reduction):
    return lambda x: reduction(x, axis=1)


@pytest.mark.parametrize("reduction", [topi.sum, topi.max, topi.argmax], ids=lambda f: f.__name__)
def test_partial_results_are_in_no_choice_that_would_read_some_of_them(target, reduction):
    """A mask of loads or stores would keep them in memory for all elements, and not only for the last ones."""
    script = schedule(function(last_axis(reduction), 64, 100), target, [Nests()]).script()
    choices = [line for line in script.splitlines() if "T.Select(" in line or "T.if_then_else(" in line]
    assert choices
    assert not [line for line in choices if "_lanes[" in line.rsplit(" = ", 1)[-1]]


@pytest.mark.parametrize("reduction", [topi.sum, topi.max, topi.min], ids=lambda f: f.__name__)
def test_any_number_of_elements(same, reduction):
    """Sums of what is not 0 where an element is: those behind the last one count for nothing."""
    n, m = (te.var(name, "int64") for name in "nm")
    func = function(lambda x: reduction(te.compute(x.shape, lambda i, j: x[i, j] * x[i, j] + 3.0), axis=1), n, m)
    same(func, Nests(), *([(2, elements), (2,)] for elements in (0, 1, 15, 16, 17, 63, 64, 65, 127, 130)))


@pytest.mark.parametrize("elements", [1, 16, 17, 1000, 4090])
def test_softmax_of_any_length(elements):
    func = function(lambda x: topi.nn.softmax(x, axis=1), te.var("n", "int64"), elements)
    data = numbers(3, elements)
    result = Applied(Nests(), func)(data, np.full_like(data, 77))
    expected = np.exp(data.astype("float64"))
    np.testing.assert_allclose(result, expected / expected.sum(axis=1, keepdims=True), 1e-5)
