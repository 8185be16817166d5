"""CompactBufferAllocation: storage for what is accessed."""

from __future__ import annotations

import pytest

from relax.tir.transform import CompactBufferAllocation

HEAD = """
@T.prim_func
def f(A: T.Buffer((64,), "int32"), B: T.Buffer(("n", 64), "int32"), m: T.int32):
    n = T.int64()
"""
RUNS = [{"n": n, "m": m} for n in (0, 1, 3) for m in (0, 3, 16, 70)]


def test_a_tile_in_a_block(check):
    before = """
    for i in range(16):
        with T.block("tile"):
            vi = T.axis.spatial(16, i)
            t = T.alloc_buffer((64, 8), "int32")
            for j in range(4):
                with T.block("fill"):
                    vj = T.axis.spatial(4, j)
                    t[vi * 4 + vj, vi // 16] = A[vi * 4 + vj] + m
            for j in range(4):
                with T.block("use"):
                    vj = T.axis.spatial(4, j)
                    A[vi * 4 + vj] = t[vi * 4 + vj, 0] * 2
"""
    after = """
    for i in range(16):
        with T.block("tile"):
            vi = T.axis.spatial(16, i)
            t = T.alloc_buffer((4, 1), "int32")
            for j in range(4):
                with T.block("fill"):
                    vj = T.axis.spatial(4, j)
                    t[vj, 0] = A[vi * 4 + vj] + m
            for j in range(4):
                with T.block("use"):
                    vj = T.axis.spatial(4, j)
                    A[vi * 4 + vj] = t[vj, 0] * 2
"""
    check(CompactBufferAllocation, HEAD + before, HEAD + after, *RUNS)


def test_storage_of_symbolic_size(check):
    before = """
    for i in range(n):
        with T.allocate((n, 64), "int32") as t:
            for j in range(n):
                t[i, j % 64] = m
                t[i, j % 64] = t[i, j % 64] + B[j, 3]
            B[i, 0] = t[i, 0]
"""
    after = """
    for i in range(n):
        with T.allocate((1, 64), "int32") as t:
            for j in range(n):
                t[T.int64(0), j % 64] = m
                t[T.int64(0), j % 64] = t[T.int64(0), j % 64] + B[j, 3]
            B[i, 0] = t[T.int64(0), 0]
"""
    check(CompactBufferAllocation, HEAD + before, HEAD + after, *RUNS)


def test_vectors_and_a_halo(check):
    before = """
    for i in range(4):
        with T.allocate((66,), "int32") as t:
            t[T.Ramp(i * 8, 1, 8)] = A[T.Ramp(i * 8, 1, 8)]
            t[i * 8 + 8] = m
            t[i * 8 + 9] = m
            for j in range(8):
                A[i * 8 + j] = t[i * 8 + j] + t[i * 8 + j + 2]
"""
    after = """
    for i in range(4):
        with T.allocate((10,), "int32") as t:
            t[T.Ramp(0, 1, 8)] = A[T.Ramp(i * 8, 1, 8)]
            t[8] = m
            t[9] = m
            for j in range(8):
                A[i * 8 + j] = t[j] + t[j + 2]
"""
    check(CompactBufferAllocation, HEAD + before, HEAD + after, *RUNS)


def test_a_vector_index_that_is_no_ramp(check):
    """It is not proved to be inside, so that the buffer keeps its shape."""
    before = """
    with T.allocate((8, 64), "int32") as t:
        for i in range(4):
            t[i, T.Cast("int32x4", T.Ramp(T.int16(0), T.int16(1), 4))] = T.Broadcast(m, 4)
            A[i] = t[i, 0] + t[i, 3]
"""
    check(CompactBufferAllocation, HEAD + before, HEAD + before, *RUNS)


def test_a_loop_of_unknown_length(check):
    before = """
    with T.allocate((64,), "int32") as t:
        for j in range(n):
            if j < 32:
                t[j] = A[j]
                A[j] = t[j] + 1
"""
    after = before.replace("T.allocate((64,)", "T.allocate((T.min(n, T.int64(64)),)")
    outcomes = check(CompactBufferAllocation, HEAD + before, HEAD + after, *RUNS)
    assert not any("Error" in str(outcome) for outcome in outcomes)


@pytest.mark.parametrize(
    "body",
    [
        "t[m] = 1",  # may be outside
        "t[0] = 1; A[0] = T.call_extern('int32', 'g', t.data)",
        "v = T.decl_buffer((4,), 'int32', data=t.data); t[0] = 1; A[0] = v[0]",
        "t[A[0] % 64] = 1",
        "for i in range(64): t[63 - i] = i",
    ],
)
def test_refusals(check, body):
    text = HEAD + "    with T.allocate((64,), 'int32') as t:\n        " + body
    check(CompactBufferAllocation, text, None, *RUNS, externs={"g": lambda t: int(t[0])})


def test_a_size_that_may_be_wrong_stays(check):
    text = (
        HEAD + "    with T.allocate((T.Cast('int64', m) - 3,), 'int32') as t:\n        if m > 4:\n            t[0] = 1"
    )
    outcomes = check(CompactBufferAllocation, text, None, *RUNS)
    assert outcomes[0][0] == "ValueError"
