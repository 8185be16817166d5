"""rfactor: a reduction is done in parts, which a second block combines."""

from __future__ import annotations

import numpy as np
import pytest
from schedule_programs import SUMS_AND_CONSUMER, SUMS_IN_ONE_LOOP, SUMS_OF_ROWS

from relax import te, tir, topi
from relax.tir import Schedule

STATIC = """
@T.prim_func
def main(A: T.Buffer((3, 8), "DTYPE"), B: T.Buffer((3,), "DTYPE")):
    for i, k in T.grid(3, 8):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = INIT
            B[vi] = UPDATE
"""


def factor(which, axis=0, factors=(None, 4), name="B"):
    """Split the reduction loop, the last one, and factor by the part `which`."""

    def steps(sch):
        split, factoring = apart(which, axis, factors, name)
        split(sch)
        return factoring(sch)

    return steps


def apart(which, axis=0, factors=(None, 4), name="B"):
    """The steps of `factor` one by one."""

    def split(sch):
        sch.split(sch.get_loops(sch.get_block(name))[-1], list(factors))

    def factoring(sch):
        return sch.rfactor(sch.get_loops(sch.get_block(name))[1 + which], axis)

    return split, factoring


def test_parts_are_computed_and_combined(parse, check):
    func = parse(
        STATIC.replace("DTYPE", "float32").replace("INIT", "T.float32(0)").replace("UPDATE", "B[vi] + A[vi, vk]")
    )
    expected = parse("""
@T.prim_func
def main(A: T.Buffer((3, 8), "float32"), B: T.Buffer((3,), "float32")):
    with T.block("root"):
        B_rf = T.alloc_buffer((2, 3))
        for i, k_0, k_1 in T.grid(3, 2, 4):
            with T.block("B_rf"):
                vk_0, vi, vk_1 = T.axis.remap("SSR", [k_0, i, k_1])
                with T.init():
                    B_rf[vk_0, vi] = T.float32(0)
                B_rf[vk_0, vi] = B_rf[vk_0, vi] + A[vi, vk_0 * 4 + vk_1]
        for i, k_0 in T.grid(3, 2):
            with T.block("B"):
                vk_0, vi = T.axis.remap("RS", [k_0, i])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + B_rf[vk_0, vi]
""")
    check(func, factor(0), expected)


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("axis", [0, 1, -1, -2])
def test_the_place_of_the_new_dimension(parse, check, which, axis):
    check(parse(SUMS_OF_ROWS), factor(which, axis), sizes=(1, 5))


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("factors", [(None, 4), (3, None), (None, 1), (1, None), (None, 2, 2)])
def test_sizes_that_do_not_divide(parse, check, which, factors):
    check(parse(SUMS_OF_ROWS), factor(which, 0, factors))


def test_a_part_without_elements_starts_all_the_same(parse, check):
    """Of 3 elements in parts by k_1 of 4, the last part has none: its condition is inside, behind the init."""
    after = check(parse(SUMS_OF_ROWS), factor(1), sizes=(1, 3))
    assert "T.where" not in after.script()
    assert "if vk_0 * 4 + vk_1 < m:" in after.script()


def test_the_whole_loop(parse, check):
    def steps(sch):
        return sch.rfactor(sch.get_loops(sch.get_block("B"))[1], 1)

    check(parse(SUMS_OF_ROWS), steps)


def test_twice(parse, check):
    def steps(sch):
        block = sch.get_block("B")
        _, k = sch.get_loops(block)
        outer, _, _ = sch.split(k, [None, 2, 2])
        parts = sch.rfactor(outer, 0)
        sch.rfactor(sch.get_loops(parts)[2], 0)
        assert sch.get(block).name_hint == "B"

    after = check(parse(SUMS_OF_ROWS), steps)
    assert 'T.block("B_rf_rf")' in after.script()


def test_the_factored_loop_runs_in_parallel(parse, check):
    def steps(sch):
        parts = factor(0)(sch)
        sch.parallel(sch.get_loops(parts)[1])

    check(parse(SUMS_OF_ROWS), steps, sizes=(0, 1, 5))


def test_a_consumer_inside_an_outer_loop(parse, check):
    func = parse(SUMS_AND_CONSUMER)
    check(func, factor(0, factors=(None, 2)))


