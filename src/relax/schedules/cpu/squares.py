"""Transposes of squares of vectors in registers.

    r0 = (a0, a1, a2, a3)                   r0 = (a0, b0, c0, d0)
    …                           gives       …
    r3 = (d0, d1, d2, d3)                   r3 = (a3, b3, c3, d3)

A square of 16 takes 4 rounds: the first exchanges single elements of neighbouring rows, the next pairs of elements of
rows two apart, and so on (J. O. Eklundh, *A Fast Computer Method for Matrix Transposing*, 1972).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...prim import PrimExpr, Var
from ...tir import LetStmt, Shuffle, Stmt


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


def transposed_square(vectors: Sequence[PrimExpr], named: Callable[[PrimExpr], Var]) -> list[PrimExpr]:
    """The columns of a square of vectors, a power of two of them; `named` is told each value, and answers its name."""
    rows, size = list(vectors), len(vectors)
    distance = 1
    while distance < size:
        for i in (i for i in range(size) if not i & distance):
            low, high = rows[i], rows[i + distance]
            first = [j if not j & distance else size + j - distance for j in range(size)]
            second = [j + distance if not j & distance else size + j for j in range(size)]
            rows[i], rows[i + distance] = (named(Shuffle((low, high), lanes)) for lanes in (first, second))
        distance *= 2
    return rows


__all__ = ["Values", "transposed_square"]
