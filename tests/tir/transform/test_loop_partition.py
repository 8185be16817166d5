"""LoopPartition: most iterations do not test what is likely."""

from __future__ import annotations

import pytest

from relax import tir
from relax.ir.transform import PassContext
from relax.tir.transform import LoopPartition

HEAD = """
@T.prim_func
def f(A: T.Buffer(("n",), "int32"), B: T.Buffer((16,), "int32"), m: T.int32):
    n = T.int64()
"""
RUNS = [{"n": n, "m": m} for n in (0, 1, 3, 4, 5, 8, 11) for m in (0, 3)]


def test_the_tail_of_a_split_loop(check):
    before = """
    for i in range((n + 3) // 4):
        for j in range(4):
            if T.likely(i * 4 + j < n):
                A[i * 4 + j] = m
"""
    after = """
    for i in range(T.max(T.min((n + 3) // 4, n // 4), 0)):
        for j in range(4):
            A[i * 4 + j] = m
    for i in range(T.max(T.min((n + 3) // 4, n // 4), 0), (n + 3) // 4):
        for j in range(4):
            if i * 4 + j < n:
                A[i * 4 + j] = m
"""
    check(LoopPartition, HEAD + before, simplified(HEAD + after), *RUNS)


def simplified(text):
    return text.replace("T.max(T.min((n + 3) // 4, n // 4), 0)", "n // 4")


def test_both_ends_and_an_else(check):
    before = """
    for i in range(16, annotations={"pragma_loop_partition_hint": True}):
        if i >= 3 and 12 > i:
            B[i] = m
        else:
            B[i] = 0
"""
    after = """
    for i in range(3):
        if i >= 3 and 12 > i:
            B[i] = m
        else:
            B[i] = 0
    for i in range(3, 12):
        B[i] = m
    for i in range(12, 16):
        if i >= 3 and 12 > i:
            B[i] = m
        else:
            B[i] = 0
"""
    check(LoopPartition, HEAD + before, HEAD + after, {"n": 1, "m": 3})


def test_values_chosen_by_a_likely_condition(check):
    before = """
    for i in T.parallel(n):
        A[i] = T.if_then_else(T.likely(T.int64(2) <= i), A[i - 2], 7)
"""
    after = """
    for i in T.parallel(T.min(n, T.int64(2))):
        A[i] = T.if_then_else(T.int64(2) <= i, A[i - 2], 7)
    for i in T.parallel(T.min(n, T.int64(2)), n):
        A[i] = A[i - 2]
"""
    check(LoopPartition, HEAD + before, HEAD + after.replace("T.min(n, T.int64(2))", "T.min(T.int64(2), n)"), *RUNS)


CONSTANT = """
    for i in range(16):
        if T.likely(i < m):
            B[i] = 1
"""


def test_constant_loops_are_split_if_the_config_says_so(check):
    after = """
    for i in range(T.max(T.min(16, m), 0)):
        B[i] = 1
    for i in range(T.max(T.min(16, m), 0), 16):
        if i < m:
            B[i] = 1
"""
    runs = [{"n": 1, "m": m} for m in (-2147483648, -1, 0, 1, 15, 16, 17, 2147483647)]
    check(LoopPartition, HEAD + CONSTANT, None, *runs)
    with PassContext(config={"tir.LoopPartition": {"partition_const_loop": True}}):
        check(LoopPartition, HEAD + CONSTANT, HEAD + after, *runs)


@pytest.mark.parametrize(
    "loop, condition",
    [
        ("range(m)", "B[i] < m"),  # reads memory
        ("range(m)", "i * i < m"),  # not linear
        ("range(m)", "i == m"),  # no half line
        ("T.unroll(m)", "i < 3"),
        ("range(m)", "i * m < 3"),  # the step is not constant
        ("range(B[m])", "i < 3"),
    ],
)
def test_refusals(check, loop, condition):
    body = f"""
    for i in {loop}:
        if T.likely({condition}):
            B[i] = 1
"""
    check(LoopPartition, HEAD + body, None, {"n": 1, "m": 3}, {"n": 1, "m": 0})


def test_a_loop_up_to_the_last_number_of_its_dtype(check):
    """The end of its range is no int32."""
    a, p, m = tir.decl_buffer((16,), "int32", name="A"), tir.Var("a", "handle"), tir.Var("m", "int32")
    i = tir.Var("i", "int32")
    start = 2**31 - 16
    store = tir.BufferStore(a, m, (i - start,))
    body = tir.For(i, start, 16, "serial", tir.IfThenElse(tir.likely(i - start < 12), store))
    func = tir.PrimFunc((p, m), body, buffer_map={p: a}, attrs={"global_symbol": "f"})
    with PassContext(config={"tir.LoopPartition": {"partition_const_loop": True}}):
        check(LoopPartition, func, None, {"m": 3})
