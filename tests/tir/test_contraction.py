"""reduction_of: reductions and contractions, recognised from the structure of a block."""

from __future__ import annotations

import pytest

from relax.prim import Add, Max, Mul
from relax.script import from_source
from relax.tir.contraction import combined, reduction_of
from relax.tir.nests import nest_of, root_of


def block_of(func):
    """The block of a function's only nest."""
    _, (stmt,) = root_of(func)
    nest = nest_of(stmt)
    assert nest is not None
    return nest.block


def reduction(value, start="T.float32(0)", out="C[i]", at="C[i]"):
    """The block of ``C[i] = value``, from `start` on, over 8 places of k."""
    source = f"""
from relax.script import tir as T
@T.prim_func
def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((8,), "int8"), C: T.Buffer((4,), "float32"),
         D: T.Buffer((4,), "float32")):
    for i0, k0 in T.grid(4, 8):
        with T.block("C"):
            i, k = T.axis.remap("SR", [i0, k0])
            with T.init():
                {out} = {start}
            {at} = {value}
"""
    return block_of(from_source(source))


@pytest.mark.parametrize(
    ("value", "operation", "factors"),
    [
        ('C[i] + A[i, k] * T.Cast("float32", B[k])', Add, ("A[i, k]", 'T.Cast("float32", B[k])')),
        ("A[i, k] * A[i, 7 - k] + C[i]", Add, ("A[i, k]", "A[i, 7 - k]")),
        ("C[i] + A[i, k]", Add, None),
        ("T.max(C[i], A[i, k] * A[i, k])", Max, None),
        ("A[i, k] * C[i]", Mul, None),
    ],
)
def test_what_is_reduced(value, operation, factors):
    found = reduction_of(reduction(value))
    assert found is not None
    assert found.operation is operation
    assert [v.var.name for v in found.spatial] == ["i"]
    assert [v.var.name for v in found.reduced] == ["k"]
    assert str(found.start) == "T.float32(0.0)"
    assert found.factors is None if factors is None else tuple(map(str, found.factors)) == factors


@pytest.mark.parametrize(
    "value",
    [
        "A[i, k] * A[i, k]",  # nothing is kept
        "C[i] + C[i] * A[i, k]",  # the element reads the result
        "C[3 - i] + A[i, k]",  # of another place
        "C[i] - A[i, k]",  # no such operation
        "D[i] + A[i, k]",
    ],
)
def test_others_are_none(value):
    assert reduction_of(reduction(value)) is None


def test_the_place_of_the_start_is_that_of_the_result():
    assert reduction_of(reduction("C[i] + A[i, k]", out="C[3 - i]")) is None


def test_a_block_without_a_start_is_no_reduction():
    block = reduction("C[i] + A[i, k]").replace(init=None)
    assert reduction_of(block) is None
    assert str(combined(block.body)) == "A[i, k]"
