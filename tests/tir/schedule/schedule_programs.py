"""Programs that several tests of schedules transform, and steps of schedules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from relax.tir import Schedule
from relax.tir.schedule import LoopRV

PLUS_ONE = """
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    for i in range(n):
        with T.block("B"):
            vi = T.axis.spatial(n, i)
            B[vi] = A[vi] + T.float32(1)
"""
"""B = A + 1, of any length."""

SUMS_OF_ROWS = """
@T.prim_func
def main(a: T.handle, b: T.handle):
    n, m = T.int64(), T.int64()
    A = T.match_buffer(a, (n, m), "float32")
    B = T.match_buffer(b, (n,), "float32")
    for i, k in T.grid(n, m):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
"""
"""B = sums of the rows of A, of any shape."""

PRODUCT = """
@T.prim_func
def main(a: T.handle, b: T.handle, c: T.handle):
    T.func_attr({"tir.noalias": True})
    n, m = T.int64(), T.int64()
    A = T.match_buffer(a, (n, m), "float32")
    B = T.match_buffer(b, (m, 5), "float32")
    C = T.match_buffer(c, (n, 5), "float32")
    for i, j, k in T.grid(n, 5, m):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
"""C = A @ B, with any number of rows and steps, and five columns."""

PRODUCT_AND_CONSUMER = """
@T.prim_func
def main(a: T.handle, b: T.handle, c: T.handle):
    n = T.int64()
    m = T.int64()
    A = T.match_buffer(a, (n, m), "float32")
    B = T.match_buffer(b, (m, 3), "float32")
    C = T.match_buffer(c, (n, 3), "float32")
    P = T.alloc_buffer((n, 3), "float32")
    for i, j, k in T.grid(n, 3, m):
        with T.block("P"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                P[vi, vj] = T.float32(0)
            P[vi, vj] = P[vi, vj] + A[vi, vk] * B[vk, vj]
    for i, j in T.grid(n, 3):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = P[vi, vj] + T.float32(1)
"""
"""P = A @ B, with any number of rows and steps, and three columns; C = P + 1."""

SUMS_AND_CONSUMER = """
@T.prim_func
def main(A: T.Buffer((4, 6), "float32"), B: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
    for i in range(4):
        for k in range(6):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vk]
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = B[vi] * T.float32(2)
"""
"""B = sums of the rows of A; C, in the same iteration, of them."""

SUMS_IN_ONE_LOOP = """
@T.prim_func
def main(A: T.Buffer((4, 6), "float32"), B: T.Buffer((4,), "float32")):
    for f in range(24):
        with T.block("B"):
            vi = T.axis.spatial(4, f // 6)
            vk = T.axis.reduce(6, f % 6)
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
"""
"""B = sums of the rows of A, in a loop that runs over rows and steps."""


def on(block: str, method: str, *args: object, **options: object) -> Callable[[Schedule], Any]:
    """Return a step that calls a primitive of the schedule on a block."""
    return lambda sch: getattr(sch, method)(sch.get_block(block), *args, **options)


def loops(sch: Schedule, block: str) -> list[LoopRV]:
    """Return the loops around a block, from the outside."""
    return sch.get_loops(sch.get_block(block))
