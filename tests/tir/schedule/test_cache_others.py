"""cache_inplace, cache_index, read_at, write_at, set_axis_separator."""

from __future__ import annotations

import pytest
from schedule_programs import on

INPLACE = """
@T.prim_func
def main(a: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, 4), "float32")
    for i, j in T.grid(n, 3):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi, vj + 1] = A[vi, vj + 1] * T.float32(2) + A[vi, 0]
"""
RESIZE = """
@T.prim_func
def main(A: T.Buffer((1, 3, 5, 5), "float32"), B: T.Buffer((1, 3, 10, 10), "float32")):
    for i0, i1, i2, i3 in T.grid(1, 3, 10, 10):
        with T.block("A"):
            n, c, vi, vj = T.axis.remap("SSSS", [i0, i1, i2, i3])
            B[n, c, vi, vj] = A[n, c, vi // 4 + vj // 4, vj // 2] + A[n, c, vi // 2, vj // 2]
"""
TILED = """
@T.prim_func
def main(a: T.handle, b: T.handle, c: T.handle):
    T.func_attr({"tir.noalias": True})
    n, m = T.int64(), T.int64()
    A = T.match_buffer(a, (n, m), "float32")
    B = T.match_buffer(b, (m, 4), "float32")
    C = T.match_buffer(c, (n, 4), "float32")
    for i, j, k in T.grid(n, 4, m):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
ROWS = """
@T.prim_func
def main(A: T.Buffer((128,), "float32"), B: T.Buffer((128,), "float32")):
    T.func_attr({"tir.noalias": True})
    for i in range(8):
        for j in range(16):
            with T.block("B"):
                vi = T.axis.spatial(128, i * 16 + j)
                B[vi] = A[vi] * T.float32(2)
