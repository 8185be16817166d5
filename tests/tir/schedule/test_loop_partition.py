"""loop_partition: one loop becomes several, one behind the other."""

from __future__ import annotations

import pytest

STATIC = """
@T.prim_func
def main(A: T.Buffer((12, 3), "int32"), B: T.Buffer((12, 3), "int32")):
    for i, j in T.grid(12, 3):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + 1
"""
REDUCTION = """
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, 12), "int32")
    B = T.match_buffer(b, (n,), "int32")
    for i, k in T.grid(n, T.int64(12)):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = 0
            B[vi] = B[vi] + A[vi, vk]
"""


def partitioned(place, *factors, **options):
    def steps(sch):
        loop = sch.get_loops(sch.get_block("B"))[place]
        return sch.loop_partition(loop, list(factors), **options)

    return steps


def test_the_parts_are_blocks(parse, check):
    expected = parse("""
@T.prim_func
def main(A: T.Buffer((12, 3), "int32"), B: T.Buffer((12, 3), "int32")):
    with T.block("root"):
        with T.block("B_i_common"):
            with T.block("B_i_0_partition"):
                for i_0, j in T.grid(2, 3):
                    with T.block("B_i_0"):
                        vi = T.axis.spatial(12, i_0)
                        vj = T.axis.spatial(3, j)
                        B[vi, vj] = A[vi, vj] + 1
            with T.block("B_i_1_partition"):
                for i_1, j in T.grid(10, 3):
                    with T.block("B_i_1"):
                        vi = T.axis.spatial(12, i_1 + 2)
                        vj = T.axis.spatial(3, j)
                        B[vi, vj] = A[vi, vj] + 1
""")
    check(parse(STATIC), partitioned(0, 2), expected)


@pytest.mark.parametrize("factors", [(2, 10), (2, None), (None, 2), (1, 1, None), (4, 4, 4), (12,), (None,)])
@pytest.mark.parametrize("place", [0, 1])
def test_parts_of_a_reduction(parse, check, factors, place):
    if place == 0:
        factors = (None,)
    check(parse(REDUCTION), partitioned(place, *factors))


def test_parts_are_scheduled_on_their_own(parse, check):
    def steps(sch):
        first, second = partitioned(0, 4)(sch)
        sch.parallel(first)
        sch.unroll(second)
        sch.vectorize(sch.get_loops(sch.get_block("B_i_1"))[1])

    after = check(parse(STATIC), steps)
    assert "T.parallel(4)" in after.script()


def test_an_inner_loop(parse, check):
    def steps(sch):
        partitioned(1, 1)(sch)
        sch.parallel(sch.get_loops(sch.get_block("B_j_common"))[0])

    check(parse(STATIC), steps)


def test_unit_parts(parse, check):
    after = check(parse(STATIC), partitioned(0, 1, None, preserve_unit_iters=False))
    assert "vi = T.axis.spatial(12, 0)" in after.script()


def test_refusals(parse, refuse):
    func = parse(STATIC)
    assert "the factor 0 is not known to be 1 or more" in refuse(func, partitioned(0, 0, None))
    assert "at most one of them None" in refuse(func, partitioned(0, None, None))
    assert "the sum of the factors [8, 8] may be more than the extent 12" in refuse(func, partitioned(0, 8, 8))
    assert "may be more than the extent n of the loop" in refuse(parse(REDUCTION), partitioned(0, 4, None))
    text = refuse(func, lambda sch: sch.parallel(sch.get_loops(sch.get_block("B"))[0]), partitioned(0, 4))
    assert "loop i is parallel" in text


def test_inside_of_a_loop_that_reduces(parse, check, refuse):
    def split(sch):
        sch.split(sch.get_loops(sch.get_block("B"))[1], [3, None])

    def both(sch):
        split(sch)
        partitioned(2, 1)(sch)

    check(parse(REDUCTION), both)
    symbolic = parse(
        REDUCTION.replace("(n, 12)", "(n, m)")
        .replace("T.int64(12)", "m")
        .replace("n = T.int64()", "n, m = T.int64(), T.int64()")
    )
    text = refuse(
        symbolic, lambda sch: sch.split(sch.get_loops(sch.get_block("B"))[1], [3, 2, None]), partitioned(2, 1)
    )
    assert "loop k_2, over which block B sums up, may have no iteration, in which case the parts would not" in text
