"""Detect results that are not finite: fast algorithms spread them, and compute them again by the direct form.

    flag[:] = 0
    for each vector of results:                     as it is computed, from registers
        flag[:] += 0 * (a + b + …)                  0 while all results are finite, NaN from the first other one on
    if any(flag[:] != 0):                           once for many results
        compute the results directly

`strassen` and `winograd` compute differences of operands that the definition never combines: an infinity or NaN, and an
overflow of a sum, spread to results that are finite by the definition. An intermediate value that is not finite never
becomes finite again, so it suffices to look at results: a sum, a multiply-add and no branch for several vectors. A sum
of finite results may overflow, too; they are then computed again without need.

A caller raises a flag for other reasons by adding a vector of nonnegative numbers to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....prim import NE, Add, Mul, PrimExpr, const
from ....prim.instructions import vector_reduce_or
from ....runtime.records import dataclass
from ....tir import Buffer, IfThenElse, Stmt
from ...build import alloc, block, int64, loop, spread, vector_load, vector_store


@dataclass(frozen=True)
class Flag:
    """Vector in a buffer, which is nonzero in some lane if the flag is raised."""

    buffer: Buffer
    lanes: int
    row: PrimExpr | None = None
    """Row of a buffer of flags; None if the buffer holds one."""

    @property
    def value(self) -> PrimExpr:
        return vector_load(self.buffer, self._place, self.lanes)

    def clear(self) -> Stmt:
        return self.store(self._zero)

    def store(self, value: PrimExpr) -> Stmt:
        """Replace the vector, as by that of another flag."""
        return vector_store(self.buffer, self._place, value)

    def if_raised(self, then: Stmt) -> Stmt:
        """Execute a statement if the flag is raised."""
        return IfThenElse(vector_reduce_or(NE(self.value, self._zero)), then)

    def add(self, reasons: PrimExpr) -> Stmt:
        """Raise the flag if a lane of `reasons` is not 0; no lane is negative."""
        return self.store(Add(self.value, reasons))

    def observe(self, results: Sequence[PrimExpr]) -> Stmt:
        """Raise the flag if an element of vectors of results is not finite."""
        return self.add(Mul(_balanced_sum(results), self._zero))

    @property
    def _place(self) -> tuple[PrimExpr, ...]:
        return (int64(0),) if self.row is None else (self.row, int64(0))

    @property
    def _zero(self) -> PrimExpr:
        return spread(const(0, str(self.buffer.dtype)), self.lanes)


def own_flag(lanes: int, dtype: str, body: Callable[[Flag], Stmt]) -> Stmt:
    """Allocate a cleared flag in registers for the duration of `body(flag)`."""

    def cleared(buffer: Buffer) -> Stmt:
        flag = Flag(buffer, lanes)
        return block([flag.clear(), body(flag)])

    return alloc("flag", (lanes,), dtype, "local", cleared)


def if_any_raised(flags: Buffer, count: PrimExpr, lanes: int, then: Stmt) -> Stmt:
    """Execute a statement if any of the first `count` flags of a buffer is raised."""
    return own_flag(lanes, str(flags.dtype), lambda flag: block([
        loop("f", count, lambda f: flag.add(Flag(flags, lanes, f).value)), flag.if_raised(then)]))  # fmt: skip


def _balanced_sum(values: Sequence[PrimExpr]) -> PrimExpr:
    half = (len(values) + 1) // 2
    return values[0] if half == len(values) else Add(_balanced_sum(values[:half]), _balanced_sum(values[half:]))
