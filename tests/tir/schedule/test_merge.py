"""merge: loops side by side become one."""

from __future__ import annotations

import pytest
from schedule_programs import loops

PAIR = """
@T.prim_func
def main(a: T.handle, b: T.handle, c: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, 6), "int32")
    B = T.match_buffer(b, (n, 6), "int32")
    C = T.match_buffer(c, (n, 6), "int32")
    for i in range(n):
        for j in range(6):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + 1
    for p in range({extent}):
        for q in range(6):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [p, q])
                C[vi, vj] = {value}
"""


def merged(depth, *blocks):
    return lambda sch: sch.merge(*(loops(sch, block)[depth] for block in blocks or ("B", "C")))


def pair(value="A[vi, vj] * 2", extent="n"):
    return PAIR.format(value=value, extent=extent)


def test_outer_loops(parse, check):
    expected = parse("""
@T.prim_func
def main(a: T.handle, b: T.handle, c: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, 6), "int32")
    B = T.match_buffer(b, (n, 6), "int32")
    C = T.match_buffer(c, (n, 6), "int32")
    for i_m in range(n):
        for j in range(6):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i_m, j])
                B[vi, vj] = A[vi, vj] + 1
        for q in range(6):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i_m, q])
                C[vi, vj] = A[vi, vj] * 2
""")
    check(parse(pair()), merged(0), expected)


def test_inner_loops_with_those_around_them(parse, check):
    after = check(parse(pair()), merged(1))
    assert "for i_m, j_m in T.grid(n, T.int64(6))" in after.script() or "for i_m, j_m in T.grid(n, 6)" in after.script()


@pytest.mark.parametrize("depth", [0, 1])
def test_what_is_read_in_the_same_iteration(parse, check, depth):
    check(parse(pair("B[vi, vj] * 2")), merged(depth))


def test_what_is_read_across_the_inner_loop(parse, check, refuse):
    func = parse(pair("B[vi, 5 - vj] * 2"))
    check(func, merged(0))
    text = refuse(func, merged(1))
    assert "merge: block C may touch elements of B that block B writes in another iteration of loop j_m" in text


def test_what_is_overwritten(parse, refuse, check):
    func = parse(pair("1").replace("C[vi, vj] =", "A[T.max(vi - 1, 0), vj] ="))
    assert "may touch elements of A" in refuse(func, merged(0))
    check(parse(pair("1").replace("C[vi, vj] =", "A[vi, vj] =")), merged(0))


def test_three_nests_inside_of_a_loop(parse, check):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((4, 6), "int32"), B: T.Buffer((4, 6), "int32"), C: T.Buffer((4, 6), "int32")):
    for i in range(4):
        for j in range(6):
            with T.block("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = vi * vj
        for j in range(6):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + 1
        for j in range(6):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vi, vj] + B[vi, vj]
""")
    after = check(func, merged(1, "C", "A", "B"))
    assert "for i, j_m in T.grid(4, 6)" in after.script()
    check(func, merged(1, "A", "B"))


def test_refused_structures(parse, refuse):
    func = parse(pair())
    assert "two or more different loops" in refuse(func, lambda sch: sch.merge(loops(sch, "B")[0]))
    text = refuse(func, lambda sch: sch.merge(loops(sch, "B")[0], loops(sch, "B")[1]))
    assert "one of the loops is inside" in text or "are not" in text
    text = refuse(func, lambda sch: sch.merge(loops(sch, "B")[0], loops(sch, "C")[1]))
    assert "loop i is 1 deep below what is around all, loop q 2 deep" in text
    text = refuse(parse(pair(extent="n // 2")), merged(0))
    assert "the loops i and p have different bounds" in text
    text = refuse(func, lambda sch: sch.parallel(loops(sch, "C")[0]), merged(0))
    assert "loop p is parallel" in text


def test_loops_with_something_between(parse, refuse):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32")):
    for i in range(4):
        with T.block("A"):
            vi = T.axis.spatial(4, i)
            A[vi] = 1
    for j in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, j)
            B[vi] = A[3 - vi]
    for k in range(4):
        with T.block("C"):
            vi = T.axis.spatial(4, k)
            C[vi] = B[3 - vi]
""")
    assert "do not stand directly behind each other" in refuse(func, merged(0, "A", "C"))
    assert "error[E8104]" in refuse(func, merged(0, "A", "B"))
