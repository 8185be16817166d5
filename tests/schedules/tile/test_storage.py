"""Storages of panels: what memory holds of a row, and the vectors that are read from it."""

from __future__ import annotations

import ml_dtypes  # noqa: F401  (NumPy learns int2 and int4)
import numpy as np
import pytest

from relax import tir
from relax.ir import DataType
from relax.prim import Var, const
from relax.schedules.build import block, loop, vector_store
from relax.schedules.cpu.products.held_parts import HeldPacking
from relax.schedules.cpu.tile.storage import BitFields, Elements
from relax.tir import BufferLoad, PrimFunc
from relax.tir.buffer import decl_buffer

LANES = 4


@pytest.mark.parametrize(("dtype", "vectors"), [("int4", 2), ("uint4", 2), ("int2", 1), ("uint2", 1)])
def test_fields_hold_three_vectors_in_fewer(dtype, vectors):
    assert BitFields().vectors(DataType(dtype), 3) == vectors
    assert BitFields().dtype(DataType(dtype)) == "int8"


def test_numbers_of_four_bits():
    rows = np.array([[1, 2, 3, 4, -1, -2, -3, -4]]).astype("int4")
    assert BitFields().held(DataType("int4"), rows, LANES).tolist() == [[-15, -30, -45, -60]]  # v0 + 16 · v1


@pytest.mark.parametrize("dtype", ["int4", "uint4", "int2", "uint2"])
def test_vectors_are_the_numbers(dtype):
    """A kernel that reads three vectors of each of five rows gives the numbers that the panel was made of."""
    bits, (rows, vectors) = DataType(dtype).bits, (5, 3)
    first = -(1 << bits - 1) if dtype[0] == "i" else 0
    numbers = np.random.default_rng(0).integers(first, first + (1 << bits), (rows, vectors * LANES)).astype(dtype)
    storage = BitFields()
    held = storage.held(DataType(dtype), numbers, LANES)
    source, out = decl_buffer(held.shape, "int8", "H"), decl_buffer(numbers.shape, "float32", "Y")
    part = BufferLoad(decl_buffer(numbers.shape, dtype, "Q"), (Var("k", "int64"), Var("j", "int64"))).astype("float32")
    assert storage.load_of(part) is part.value
    body = loop("k", rows, lambda k: block(
        vector_store(out, (k, v * LANES), storage.vector(part, source, k, v, LANES)) for v in range(vectors)))  # fmt: skip
    params = [Var(name, "handle") for name in "HY"]
    func = PrimFunc(params, body, buffer_map=dict(zip(params, (source, out), strict=True)))
    result = np.empty(numbers.shape, "float32")
    tir.interpret(func, held, result)
    np.testing.assert_array_equal(result, numbers.astype("float32"))


def test_storages_take_the_parts_that_they_know():
    q = BufferLoad(decl_buffer((4, 4), "int8", "Q"), (const(0, "int64"), const(1, "int64")))
    assert Elements().load_of(q) is q
    assert Elements().load_of(q.astype("float32")) is None
    assert BitFields().load_of(q.astype("float32")) is None


def test_panels_of_one_axis():
    """Columns are the first axis here; those of the second panel are filled up with zeros."""
    packing = HeldPacking(Elements(), "int8", (6, 2), 0, (LANES, LANES), LANES)
    assert (packing.rows, packing.size) == (2, 16)
    numbers = np.arange(1, 13, dtype="int8").reshape(6, 2)
    assert packing(numbers).reshape(2, 2, LANES).tolist() == [
        [[1, 3, 5, 7], [2, 4, 6, 8]],
        [[9, 11, 0, 0], [10, 12, 0, 0]],
    ]
