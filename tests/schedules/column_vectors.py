"""A rule with a space of three points, and a kernel of any number of rows that it applies to."""

from __future__ import annotations

from dataclasses import dataclass

from relax import tir
from relax.schedules import ScheduleRule
from relax.schedules.space import Space
from relax.script import tir as T


@dataclass(frozen=True)
class Factor:
    factor: int = 4


class Split(ScheduleRule):
    """Computes the columns of the block B in vectors."""

    parameters = Factor()

    def space(self, target):
        return Space(Factor, {"factor": (4, 2, 8)})

    def apply(self, func, target, tunable):
        sch = tir.Schedule(func)
        _, j = sch.get_loops(sch.get_block("B"))
        sch.vectorize(sch.split(j, [None, self.parameters.factor])[1])
        return sch


@T.prim_func
def doubled(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, 16), "float32")
    B = T.match_buffer(b, (n, 16), "float32")
    for i, j in T.grid(n, 16):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
