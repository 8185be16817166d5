"""Squares of registers: vectors that are the rows of a square become its columns.

A square of 16 is transposed in 4 rounds: the first exchanges single elements of neighbouring rows, the next pairs of
elements of rows two apart, and so on (J. O. Eklundh, *A Fast Computer Method for Matrix Transposing*, 1972).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...prim import PrimExpr, Var, simplify
from ...prim.intrin import floordiv, floormod
from ...tir import Buffer, BufferLoad, BufferStore, LetStmt, Shuffle, Stmt
from ..build import block, int64, loop, vector_load, vector_store


def square(rows: Sequence[PrimExpr], store: Callable[[int, PrimExpr], Stmt]) -> Stmt:
    """`store` of each column of a square, by its number, whose rows are vectors of as many elements."""
    size = len(rows)
    bindings: list[tuple[Var, PrimExpr]] = []

    def named(value: PrimExpr) -> Var:
        var = Var(f"r{len(bindings)}", value.dtype)
        bindings.append((var, value))
        return var

    vectors = [named(row) for row in rows]
    distance = 1
    while distance < size:
        for i in (i for i in range(size) if not i & distance):
            low, high = vectors[i], vectors[i + distance]
            first = [j if not j & distance else size + j - distance for j in range(size)]
            second = [j + distance if not j & distance else size + j for j in range(size)]
            vectors[i], vectors[i + distance] = (
                named(Shuffle((low, high), lanes)) for lanes in (first, second)
            )
        distance *= 2
    result = block(store(i, vector) for i, vector in enumerate(vectors))
    for var, value in reversed(bindings):
        result = LetStmt(var, value, result)
    return result


def turned(
    source: Buffer,
    target: Buffer,
    rows: PrimExpr,
    columns: PrimExpr,
    size: int,
    change: Callable[[PrimExpr], PrimExpr],
) -> Stmt:
    """Copy source[r, c] to target[c, r] for so many rows and columns, in squares of `size`.

    `change` makes an element or a vector of the target from one of the source, whose columns are neighbours.
    """

    def at(ib: Var, jb: Var) -> Stmt:
        i, j = ib * size, jb * size
        lines = [change(vector_load(source, (i + p, j), size)) for p in range(size)]
        return square(lines, lambda p, vector: vector_store(target, (j + p, i), vector))

    def single(i: PrimExpr, j: PrimExpr) -> Stmt:
        return BufferStore(target, change(BufferLoad(source, (i, j))), (j, i))

    rows, columns = int64(rows), int64(columns)
    high, wide = simplify(floordiv(rows, size)), simplify(floordiv(columns, size))
    below, beside = simplify(floormod(rows, size)), simplify(floormod(columns, size))
    whole = loop("ib", high, lambda ib: block([
        loop("jb", wide, lambda jb: at(ib, jb)),
        loop("j", beside, lambda j: loop("i", size, lambda i: single(ib * size + i, wide * size + j))),
    ]))  # fmt: skip
    rest = loop("i", below, lambda i: loop("j", columns, lambda j: single(high * size + i, j)))
    return block([whole, rest])


__all__ = ["square", "turned"]
