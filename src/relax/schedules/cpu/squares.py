"""Transposes of squares of vectors in registers, and values by names.

    r0 = (a0, a1, a2, a3)                   r0 = (a0, b0, c0, d0)
    …                           gives       …
    r3 = (d0, d1, d2, d3)                   r3 = (a3, b3, c3, d3)

A square of 16 takes 4 rounds: the first exchanges single elements of neighbouring rows, the next pairs of elements of
rows two apart, and so on (J. O. Eklundh, *A Fast Computer Method for Matrix Transposing*, 1972).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...ir import DataType
from ...prim import Add, PrimExpr, Var, simplify
from ...prim.intrin import floordiv, floormod
from ...tir import Buffer, BufferLoad, BufferStore, ForKind, LetStmt, Shuffle, Stmt
from ..build import alloc, block, int64, let, loop, vector_load, vector_store


class Values:
    """Values by names, computed one after the other."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._bindings: list[tuple[Var, PrimExpr]] = []

    def of(self, value: PrimExpr) -> Var:
        """The name of a value."""
        var = Var(f"{self._prefix}{len(self._bindings)}", value.dtype)
        self._bindings.append((var, value))
        return var

    def around(self, body: Stmt) -> Stmt:
        """`body`, in which the names stand for the values."""
        for var, value in reversed(self._bindings):
            body = LetStmt(var, value, body)
        return body


def transposed_square(
    size: int, dtype: str, load: Callable[[PrimExpr], PrimExpr], store: Callable[[PrimExpr, PrimExpr], Stmt]
) -> Stmt:
    """The rows of a square, a power of two of them, and a statement for each of its columns.

    Loops are unrolled, so that the square is in registers.
    """
    if DataType(dtype).bits == 8:
        return _interleaved_square(size, load, store)

    def each(name: str, extent: int, body: Callable[[Var], Stmt]) -> Stmt:
        return loop(name, extent, body, ForKind.UNROLLED)

    def exchanged(rows: Buffer, distance: int) -> Stmt:
        first, second = _exchanged(size, distance)

        def pair(i: PrimExpr) -> Stmt:
            other = i + distance
            return let("low", vector_load(rows, (i, 0), size), lambda low: let(
                "high", vector_load(rows, (other, 0), size), lambda high: block([
                    vector_store(rows, (i, 0), Shuffle((low, high), first)),
                    vector_store(rows, (other, 0), Shuffle((low, high), second))])))  # fmt: skip

        return each("pairs", size // (2 * distance), lambda pairs: each(
            "i", distance, lambda i: pair(pairs * (2 * distance) + i)))  # fmt: skip

    def square(rows: Buffer) -> Stmt:
        distances = [1 << k for k in range(size.bit_length() - 1)]
        return block([
            each("i", size, lambda i: vector_store(rows, (i, 0), load(i))),
            *(exchanged(rows, distance) for distance in distances),
            each("i", size, lambda i: store(i, vector_load(rows, (i, 0), size))),
        ])  # fmt: skip

    return alloc("square", (size, size), dtype, "local", square)


def _interleaved_square(
    size: int, load: Callable[[PrimExpr], PrimExpr], store: Callable[[PrimExpr, PrimExpr], Stmt]
) -> Stmt:
    """The same for bytes: each round interleaves a row with the one half a square below, one instruction for each half.

    Elements of row i and row i + size / 2 become neighbours; after the last round these are all rows of a column.
    """
    values, half = Values("r"), size // 2
    rows = [values.of(load(int64(i))) for i in range(size)]
    both = [lane for pair in zip(range(size), range(size, 2 * size), strict=True) for lane in pair]
    for _ in range(size.bit_length() - 1):
        pairs = [(rows[i], rows[i + half]) for i in range(half)]
        rows = [values.of(Shuffle(pair, part)) for pair in pairs for part in (both[:size], both[size:])]
    return values.around(block(store(int64(i), row) for i, row in enumerate(rows)))


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
        return transposed_square(
            size, str(target.dtype), lambda p: change(vector_load(source, (i + p, j), size)),
            lambda p, vector: vector_store(target, (j + p, i), vector))  # fmt: skip

    def single(i: PrimExpr, j: PrimExpr) -> Stmt:
        return BufferStore(target, change(BufferLoad(source, (i, j))), (j, i))

    rows, columns = int64(rows), int64(columns)
    high, wide = simplify(floordiv(rows, size)), simplify(floordiv(columns, size))
    below, beside = simplify(floormod(rows, size)), simplify(floormod(columns, size))
    whole = loop("ib", high, lambda ib: block([
        loop("jb", wide, lambda jb: at(ib, jb)),
        loop("j", beside, lambda j: loop("i", size, lambda i: single(ib * size + i, wide * size + j))),
    ]))  # fmt: skip
    rest = loop("j", columns, lambda j: loop("i", below, lambda i: single(high * size + i, j)))
    return block([whole, rest])


def lane_sums(vectors: Sequence[PrimExpr], store: Callable[[PrimExpr], Stmt]) -> Stmt:
    """`store` of the sums over the lanes of vectors, of as many elements as there are vectors."""
    values = Values("r")
    size, distance = len(vectors), 1
    while distance < size:
        low, high = _exchanged(size, distance)
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        vectors = [values.of(Add(Shuffle(pair, low), Shuffle(pair, high))) for pair in pairs]
        distance *= 2
    return values.around(store(vectors[0]))


def _exchanged(size: int, distance: int) -> tuple[list[int], list[int]]:
    """The lanes of two rows of a square for the same rows with parts exchanged that are so far apart."""
    low = [j if not j & distance else size + j - distance for j in range(size)]
    high = [j + distance if not j & distance else size + j for j in range(size)]
    return low, high


__all__ = ["Values", "lane_sums", "transposed_square", "turned"]