KINDS = [
    ("float32", "T.float32(0)", "A[vi, vk] + B[vi]"),
    ("float32", "T.float32(0)", "B[vi] - A[vi, vk]"),
    ("float32", "T.float32(0)", "B[vi] + A[vi, vk] + T.float32(1)"),
    ("float32", "T.float32(7)", "B[vi] + A[vi, vk]"),
    ("float32", "A[vi, 0]", "B[vi] + A[vi, vk]"),
    ("int32", "1", "B[vi] * A[vi, vk]"),
    ("float32", "T.float32('-inf')", "T.max(B[vi], A[vi, vk])"),
    ("float32", "T.min_value('float32')", "T.max(A[vi, vk], B[vi])"),
    ("int32", "0", "T.max(A[vi, vk], B[vi])"),
    ("int32", "T.max_value('int32')", "T.min(B[vi], A[vi, vk])"),
    ("int32", "T.min_value('int32')", "T.Select(B[vi] > A[vi, vk], B[vi], A[vi, vk])"),
    ("int32", "100", "T.if_then_else(A[vi, vk] < B[vi], A[vi, vk], B[vi])"),
    ("int32", "0", "T.bitwise_xor(B[vi], A[vi, vk])"),
    ("int32", "-1", "T.bitwise_and(A[vi, vk], B[vi])"),
    ("float32", "T.float32(0)", "T.if_then_else(A[vi, vk] > T.float32(0), B[vi] + A[vi, vk], B[vi])"),
]


@pytest.mark.parametrize(("dtype", "init", "update"), KINDS)
@pytest.mark.parametrize("which", [0, 1])
def test_combinations(parse, check, dtype, init, update, which):
    func = parse(STATIC.replace("DTYPE", dtype).replace("INIT", init).replace("UPDATE", update))
    check(func, factor(which, factors=(None, 3)))


UNKNOWN = [
    ("B[vi] * T.float32(2) + A[vi, vk]", "is no sum, product, maximum"),
    ("A[vi, vk] - B[vi]", "is no sum, product, maximum"),
    ("B[vi] + B[vi]", "is no sum, product, maximum"),
    ("A[vi, vk]", "is no sum, product, maximum"),
    ("T.if_then_else(B[vi] > T.float32(5), B[vi], B[vi] + A[vi, vk])", "is no sum, product, maximum"),
    ("T.Select(B[vi] > T.float32(1), B[vi], A[vi, vk])", "it is not proved that its selection may be done in parts"),
]


@pytest.mark.parametrize(("update", "reason"), UNKNOWN)
def test_unknown_combinations_are_refused(parse, refuse, update, reason):
    func = parse(STATIC.replace("DTYPE", "float32").replace("INIT", "T.float32(0)").replace("UPDATE", update))
    text = refuse(func, *apart(0))
    assert "error[E8106]: rfactor: block B is no reduction that can be done in parts: " in text
    assert reason in text


# ------------------------------------------------------------------------------------------ several results


def argmax(tie):
    """A PrimFunc that takes the greatest value and its index; `tie` decides between equals."""

    def combine(x, y):
        keep = tie(x, y)
        return tir.Select(keep, x[0], y[0]), tir.Select(keep, x[1], y[1])

    reducer = te.comm_reducer(combine, lambda i, v: (tir.const(-1, i), tir.min_value(v)), "argmax")
    value = te.placeholder((3, 8), "float32", "value")
    k = te.reduce_axis((0, 8), "k")
    outputs = te.compute((3,), lambda i: reducer((k.var.astype("int32"), value[i, k]), axis=k), "best")
    return te.create_prim_func([value, *outputs])


FIRST = argmax(lambda x, y: x[1] >= y[1])
LAST = argmax(lambda x, y: x[1] > y[1])
BY_INDEX = argmax(lambda x, y: tir.any(x[1] > y[1], tir.all(x[1].equal(y[1]), x[0] < y[0])))


def test_a_selection_by_index_may_be_done_in_any_order(check):
    for which in (0, 1):
        check(BY_INDEX, factor(which, 0, (None, 4), "best"))


def test_the_first_of_equals_is_kept_by_the_outermost_loop(check, refuse):
    check(FIRST, factor(0, 1, (None, 4), "best"))
    text = refuse(FIRST, *apart(1, 0, (None, 4), "best"))
    assert "depends on the order of its elements, which factoring by loop k_1 would change" in text
    assert "help: factor by the outermost loop of the reduction, k_0, or let the combination decide" in text


def test_the_last_of_equals(check, refuse):
    assert "it is not proved that its selection may be done in parts" in refuse(LAST, *apart(0, 0, (None, 4), "best"))


