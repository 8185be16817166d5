"""Slices agree with Python's, whether the sizes and bounds are known when the kernel is made or when it runs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relax.prim import SizeVar, Var, const, evaluate, simplify
from relax.topi.slicing import section_slices, slice_of
from relax.topi.transform import arange_size

bound = st.one_of(st.none(), st.integers(-12, 12))
stride = st.integers(-4, 4).filter(bool)
size = st.integers(0, 8)

n, b, e = SizeVar("n", "int64"), Var("b", "int64"), Var("e", "int64")


def elements(part, env) -> list[int]:
    """The indices a slice reads."""
    count = evaluate(part.size, env)
    return [evaluate(part.at(const(i, "int64")), env) for i in range(count)]


@given(size, bound, bound, stride)
def test_known_bounds(length, begin, end, step):
    expected = list(range(length))[begin:end:step]
    assert elements(slice_of(const(length, "int64"), begin, end, step), {}) == expected
    assert elements(slice_of(n, begin, end, step), {n: length}) == expected


@given(size, st.integers(-12, 12), st.integers(-12, 12), stride)
def test_bounds_known_at_run_time(length, begin, end, step):
    expected = list(range(length))[begin:end:step]
    env = {n: length, b: begin, e: end}
    assert elements(slice_of(n, b, e, step), env) == expected


@given(size, size, size)
def test_bounds_that_are_sizes(length, begin, end):
    first, last = SizeVar("first", "int64"), SizeVar("last", "int64")
    expected = list(range(length))[begin:end]
    assert elements(slice_of(n, first, last, 1), {n: length, first: begin, last: end}) == expected


@pytest.mark.parametrize("begin, end", [(0, 2**63 - 1), (-(2**63), 2**63 - 1), (None, None), (0, None)])
def test_the_whole_dimension_is_recognised(begin, end):
    whole = slice_of(n, begin, end, 1)
    assert whole.size is n
    assert evaluate(whole.begin) == 0


def test_a_stride_of_zero():
    with pytest.raises(ValueError, match="the stride of a slice must not be 0"):
        slice_of(n, 0, 1, 0)


@given(size, st.integers(1, 6))
def test_sections(length, sections):
    """So many parts of ⌈size / sections⌉, as long as there are elements."""
    chunk = -(-length // sections)
    expected = [list(range(length))[k * chunk : (k + 1) * chunk] for k in range(sections)]
    for total, env in ((const(length, "int64"), {}), (n, {n: length})):
        assert [elements(part, env) for part in section_slices(total, sections)] == expected


@given(size, st.lists(st.integers(-10, 10), max_size=4))
def test_cuts(length, cuts):
    expected = [part.tolist() for part in np.split(np.arange(length), cuts)]
    for total, env in ((const(length, "int64"), {}), (n, {n: length})):
        assert [elements(part, env) for part in section_slices(total, tuple(cuts))] == expected


def test_even_sections_of_a_symbolic_size_are_plain():
    assert [str(part.size) for part in section_slices(n * 3, 3)] == [str(n)] * 3


@given(st.integers(-6, 6), st.integers(-6, 6), stride)
def test_arange_size(start, stop, step):
    expected = len(range(start, stop, step))
    assert evaluate(arange_size(const(start, "int64"), const(stop, "int64"), const(step, "int64"))) == expected
    s = Var("s", "int64")
    env = {b: start, e: stop, s: step}
    assert evaluate(arange_size(b, e, const(step, "int64")), env) == expected
    assert evaluate(arange_size(b, e, s), env) == expected
    assert evaluate(simplify(arange_size(b, e, s)), env) == expected


@pytest.mark.parametrize(
    "bounds, expected", [((0.0, 1.0, 0.25), 4), ((0.0, 1.0, 0.3), 4), ((1.0, 0.0, -0.5), 2), ((1.0, 0.0, 0.5), 0)]
)
def test_arange_size_of_floats(bounds, expected):
    assert evaluate(arange_size(*(const(value, "float64") for value in bounds))) == expected
