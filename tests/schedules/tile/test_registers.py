"""Register tiles: the loops of their step, and what they compute, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from relax.schedules.build import block, int64, loop, vector_load, vector_store
from relax.schedules.cpu.tile import RegisterTile, Vector, register_tile
from relax.tir import BufferLoad, PrimFunc, Stmt, interpret
from relax.tir.buffer import decl_buffer


def product(height, vectors, depth, **options):
    """A function that multiplies A (height × depth) by B (depth × columns) in one register tile of four lanes."""
    columns = vectors * 4 if isinstance(vectors, int) else vectors[-1].start + vectors[-1].lanes
    buffers = [
        decl_buffer([int64(n) for n in shape], "float32", name)
        for name, shape in {"A": (height, depth), "B": (depth, columns), "C": (height, columns)}.items()
    ]
    a, b, c = buffers

    def body(tile: RegisterTile) -> Stmt:
        def vector(k):
            return lambda c: vector_load(b, (k, c), tile.lanes_of(c))

        return block(
            [
                tile.cleared(),
                loop("k", depth, lambda k: tile.step(lambda p: BufferLoad(a, (p, k)), vector(k))),
                tile.each(lambda p, column: vector_store(c, (p, column), tile.load(p, column))),
            ]
        )

    stmt = register_tile(height, vectors, 4, body, sums="float32", **options)
    return PrimFunc([b.data for b in buffers], stmt, buffer_map={b.data: b for b in buffers})


def arrays(height, depth, columns):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, shape).astype("float32") for shape in ((height, depth), (depth, columns)))
    return a, b, np.full((height, columns), np.nan, "float32")


def check(func, height, depth, columns):
    a, b, c = arrays(height, depth, columns)
    interpret(func, a, b, c)
    np.testing.assert_array_equal(c, a @ b)


@pytest.mark.parametrize("options", [{}, {"has_numbered_rows": True}, {"has_numbered_columns": True}], ids=str)
@pytest.mark.parametrize(("height", "vectors"), [(1, 1), (3, 2), (6, 4)])
def test_products(height, vectors, options):
    check(product(height, vectors, 5, **options), height, 5, vectors * 4)


def test_the_sums_of_no_products_are_zero():
    check(product(2, 1, 0), 2, 0, 4)


def test_vectors_of_several_widths():
    vectors = [Vector(0, 4), Vector(4, 4), Vector(8, 2)]
    func = product(3, vectors, 5)
    check(func, 3, 5, 10)
    assert "T.unroll(T.int64(3))" in func.script()
    assert "T.Ramp(T.int64(8), T.int64(1), 2)" in func.script()


def test_rows_and_columns_are_loops_unless_operands_number_them():
    text = product(3, 2, 5).script()
    assert text.count("T.unroll(T.int64(3))") == 3
    assert "T.unroll(T.int64(3))" not in product(3, 2, 5, has_numbered_rows=True).script()
