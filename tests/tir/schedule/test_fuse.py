"""fuse: nested loops become one, whose digits are the loops' indices."""

from __future__ import annotations

import pytest
from schedule_programs import loops

MATRIX = """
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int64()
    m = T.int64()
    A = T.match_buffer(a, (n, m), "float32")
    B = T.match_buffer(b, (n, m), "float32")
    for i, j in T.grid(n, m):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)
"""
STATIC = """
@T.prim_func
def main(A: T.Buffer((4, 1, 6), "float32"), B: T.Buffer((4, 1, 6), "float32")):
    for i, u, j in T.grid(4, 1, 6):
        with T.block("B"):
            vi, vu, vj = T.axis.remap("SSS", [i, u, j])
            B[vi, vu, vj] = A[vi, vu, vj] + T.float32(1)
"""


def test_symbolic_extents(parse, check):
    expected = parse("""
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int64()
    m = T.int64()
    A = T.match_buffer(a, (n, m), "float32")
    B = T.match_buffer(b, (n, m), "float32")
    for i_j_fused in range(n * m):
        with T.block("B"):
            vi = T.axis.spatial(n, i_j_fused // m)
            vj = T.axis.spatial(m, i_j_fused % m)
            B[vi, vj] = A[vi, vj] + T.float32(1)
""")
    check(parse(MATRIX), lambda sch: sch.fuse(*loops(sch, "B")), expected)


def test_three_loops_and_unit_loops(parse, check):
    after = check(parse(STATIC), lambda sch: sch.fuse(*loops(sch, "B")))
    assert "for i_u_j_fused in range(24)" in after.script()
    after = check(parse(STATIC), lambda sch: sch.fuse(*loops(sch, "B"), preserve_unit_iters=False))
    assert "vu = T.axis.spatial(1, 0)" in after.script()


def test_one_loop_stays(parse, check):
    def steps(sch):
        i, _ = loops(sch, "B")
        assert sch.fuse(i) is i

    check(parse(MATRIX), steps, parse(MATRIX))


def test_loops_that_begin_elsewhere(parse, check):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((12,), "int32")):
    for i in range(1, 4):
        for j in range(2, 5):
            with T.block("A"):
                vi = T.axis.spatial((1, 4), i)
                vj = T.axis.spatial((2, 5), j)
                A[vi * 3 + vj - 3] = vi * 10 + vj
""")
    check(func, lambda sch: sch.fuse(*loops(sch, "A")))


def test_loops_without_iterations(parse, check):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((4, 0), "int32")):
    for i, j in T.grid(4, 0):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi, vj] = 1
""")
    check(func, lambda sch: sch.fuse(*loops(sch, "A")))


def test_fused_loops_are_split_again(parse, check):
    def steps(sch):
        sch.split(sch.fuse(*loops(sch, "B")), [None, 4])

    check(parse(MATRIX), steps)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_loops_around_several_blocks(parse, check, dtype):
    func = parse(f"""
@T.prim_func
def main(A: T.Buffer((4, 6), "float32"), B: T.Buffer((4, 6), "float32"), C: T.Buffer((4, 6), "float32")):
    for i, j in T.grid(T.{dtype}(4), T.int64(6)):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] * A[vi, vj]
""")
    check(func, lambda sch: sch.fuse(*loops(sch, "B")))


def test_refusals(parse, refuse):
    func = parse(STATIC)
    text = refuse(func, lambda sch: sch.fuse(loops(sch, "B")[0], loops(sch, "B")[2]))
    assert "fuse: loop j does not stand directly inside loop i" in text
    text = refuse(func, lambda sch: sch.parallel(loops(sch, "B")[0]), lambda sch: sch.fuse(*loops(sch, "B")))
    assert "loop i is parallel" in text
    text = refuse(func, lambda sch: sch.annotate(loops(sch, "B")[1], "a", 1), lambda sch: sch.fuse(*loops(sch, "B")))
    assert "loop u has annotations (a)" in text
    assert "takes at least one loop" in refuse(func, lambda sch: sch.fuse())
    assert "loops must be a loop, found BlockRV" in refuse(func, lambda sch: sch.fuse(sch.get_block("B")))


def test_bounds_that_depend_on_each_other(parse, refuse):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((8, 8), "int32")):
    for i in range(8):
        for j in range(i):
            with T.block("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = 1
""")
    assert "fuse: the bounds of loop j depend on loop i" in refuse(func, lambda sch: sch.fuse(*loops(sch, "A")))


SUMS = """
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int64()
    m = T.int64()
    A = T.match_buffer(a, (n, m, 3), "int32")
    B = T.match_buffer(b, (n,), "int32")
    for i, k, r in T.grid(n, m, T.int64(3)):
        with T.block("B"):
            vi, vk, vr = T.axis.remap("SRR", [i, k, r])
            with T.init():
                B[vi] = 0
            B[vi] = B[vi] + A[vi, vk, vr]
"""


def test_loops_that_reduce(parse, check):
    check(parse(SUMS), lambda sch: sch.fuse(*loops(sch, "B")[1:]))
    check(
        parse(
            SUMS.replace(", m,", ", T.int64(2),").replace(
                "A = T.match_buffer(a, (n, T.int64(2), 3)", "A = T.match_buffer(a, (n, 2, 3)"
            )
        ),
        lambda sch: sch.fuse(*loops(sch, "B")),
    )


def test_a_sum_over_nothing_is_still_started(parse, refuse):
    text = refuse(parse(SUMS), lambda sch: sch.fuse(*loops(sch, "B")))
    assert "fuse: loop k, over which block B sums up, may have no iteration" in text
    text = refuse(
        parse(SUMS),
        lambda sch: sch.reorder(loops(sch, "B")[1], loops(sch, "B")[0]),
        lambda sch: sch.fuse(*loops(sch, "B")[1:]),
    )
    assert "fuse: loop k, over which block B sums up, may have no iteration" in text


def test_loops_that_reduce_over_nothing(parse, check):
    text = SUMS.replace("(n, m, 3)", "(n, 3, m)").replace("T.grid(n, m, T.int64(3))", "T.grid(n, T.int64(3), m)")
    check(parse(text), lambda sch: sch.fuse(*loops(sch, "B")[1:]))
