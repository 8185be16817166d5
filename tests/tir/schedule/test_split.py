"""split: one loop becomes several nested ones; blocks get a condition where there may be too many iterations."""

from __future__ import annotations

import pytest
from schedule_programs import PLUS_ONE

from relax import tir
from relax.tir import Schedule

STATIC = """
@T.prim_func
def main(A: T.Buffer((12,), "float32"), B: T.Buffer((12,), "float32")):
    for i in range(12):
        with T.block("B"):
            vi = T.axis.spatial(12, i)
            B[vi] = A[vi] + T.float32(1)
"""


def split_by(*factors, **options):
    def steps(sch):
        (loop,) = sch.get_loops(sch.get_block("B"))
        return sch.split(loop, list(factors), **options)

    return steps


def test_a_symbolic_extent_gets_a_condition(parse, check):
    expected = parse("""
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    for i_0, i_1 in T.grid((n + 3) // 4, T.int64(4)):
        with T.block("B"):
            vi = T.axis.spatial(n, i_0 * 4 + i_1)
            T.where(i_0 * 4 + i_1 < n)
            B[vi] = A[vi] + T.float32(1)
""")
    check(parse(PLUS_ONE), split_by(None, 4), expected)


@pytest.mark.parametrize("factors", [(3, None), (None, 3), (2, 2, None), (12,), (2, None, 3)])
def test_a_dividing_split_has_no_condition(parse, check, factors):
    after = check(parse(STATIC), split_by(*factors))
    assert "T.where" not in after.script()


@pytest.mark.parametrize("factors", [(5, None), (None, 5), (13,), (1, None), (None, 1), (4, 4)])
def test_any_split_computes_the_same(parse, check, factors):
    check(parse(STATIC), split_by(*factors))


def test_unit_loops_leave_the_bindings(parse, check):
    after = check(parse(STATIC), split_by(1, 12, preserve_unit_iters=False))
    assert "T.axis.spatial(12, i_1)" in after.script()


def test_without_a_condition_the_caller_must_divide(parse, same_values):
    sch = Schedule(parse(PLUS_ONE))
    split_by(None, 4, disable_predication=True)(sch)
    after = sch.mod["main"]
    assert "T.where" not in after.script()
    same_values(parse(PLUS_ONE), after, sizes=(0, 8))
    with pytest.raises(AssertionError, match="the extent n of loop i must be a multiple of 4"):
        same_values(parse(PLUS_ONE), after, sizes=(3,))


def test_random_integers_are_factors(parse, check):
    def steps(sch):
        split_by(sch.new_integer(3), None)(sch)

    check(parse(STATIC), steps)


def test_refusals(parse, refuse):
    func = parse(STATIC)
    assert "may be less than the extent 12" in refuse(func, split_by(3, 3))
    assert "at most one of them None" in refuse(func, split_by(None, None))
    assert "the factor 0 is not known to be 1 or more" in refuse(func, split_by(0, None))
    text = refuse(func, lambda sch: sch.parallel(*sch.get_loops(sch.get_block("B"))), split_by(None, 4))
    assert "split: loop i is parallel" in text
    assert "for i in T.parallel(12):\n        ^^^^" in text


def test_factors_of_the_wrong_kind(parse, refuse):
    func = parse(STATIC)
    for factors, message in (
        (4, "factors must be a list, found 4"),
        (["4", None], "factors[0] must be an integer, an expression or None, found '4'"),
        ([True, None], "factors[0] must be an integer, an expression or None, found True"),
        ([tir.Var("k", "int32"), None], "is not known to be 1 or more"),
    ):
        text = refuse(func, lambda sch, f=factors: sch.split(sch.get_loops(sch.get_block("B"))[0], f))
        assert message in text or "the factor k mentions k, which is no size, parameter or loop" in text


TRIANGLE = """
@T.prim_func
def main(A: T.Buffer((8, 8), "int32")):
    for i in range(8):
        for j in range(i + 1):
            with T.block("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = 1
"""


def test_extents_that_depend_on_a_loop(parse, check, refuse):
    def inner(**options):
        return lambda sch: sch.split(sch.get_loops(sch.get_block("A"))[1], [None, 4], **options)

    check(parse(TRIANGLE), inner())
    text = refuse(parse(TRIANGLE), inner(disable_predication=True))
    assert "the extent i + 1 depends on a loop: no caller can answer for a multiple of 4" in text


def test_the_outer_loop_of_a_triangle(parse, check):
    check(parse(TRIANGLE), lambda sch: sch.split(sch.get_loops(sch.get_block("A"))[0], [3, None]))


def test_symbolic_factors(parse, check):
    """A size of the function in a factor is asked for by its name where the trace is replayed."""

    def steps(sch):
        (loop,) = sch.get_loops(sch.get_block("B"))
        v = sch.sample_categorical([3, 4], [0.5, 0.5], decision=1)
        assert sch.get(loop).extent is sch.get_size("n")
        sch.split(loop, [None, sch.get_size("n") // 4 + v])
        assert str(sch.trace).endswith('factors=[None, sch.get_size("n") // 4 + v2.astype("int64")])\n')

    check(parse(PLUS_ONE), steps)


def test_symbolic_factors_on_another_function(parse, same_values):
    sch, other = Schedule(parse(PLUS_ONE)), Schedule(parse(PLUS_ONE))
    split_by(None, sch.get_size("n") // 4 + 1)(sch)
    sch.trace.apply_to_schedule(other)
    same_values(parse(PLUS_ONE), other.mod["main"])
    with pytest.raises(tir.ScheduleError, match="there is no size of the name 'n' in the module"):
        sch.trace.apply_to_schedule(Schedule(parse(STATIC)))


def test_around_several_and_nested_blocks(parse, check):
    func = parse("""
@T.prim_func
def main(a: T.handle, b: T.handle, c: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, 4), "int32")
    B = T.match_buffer(b, (n, 4), "int32")
    C = T.match_buffer(c, (n,), "int32")
    for i in range(n):
        with T.block("outer"):
            vi = T.axis.spatial(n, i)
            for j in range(4):
                with T.block("inner"):
                    vo = T.axis.spatial(n, vi)
                    vj = T.axis.spatial(4, j)
                    B[vo, vj] = A[vo, vj] + 1
        with T.block("C"):
            vi = T.axis.spatial(n, i)
            C[vi] = B[vi, 0]
""")

    def steps(sch):
        sch.split(sch.get_loops(sch.get_block("C"))[0], [None, 4])
        sch.split(sch.get_loops(sch.get_block("inner"))[0], [None, 3])

    check(func, steps)
