"""Squares of registers: vectors that are the rows of a square become its columns.

A square of 16 is transposed in 4 rounds: the first exchanges single elements of neighbouring rows, the next pairs of
elements of rows two apart, and so on (J. O. Eklundh, *A Fast Computer Method for Matrix Transposing*, 1972).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...prim import Add, PrimExpr, Var, simplify
from ...prim.intrin import floordiv, floormod
from ...tir import Buffer, BufferLoad, BufferStore, LetStmt, Shuffle, Stmt
from ..build import block, int64, loop, vector_load, vector_store


def square(rows: Sequence[PrimExpr], store: Callable[[int, PrimExpr], Stmt]) -> Stmt:
    """`store` of each column of a square, by its number, whose rows are vectors of as many elements."""
    names = _Named()
    vectors = [names.var(row) for row in rows]
    size, distance = len(rows), 1
    while distance < size:
        for i in (i for i in range(size) if not i & distance):
            pair = vectors[i], vectors[i + distance]
            vectors[i], vectors[i + distance] = (
                names.var(Shuffle(pair, lanes)) for lanes in _exchanged(size, distance)
            )
        distance *= 2
    return names.bound(block(store(i, vector) for i, vector in enumerate(vectors)))


def lane_sums(vectors: Sequence[PrimExpr], store: Callable[[PrimExpr], Stmt]) -> Stmt:
    """`store` of the sums over the lanes of vectors, of as many elements as there are vectors."""
    names = _Named()
    size, distance = len(vectors), 1
    while distance < size:
        low, high = _exchanged(size, distance)
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        vectors = [names.var(Add(Shuffle(pair, low), Shuffle(pair, high))) for pair in pairs]
        distance *= 2
    return names.bound(store(vectors[0]))


def _exchanged(size: int, distance: int) -> tuple[list[int], list[int]]:
    """The lanes of two rows of a square for the same rows with parts exchanged that are so far apart."""
    low = [j if not j & distance else size + j - distance for j in range(size)]
    high = [j + distance if not j & distance else size + j for j in range(size)]
    return low, high


class _Named:
    """Names of values, which are bound around a statement."""

    def __init__(self) -> None:
        self.bindings: list[tuple[Var, PrimExpr]] = []

    def var(self, value: PrimExpr) -> Var:
        var = Var(f"r{len(self.bindings)}", value.dtype)
        self.bindings.append((var, value))
        return var

    def bound(self, body: Stmt) -> Stmt:
        for var, value in reversed(self.bindings):
            body = LetStmt(var, value, body)
        return body


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


__all__ = ["lane_sums", "square", "turned"]
