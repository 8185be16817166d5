"""Register transposes of square blocks, and named values.

    r0 = (a0, a1, a2, a3)                   r0 = (a0, b0, c0, d0)
    …                           gives       …
    r3 = (d0, d1, d2, d3)                   r3 = (a3, b3, c3, d3)

A 16×16 transpose takes 4 rounds: the first exchanges single elements of adjacent rows, the second pairs of elements of
rows two apart, and so on (J. O. Eklundh, *A Fast Computer Method for Matrix Transposing*, 1972).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....ir import DataType
from ....prim import Add, PrimExpr, Var, simplify
from ....prim.intrin import floordiv, floormod
from ....tir import Buffer, BufferLoad, BufferStore, ForKind, LetStmt, Shuffle, Stmt
from ...build import alloc, block, int64, let, loop, vector_load, vector_store


class Values:
    """Named values, computed in sequence."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._bindings: list[tuple[Var, PrimExpr]] = []

    def of(self, value: PrimExpr) -> Var:
        """Bind a value and return its name."""
        var = Var(f"{self._prefix}{len(self._bindings)}", value.dtype)
        self._bindings.append((var, value))
        return var

    def around(self, body: Stmt) -> Stmt:
        """Bind the names around `body`."""
        for var, value in reversed(self._bindings):
            body = LetStmt(var, value, body)
        return body


def transposed_square(
    size: int, dtype: str, load: Callable[[PrimExpr], PrimExpr], store: Callable[[PrimExpr, PrimExpr], Stmt]
) -> Stmt:
    """Transpose `size` × `size` elements in registers: load(row), then store(column, vector); `size` is a power of two.

    Loops are unrolled, so that the square stays in registers.
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
    """Transpose a square of bytes: each round interleaves rows i and i + size / 2, one instruction per half.

    Elements of row i and row i + size / 2 become adjacent; after the last round each vector holds one column.
    """
    values, half = Values("r"), size // 2
    rows = [values.of(load(int64(i))) for i in range(size)]
    both = [lane for pair in zip(range(size), range(size, 2 * size), strict=True) for lane in pair]
    for _ in range(size.bit_length() - 1):
        pairs = [(rows[i], rows[i + half]) for i in range(half)]
        rows = [values.of(Shuffle(pair, part)) for pair in pairs for part in (both[:size], both[size:])]
    return values.around(block(store(int64(i), row) for i, row in enumerate(rows)))


def turned(
    source: Buffer, target: Buffer, rows: PrimExpr, columns: PrimExpr, size: int, change: Callable[[PrimExpr], PrimExpr]
) -> Stmt:
    """Copy source[r, c] to target[c, r] by register transposes of `size` × `size` elements.

    `change` converts an element, or a vector of consecutive columns, of the source.
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
    """Pass the vector of lane sums of n vectors of n lanes to `store`."""
    values = Values("r")
    size, distance = len(vectors), 1
    while distance < size:
        low, high = _exchanged(size, distance)
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        vectors = [values.of(Add(Shuffle(pair, low), Shuffle(pair, high))) for pair in pairs]
        distance *= 2
    return values.around(store(vectors[0]))


def _exchanged(size: int, distance: int) -> tuple[list[int], list[int]]:
    """Shuffle indices that exchange the off-diagonal parts of two rows of a square, `distance` apart."""
    low = [j if not j & distance else size + j - distance for j in range(size)]
    high = [j + distance if not j & distance else size + j for j in range(size)]
    return low, high
