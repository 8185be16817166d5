"""Nests: element-wise kernels that replace their own input, as those of `DataflowUseInplaceCalls`."""

from __future__ import annotations

import numpy as np
import pytest
from applied import Applied, whole

from relax import tir
from relax.schedules import schedule
from relax.schedules.cpu import Nests
from relax.script import from_source

SCALED = """
from relax.script import tir as T
@T.prim_func
def main(a: T.handle, b: T.handle, S: T.Buffer((LAST,), "float32")):
    T.func_attr({"tir.noalias": True})
    n = T.int64()
    A = T.match_buffer(a, (n, 3, LAST), "float32")
    B = T.match_buffer(b, (n, 3, 1), "float32")
    for i, j, k in T.grid(n, T.int64(3), T.int64(LAST)):
        with T.block("A"):
            vi, vj, vk = T.axis.remap("SSS", [i, j, k])
            A[vi, vj, vk] = VALUE
"""


def scaled(value="A[vi, vj, vk] / B[vi, vj, 0] + S[vk]", last=768):
    return from_source(SCALED.replace("VALUE", value).replace("LAST", str(last)))


@pytest.mark.parametrize("last", [768, 5, 1])
def test_each_element_is_replaced_once(target, last):
    runs = [Applied(Nests(), scaled(last=last), to) for to in ("llvm", target)]
    for n in (0, 1, 7):
        a, b, s = whole(n, 3, last), 2.0 ** whole(n, 3, 1), whole(last, seed=1)
        for run in runs:
            data = a.copy()
            run(data, b.astype("float32"), s)
            np.testing.assert_array_equal(data, (a / b + s).astype("float32"))


def test_rows_are_computed_in_parallel_and_in_vectors(target):
    text = schedule(scaled(), target, [Nests()]).script()
    assert text.count("T.parallel") == 1
    assert text.count("T.vectorized") == 1


@pytest.mark.parametrize("value", ["A[vi, vj, 767 - vk] + S[vk]", "A[vi, 2 - vj, vk]", "A[vi, vj, 0] + S[vk]"])
def test_other_elements_of_the_input_are_read_in_the_order_of_the_loops(target, value):
    func = scaled(value)
    assert schedule(func, target, [Nests()]) is func


def test_what_stands_before_has_its_own_loops(target):
    """A sum of each row, then the row divided by it in its place: the sum must not read what is replaced."""
    func = from_source("""
from relax.script import tir as T
@T.prim_func
def main(A: T.Buffer((64, 100), "float32"), B: T.Buffer((64,), "float32")):
    T.func_attr({"tir.noalias": True})
    for i, k in T.grid(64, 100):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
    for i, k in T.grid(64, 100):
        with T.block("A"):
            vi, vk = T.axis.remap("SS", [i, k])
            A[vi, vk] = A[vi, vk] - B[vi]
""")
    arranged = schedule(func, target, [Nests()])
    assert arranged.script().count("T.parallel") == 2
    data, sums = whole(64, 100), np.zeros(64, "float32")
    expected = data - data.sum(axis=1, keepdims=True)
    tir.interpret(arranged, data, sums)
    np.testing.assert_array_equal(data, expected)
