"""reindex, reindex_cache_read, reindex_cache_write: copies of buffers that are indexed by a block's variables."""

from __future__ import annotations

import pytest
from schedule_programs import PRODUCT, on

TRANSPOSE = """
@T.prim_func
def main(a: T.handle, b: T.handle):
    T.func_attr({"tir.noalias": True})
    n = T.int64()
    A = T.match_buffer(a, (4, n), "float32")
    B = T.match_buffer(b, (n, 4), "float32")
    for i, j in T.grid(n, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vj, vi] * T.float32(2)
"""
CONV = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), W: T.Buffer((3,), "float32"), C: T.Buffer((8,), "float32")):
    T.func_attr({"tir.noalias": True})
    for i, k in T.grid(8, 3):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + T.if_then_else(1 <= vi + vk and vi + vk < 9, A[vi + vk - 1], T.float32(0)) * W[vk]
"""


def test_what_is_read(parse, check):
    expected = parse("""
@T.prim_func
def main(a: T.handle, b: T.handle):
    T.func_attr({"tir.noalias": True})
    n = T.int64()
    A = T.match_buffer(a, (4, n), "float32")
    B = T.match_buffer(b, (n, 4), "float32")
    A_reindex = T.alloc_buffer((n, 4))
    for ax0, ax1 in T.grid(n, 4):
        with T.block("A_reindex"):
            v0, v1 = T.axis.remap("SS", [ax0, ax1])
            A_reindex[v0, v1] = A[v1, v0]
    for i, j in T.grid(n, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A_reindex[vi, vj] * T.float32(2)
""")
    for buffer in (("read", 0), "A"):
        check(parse(TRANSPOSE), on("B", "reindex", buffer), expected)


def test_a_layout_of_its_own(parse, check):
    expected = parse("""
@T.prim_func
def main(a: T.handle, b: T.handle):
    T.func_attr({"tir.noalias": True})
    n = T.int64()
    A = T.match_buffer(a, (4, n), "float32")
    B = T.match_buffer(b, (n, 4), "float32")
    A_shared = T.alloc_buffer((2, n, 2), scope="shared")
    for ax0, ax1 in T.grid(n, 4):
        with T.block("A_shared"):
            v0, v1 = T.axis.remap("SS", [ax0, ax1])
            A_shared[v1 // 2, v0, v1 % 2] = A[v1, v0]
    for i, j in T.grid(n, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A_shared[vj // 2, vi, vj % 2] * T.float32(2)
""")
    check(parse(TRANSPOSE), on("B", "reindex_cache_read", 0, "shared", lambda i, j: (j // 2, i, j % 2)), expected)


def test_a_reduction_and_its_operands(parse, check):
    def steps(sch):
        on("C", "reindex", "B")(sch)
        on("C", "reindex", ("write", 0))(sch)
        on("C", "reindex_cache_read", "A", "local", lambda i, j, k: (k, i))(sch)

    after = check(parse(PRODUCT), steps, sizes=(0, 1, 4))
    assert "C_reindex[vi, vj] = C_reindex[vi, vj] + A_local[vk, vi] * B_reindex[vj, vk]" in after.script()

    def write(sch):
        _, _, k = sch.get_loops(sch.get_block("C"))
        sch.split(k, [None, 2])
        on("C", "reindex_cache_write", 0, "local", lambda i, j, k: (j, i))(sch)

    after = check(parse(PRODUCT), write, sizes=(0, 1, 4))
    assert "C[v0, v1] = C_local[v1, v0]" in after.script()


def test_places_outside_of_the_buffer_are_not_copied(parse, check):
    after = check(parse(CONV), on("C", "reindex", ("read", 0)))
    assert "A_reindex = T.alloc_buffer((8, 3))" in after.script()
    assert "T.where" in after.script()


def test_a_copy_in_the_loops_of_the_writer(parse, check):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((4, 4), "float32"), C: T.Buffer((4, 4), "float32")):
    B = T.alloc_buffer((4, 4))
    for i in range(4):
        for j in range(4):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)
        for j in range(4):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj]
""")
    check(func, on("C", "reindex", "B"))
    check(func, on("B", "reindex", "B"))
    check(func, on("C", "reindex", "C"))


@pytest.mark.parametrize(
    "text, steps, message",
    [
        (
            PRODUCT,
            on("C", "reindex_cache_read", "C", "local", lambda i, j, k: (i, j)),
            "block C reads no buffer called C",
        ),
        (PRODUCT, on("C", "reindex_cache_read", "A", "local", lambda i, j: (i, j)), "the index map takes 2 indices"),
        (
            PRODUCT,
            on("C", "reindex_cache_read", "A", "local", lambda i, j, k: (i, k // 2)),
            "moves two elements to one place",
        ),
        (PRODUCT, on("C", "reindex_cache_write", 0, "local", lambda i, j, k: (i,)), "E8002"),
        (
            PRODUCT,
            on("C", "reindex_cache_write", 0, "local", lambda i, j, k: (i, j, k)),
            "the index map uses vk, over which block C sums up",
        ),
        (
            TRANSPOSE.replace("A[vj, vi] *", "A[vj, vi] + A[0, vi] *"),
            on("B", "reindex", "A"),
            "block B accesses buffer A at several places",
        ),
        (
            TRANSPOSE.replace("A[vj, vi] *", "A[vj, i] *"),
            on("B", "reindex", "A"),
            "the place at which block B accesses buffer A depends on i, not only on its variables",
        ),
        (
            TRANSPOSE.replace("T.grid(n, 4)", "T.grid(n, 3)")
            .replace('"SS", [i, j]', '"SS", [i, j]')
            .replace(
                'vi, vj = T.axis.remap("SS", [i, j])',
                "vi = T.axis.spatial(n, i)\n            vj = T.axis.spatial(4, j)",
            ),
            on("B", "reindex", "B"),
            "block B is not known to run for all values of its variables",
        ),
    ],
)
def test_refusals(parse, refuse, text, steps, message):
    assert message in refuse(parse(text), steps)


def test_a_write_between_is_refused(parse, refuse):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            A[vi] = A[vi] + T.float32(1)
            C[vi] = A[vi]
""")
    text = refuse(func, on("B", "reindex_cache_read", "A", "local", lambda i: (i,)))
    assert "block B reads and writes buffer A: it would not see what it writes" in text
    assert "block B is neither complete nor a reduction block" in refuse(func, on("B", "reindex", "A"))