def test_argmax_of_the_library(same_values):
    """It asks for NaN, and keeps the first of equals."""
    data = te.placeholder((2, 12), "float32", "data")
    func = te.create_prim_func([data, topi.argmax(data, 1)])
    sch = Schedule(func, debug_mask="all")
    name = next(b.block.name_hint for b in sch.state.blocks("main") if b.block.init is not None)
    factor(0, 0, (None, 4), name)(sch)
    same_values(func, sch.mod["main"])
    special = np.array([[1, np.nan, 5, np.nan] * 3, [-np.inf] * 12], "float32")
    first, second = np.zeros(2, "int64"), np.zeros(2, "int64")
    tir.interpret(func, special, first)
    tir.interpret(sch.mod["main"], special, second)
    assert first.tolist() == second.tolist() == [1, 0]


def test_two_sums(check):
    total = te.comm_reducer(
        lambda x, y: (x[0] + y[0], x[1] + y[1]), lambda *kinds: tuple(tir.const(0, kind) for kind in kinds), "total"
    )
    value = te.placeholder((3, 8), "float32", "value")
    k = te.reduce_axis((0, 8), "k")
    outputs = te.compute((3,), lambda i: total((value[i, k], value[i, k] * value[i, k]), axis=k), "sums")
    func = te.create_prim_func([value, *outputs])
    name = next(b.block.name_hint for b in Schedule(func).state.blocks("main") if b.block.init is not None)
    for which in (0, 1):
        check(func, factor(which, 0, (None, 3), name))


# ------------------------------------------------------------------------------------------ refusals


def test_loops_that_cannot_be_factored(parse, refuse):
    func = parse(SUMS_OF_ROWS)
    text = refuse(func, lambda sch: sch.rfactor(sch.get_loops(sch.get_block("B"))[0], 0))
    assert "rfactor: loop i is bound to a data-parallel variable of block B; only loops of a reduction alone" in text
    text = refuse(func, *apart(0, 2))
    assert "factor_axis must be from -2 to 1, found 2" in text


def test_a_loop_with_two_blocks_is_refused(parse, refuse):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((6,), "float32"), B: T.Buffer((1,), "float32"), C: T.Buffer((6,), "float32")):
    for k in range(6):
        with T.block("B"):
            vk = T.axis.reduce(6, k)
            with T.init():
                B[0] = T.float32(0)
            B[0] = B[0] + A[vk]
        with T.block("C"):
            vk = T.axis.spatial(6, k)
            C[vk] = A[vk]
""")
    text = refuse(func, lambda sch: sch.rfactor(sch.get_loops(sch.get_block("B"))[0], 0))
    assert "loop k must have one block inside, found B, C" in text


def test_a_loop_of_both_kinds_is_refused(parse, refuse):
    func = parse(SUMS_IN_ONE_LOOP)
    text = refuse(func, lambda sch: sch.rfactor(sch.get_loops(sch.get_block("B"))[0], 0))
    assert "loop f is bound to a data-parallel variable of block B" in text


def test_no_init_is_refused(parse, refuse):
    def decomposed(sch):
        block = sch.get_block("B")
        sch.decompose_reduction(block, sch.get_loops(block)[0])

    text = refuse(
        parse(SUMS_OF_ROWS), decomposed, lambda sch: sch.rfactor(sch.get_loops(sch.get_block("B_update"))[1], 0)
    )
    assert "block B_update is not a reduction block: it has no init" in text


@pytest.mark.parametrize("which", [0, 1])
def test_loops_around_both_blocks(parse, check, which):
    def steps(sch):
        _, k = sch.get_loops(sch.get_block("B"))
        loops = sch.split(k, [None, 4])
        parts = sch.rfactor(loops[which], 1, merge_loops=True)
        assert sch.get(sch.get_loops(parts)[0]) is sch.get(sch.get_loops(sch.get_block("B"))[0])

    check(parse(SUMS_OF_ROWS), steps)


def test_loops_around_both_blocks_of_a_tile(parse, check):
    """Those in front of the first that reduces; the others are split up."""
    func = parse("""
@T.prim_func
def main(A: T.Buffer((10, 8), "int32"), B: T.Buffer((10,), "int32")):
    for i, k in T.grid(10, 8):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = 0
            B[vi] = B[vi] + A[vi, vk]
""")

    def steps(sch):
        i, k = sch.get_loops(sch.get_block("B"))
        io, ii = sch.split(i, [None, 4])
        ko, ki = sch.split(k, [None, 3])
        sch.reorder(io, ko, ii, ki)
        sch.parallel(io)
        sch.rfactor(ki, 0, merge_loops=True)

    after = check(func, steps)
    assert after.script().count("T.parallel") == 1
