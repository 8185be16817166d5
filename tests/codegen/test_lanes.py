"""Lanes of neighbouring numbers that are below a bound, or are not, are counted instead of compared."""

from __future__ import annotations

import numpy as np
import pytest

from relax import tir
from relax.codegen import build_module
from relax.script import from_source

SOURCE = """
from relax.script import tir as T

@T.prim_func
def main(b: T.int64, bound: T.int64, below: T.Buffer(({lanes},), "int32"), others: T.Buffer(({lanes},), "int32")):
    base: T.int64 = {base}
    ones = T.Broadcast(T.int32(1), {lanes})
    zeros = T.Broadcast(T.int32(0), {lanes})
    at = T.Ramp(T.int64(0), T.int64(1), {lanes})
    below[at] = T.Select(T.Ramp(base, T.int64(1), {lanes}) < T.Broadcast(bound, {lanes}), ones, zeros)
    others[at] = T.Select(T.Ramp(base, T.int64(1), {lanes}) >= T.Broadcast({least}, {lanes}), ones, zeros)
"""
FAR = [-(2**63), -(2**63) + 1, -1001, -17, -16, -1, 0, 1, 7, 15, 16, 17, 1000, 1015, 1016, 2**63 - 2, 2**63 - 1]


def kernel(lanes, base, least="bound"):
    """The lanes of a ramp that are below a bound, and those that are not below another."""
    return build_module(from_source(SOURCE.format(lanes=lanes, base=base, least=least)))


def lanes_of(module, lanes, base, bound):
    below, others = (np.full(lanes, 77, "int32") for _ in range(2))
    module["main"](base, bound, below, others)
    return below, others


@pytest.mark.parametrize("lanes", [4, 8, 16, 32, 64, 128])
def test_numbers_within_bounds(lanes):
    module = kernel(lanes, "T.max(T.min(b, T.int64(1000)), T.int64(-1000))")
    for base in (-1000, -16, -1, 0, 5, 1000):
        for bound in FAR:
            numbers = np.arange(base, base + lanes)
            below, others = lanes_of(module, lanes, base, bound)
            np.testing.assert_array_equal(below, numbers < bound)
            np.testing.assert_array_equal(others, numbers >= bound)


def test_numbers_that_may_wrap_around():
    module = kernel(16, "b")
    for base in (2**63 - 8, 2**63 - 1, -(2**63), 3):
        for bound in FAR:
            with np.errstate(over="ignore"):
                numbers = np.int64(base) + np.arange(16)
            below, others = lanes_of(module, 16, base, bound)
            np.testing.assert_array_equal(below, numbers < bound)
            np.testing.assert_array_equal(others, numbers >= bound)


def test_a_bound_that_no_lane_is_below():
    module = kernel(16, "T.max(T.min(b, T.int64(1000)), T.int64(3))", "T.int64(3)")
    _, others = lanes_of(module, 16, -5, 0)
    np.testing.assert_array_equal(others, np.ones(16))


def test_they_are_compared_in_narrow_lanes():
    assert "icmp slt <16 x i64>" in kernel(16, "b").get_source()
    counted = kernel(16, "T.max(T.min(b, T.int64(1000)), T.int64(0))").get_source()
    assert "icmp slt <16 x i64>" not in counted
    assert "icmp slt <16 x i32>" in counted


def test_the_interpreter_agrees():
    func = from_source(SOURCE.format(lanes=16, base="T.max(T.min(b, T.int64(9)), T.int64(-9))", least="bound"))
    module = build_module(func)
    for bound in FAR:
        expected = [np.full(16, 77, "int32") for _ in range(2)]
        tir.interpret(func, 4, bound, *expected)
        np.testing.assert_array_equal(lanes_of(module, 16, 4, bound), expected)
