"""RemoveNoOp: what does nothing goes, what may fail stays."""

from __future__ import annotations

import pytest

from relax.tir.transform import RemoveNoOp

HEAD = """
@T.prim_func
def f(A: T.Buffer(("n",), "float32"), B: T.Buffer((16,), "int32"), m: T.int32):
    n = T.int64()
"""


def test_everything_at_once(check):
    before = """
    for i in range(n):
        for j in range(4):
            T.evaluate(i + j)
    with T.allocate((4,)) as unused:
        B[0] = m
    if m > 3:
        T.evaluate(0)
    else:
        T.evaluate(1)
    if m > 4:
        B[1] = 5
    else:
        T.evaluate(1)
    with T.LetStmt(m + 1) as x:
        B[2] = 3
    B[3] = B[3]
    B[4] = 1
    B[4] = m
    while T.bool(False):
        B[5] = 6
    for i in range(n):
        for j in range(i, i):
            A[i] = A[i] * T.float32(2)
    for i in range(0):
        B[5] = 7
"""
    after = """
    B[0] = m
    if m > 4:
        B[1] = 5
    B[2] = 3
    B[4] = m
"""
    check(RemoveNoOp, HEAD + before, HEAD + after, {"n": 0, "m": 3}, {"n": 1, "m": 5}, {"n": 9, "m": 4})


@pytest.mark.parametrize(
    "body, error",
    [
        ("T.evaluate(B[m])", "IndexError"),
        ("T.evaluate(4 // m)", "ZeroDivisionError"),
        ("B[m] = B[m]", "IndexError"),
        ("for i in range(B[m]): T.evaluate(0)", "IndexError"),
        ("while B[m] > 99: T.evaluate(0)", "IndexError"),
        ("for i in range(2147483647, 2147483647 + m): T.evaluate(0)", "OverflowError"),
        ("with T.LetStmt(B[m]) as x: B[0] = 1", "IndexError"),
        ("with T.allocate((T.Cast('int64', m) - 18,)) as t: B[0] = 1", "ValueError"),
        ("v = T.decl_buffer((T.Cast('int64', m),), 'int32', data=B.data); B[0] = 1", "ValueError"),
        ("B[0] = 1; B[0] = B[m]", "IndexError"),
        ("T.evaluate(T.call_extern('int32', 'g', B.data))", "ValueError"),
    ],
)
def test_what_may_fail_stays(check, body, error):
    outcomes = check(RemoveNoOp, HEAD + "    " + body, None, {"n": 1, "m": 0}, {"n": 1, "m": 17})
    assert error in [outcome[0] for outcome in outcomes]


@pytest.mark.parametrize(
    "body, after",
    [
        ("if m >= 0 and m < 16: B[m] = B[m]", "T.evaluate(0)"),
        ("if B[m] > 0: T.evaluate(0)", "T.evaluate(B[m] > 0)"),
        ("B[m] = 1; B[m] = 2", "B[m] = 2"),
        ("if m > 0: T.evaluate(4 // m)", "T.evaluate(0)"),
        ("for i in range(16): B[i] = B[i]", "T.evaluate(0)"),
        ("for i in range(n): A[n - 1 - i] = A[n - 1 - i]", "T.evaluate(0)"),
        ("if m > 0 and m < 9: T.evaluate(T.if_then_else(B[m] > 2, B[m - 1], B[m + 7]))", "T.evaluate(0)"),
        ("with T.allocate((n,)) as t: B[0] = 1", "B[0] = 1"),
        ("v = T.decl_buffer((8,), 'int32', data=B.data); B[0] = 1", "B[0] = 1"),
    ],
)
def test_what_is_proven_not_to_fail_goes(check, parse, body, after):
    from relax.tir.statements import NOTHING

    expected = parse(HEAD + "    " + after)
    if after == "T.evaluate(0)":
        expected = expected.replace(body=NOTHING)
    check(RemoveNoOp, HEAD + "    " + body, expected, {"n": 1, "m": 0}, {"n": 3, "m": 4}, {"n": 0, "m": 17})


def test_stores_through_views_are_not_overwritten(check):
    """A value that reads memory may read what the first store wrote."""
    body = """
    V = T.decl_buffer((16,), "int32", data=B.data)
    B[0] = 1
    B[0] = V[0] + 1
"""
    check(RemoveNoOp, HEAD + body, None, {"n": 1, "m": 0})


def test_blocks(check):
    before = """
    for i in range(16):
        with T.block("nothing"):
            T.where(i < m)
            T.evaluate(0)
        with T.block("kept"):
            v = T.axis.spatial(16, i)
            T.evaluate(0)
"""
    after = """
    for i in range(16):
        with T.block("kept"):
            v = T.axis.spatial(16, i)
            T.evaluate(0)
"""
    check(RemoveNoOp, HEAD + before, HEAD + after, {"n": 1, "m": 0})


def test_stores_under_predicates(check):
    """Lanes that are not loaded are 0, and a store leaves those of the one before that it does not touch."""
    body = """
    for i in range(4):
        B.vstore(
            [i, T.Ramp(0, 1, 4)],
            B.vload([i, T.Ramp(0, 1, 4)], predicate=T.Ramp(0, 1, 4) < T.Broadcast(1, 4)),
            predicate=T.Ramp(0, 1, 4) < T.Broadcast(3, 4),
        )
        B[i, T.Ramp(4, 1, 4)] = T.Broadcast(5, 4)
        B.vstore([i, T.Ramp(4, 1, 4)], T.Broadcast(6, 4), predicate=T.Ramp(0, 1, 4) < T.Broadcast(2, 4))
"""
    head = "@T.prim_func\ndef f(B: T.Buffer((4, 8), 'int32')):\n"
    check(RemoveNoOp, head + body, None)
    same = """
    for i in range(4):
        B.vstore(
            [i, T.Ramp(0, 1, 4)],
            B.vload([i, T.Ramp(0, 1, 4)], predicate=T.Ramp(0, 1, 4) < T.Broadcast(i, 4)),
            predicate=T.Ramp(0, 1, 4) < T.Broadcast(i, 4),
        )
        B[i, 7] = i
"""
    check(RemoveNoOp, head + same, head + "    for i in range(4):\n        B[i, 7] = i\n")