"""

STAGES = """
@T.prim_func
def main(a: T.handle, c: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, 4), "int32")
    C = T.match_buffer(c, (n, 4), "int32")
    B = T.alloc_buffer((n, 4), "int32")
    for i, j in T.grid(n, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2
    for i, j in T.grid(n, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + 1
"""


def at(level, method, *args, block="C"):
    def steps(sch):
        rv = sch.get_block(block)
        return getattr(sch, method)(sch.get_loops(rv)[level], rv, *args)

    return steps


def test_in_place(parse, check):
    def steps(sch):
        blocks = on("B", "cache_inplace", 0, "local")(sch)
        assert [block.name for block in blocks] == ["A_local", "A_local_1"]

    expected = parse("""
@T.prim_func
def main(a: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, 4), "float32")
    A_local = T.alloc_buffer((n, 4), scope="local")
    for ax0, ax1 in T.grid(n, 4):
        with T.block("A_local"):
            v0, v1 = T.axis.remap("SS", [ax0, ax1])
            A_local[v0, v1] = A[v0, v1]
    for i, j in T.grid(n, 3):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            A_local[vi, vj + 1] = A_local[vi, vj + 1] * T.float32(2) + A_local[vi, 0]
    for ax0, ax1 in T.grid(n, 4):
        with T.block("A_local_1"):
            v0, v1 = T.axis.remap("SS", [ax0, ax1])
            A[v0, v1] = A_local[v0, v1]
""")
    check(parse(INPLACE), steps, expected)


def test_in_place_refusals(parse, refuse):
    func = parse(TILED)
    assert "block C does not write buffer A" in refuse(func, on("C", "cache_inplace", "A", "local"))
    text = refuse(parse(INPLACE), on("B", "cache_inplace", 1, "local"))
    assert "block B reads no buffer of index 1" in text


def test_indices(parse, check):
    def steps(sch):
        blocks = on("A", "cache_index", "global")(sch)
        assert [block.name for block in blocks] == ["index_0", "index_1", "index_2"]

    after = check(parse(RESIZE), steps)
    script = after.script()
    assert "index_var_0[v0, v1] = v0 // 4 + v1 // 4" in script
    assert "A[n, c, index_var_0[vi, vj], index_var_1[vj]] + A[n, c, index_var_2[vi], index_var_1[vj]]" in script
    after = check(parse(RESIZE), on("A", "cache_index", "local", 2))
    assert "A[n, c, vi // 4 + vj // 4, index_var_0[vj]]" in after.script()


def test_no_indices(parse, check):
    check(parse(ROWS), lambda sch: on("B", "cache_index", "local")(sch) == [], parse(ROWS))


def test_a_copy_at_a_loop(parse, check):
    expected = parse("""
@T.prim_func
def main(A: T.Buffer((128,), "float32"), B: T.Buffer((128,), "float32")):
    T.func_attr({"tir.noalias": True})
    A_shared = T.alloc_buffer((128,), scope="shared")
    B_local = T.alloc_buffer((128,), scope="local")
    for i in range(8):
        with T.block("A_shared"):
            v0 = T.axis.spatial(8, i)
            T.reads(A[v0 * 16:v0 * 16 + 16])
            T.writes(A_shared[v0 * 16:v0 * 16 + 16])
            T.block_attr({"auto_copy": True})
            for ax0 in range(16):
                A_shared[v0 * 16 + ax0] = A[v0 * 16 + ax0]
        for j in range(16):
            with T.block("B"):
                vi = T.axis.spatial(128, i * 16 + j)
                B_local[vi] = A_shared[vi] * T.float32(2)
        with T.block("B_local"):
            v0 = T.axis.spatial(8, i)
            T.reads(B_local[v0 * 16:v0 * 16 + 16])
            T.writes(B[v0 * 16:v0 * 16 + 16])
            T.block_attr({"auto_copy": True})
            for ax0 in range(16):
                B[v0 * 16 + ax0] = B_local[v0 * 16 + ax0]
""")

    def steps(sch):
        at(0, "read_at", 0, "shared", block="B")(sch)
        at(0, "write_at", 0, "local", block="B")(sch)

    check(parse(ROWS), steps, expected)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_any_loop(parse, check, level):
    def steps(sch):
        at(level, "read_at", "A", "local")(sch)
        at(level, "read_at", "B", "local")(sch)
        if level < 2:
            at(level, "write_at", 0, "local")(sch)

    check(parse(TILED), steps, sizes=(0, 1, 3))
    check(
        parse(
            TILED.replace("(n, m)", "(n, 3)")
            .replace("(m, 4)", "(3, 4)")
            .replace("4, m)", "4, 3)")
            .replace("n, m = T.int64(), T.int64()", "n = T.int64()")
        ),
        at(level, "write_at", 0, "local"),
        sizes=(0, 1, 3),
    )


@pytest.mark.parametrize("level", [0, 1, 2])
def test_loops_that_do_not_divide(parse, check, level):
    def steps(sch):
        sch.split(sch.get_loops(sch.get_block("C"))[0], [None, 2])
        at(level, "read_at", "A", "local")(sch)
        at(level, "write_at", 0, "local")(sch)

    check(parse(TILED), steps, sizes=(0, 1, 3))


def test_at_refusals(parse, refuse):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
    B = T.alloc_buffer((8, 8))
    for i in range(8):
        for j in range(8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj]
        for j in range(8):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj]
""")
    assert "block B writes buffer B in loop i" in refuse(func, at(0, "read_at", "B", "local"))
    text = refuse(func, at(0, "write_at", "B", "local", block="B"))
    assert "block C reads buffer B in loop i, before it is copied back" in text
    text = refuse(parse(TILED), at(2, "write_at", 0, "local"))
    assert "the copy would stand in loop k, over which block C sums up" in text
    text = refuse(func, lambda sch: sch.read_at(sch.get_loops(sch.get_block("B"))[1], sch.get_block("C"), 0, "local"))
    assert "block C is not below loop j, in one scope with it" in text


def test_axis_separators(parse, check, refuse):
    func = parse(STAGES)
    check(func, on("B", "set_axis_separator", ("write", 0), []), func)
    for name, places in (("B", ("write", 0)), ("B", ("read", 0)), ("C", ("read", 0))):
        after = check(func, on(name, "set_axis_separator", places, [1]))
        assert ", axis_separators=[1])" in after.script()
        check(after, on(name, "set_axis_separator", places, None), func)
    for wrong in ([2], [0], [1, 1], [-1]):
        text = refuse(func, on("B", "set_axis_separator", ("write", 0), wrong))
        assert f"axis_separators must be increasing numbers from 1 to 1, found {wrong}" in text
