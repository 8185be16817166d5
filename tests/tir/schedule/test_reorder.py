"""reorder: nested loops change places; reorder_block_iter_var: the variables of a block do."""

from __future__ import annotations

import pytest
from schedule_programs import loops

MATMUL = """
@T.prim_func
def main(a: T.handle, b: T.handle, c: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, 5), "float32")
    B = T.match_buffer(b, (5, 3), "float32")
    C = T.match_buffer(c, (n, 3), "float32")
    for i, j, k in T.grid(n, T.int64(3), T.int64(5)):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
REDUCE = """
@T.prim_func
def main(A: T.Buffer((4, 6), "{dtype}"), B: T.Buffer((4,), "{dtype}")):
    for i, k in T.grid(4, 6):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.{dtype}(1)
            B[vi] = {update}
"""
TWO = """
@T.prim_func
def main(A: T.Buffer((4, 6), "int32"), B: T.Buffer((4, 6), "int32"), C: T.Buffer((4, 6), "int32")):
    for i, j in T.grid(4, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + 1
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = {value}
"""


def ordered(block, *places):
    def steps(sch):
        chain = loops(sch, block)
        sch.reorder(*(chain[place] for place in places))

    return steps


def test_a_reduction_moves_outside(parse, check):
    text = MATMUL.replace(
        "for i, j, k in T.grid(n, T.int64(3), T.int64(5))", "for k, i, j in T.grid(T.int64(5), n, T.int64(3))"
    )
    check(parse(MATMUL), ordered("C", 2, 0, 1), parse(text))


@pytest.mark.parametrize("places", [(1, 0), (2, 0), (2, 1, 0), (1, 2, 0), (0, 2), (2, 1), (1,)])
def test_any_order_of_a_matmul(parse, check, places):
    check(parse(MATMUL), ordered("C", *places))


def test_split_and_reordered(parse, check):
    def steps(sch):
        i, j, k = loops(sch, "C")
        io, ii = sch.split(i, [None, 4])
        ko, ki = sch.split(k, [None, 2])
        sch.reorder(io, ko, j, ki, ii)
        sch.unroll(ki)

    check(parse(MATMUL), steps)


@pytest.mark.parametrize(
    "dtype, update",
    [("float32", "A[vi, vk] + B[vi]"), ("float32", "T.max(B[vi], A[vi, vk])"), ("int32", "B[vi] * A[vi, vk]")],
)
def test_the_order_of_sums_is_free(parse, check, dtype, update):
    def steps(sch):
        i, k = loops(sch, "B")
        outer, inner = sch.split(k, [2, 3])
        sch.reorder(inner, outer, i)

    check(parse(REDUCE.format(dtype=dtype, update=update)), steps)


@pytest.mark.parametrize(
    "dtype, update", [("float32", "B[vi] * A[vi, vk]"), ("int32", "B[vi] * 2 + A[vi, vk]"), ("int32", "A[vi, vk]")]
)
def test_the_order_of_other_updates_is_kept(parse, refuse, check, dtype, update):
    func = parse(REDUCE.format(dtype=dtype, update=update))

    text = refuse(func, lambda sch: sch.split(loops(sch, "B")[1], [2, 3]), ordered("B", 2, 1))
    assert "reorder: block B combines values in the order of the loops k_0, k_1" in text
    assert "only sums, minima, maxima" in text
    check(func, ordered("B", 1, 0))


def test_blocks_that_meet_in_an_iteration(parse, check):
    check(parse(TWO.format(value="B[vi, vj] * 2")), ordered("B", 1, 0))


def test_blocks_that_depend_across_iterations(parse, refuse):
    func = parse(TWO.format(value="B[T.max(vi - 1, 0), T.min(vj + 1, 5)]"))
    text = refuse(func, ordered("B", 1, 0))
    assert "error[E8104]: reorder: block C may touch elements of B that block B writes in other iterations" in text
    assert "of the loops i, j" in text


def test_one_crossing_loop_keeps_its_place(parse, check):
    """Rows are independent of each other; so the rows may be done in any order, though each is done from the left."""
    func = parse("""
@T.prim_func
def main(A: T.Buffer((4, 3, 6), "int32"), B: T.Buffer((4, 3, 6), "int32"), C: T.Buffer((4, 3, 6), "int32")):
    for i, j, k in T.grid(4, 3, 6):
        with T.block("B"):
            vi, vj, vk = T.axis.remap("SSS", [i, j, k])
            B[vi, vj, vk] = A[vi, vj, vk] + 1
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSS", [i, j, k])
            C[vi, vj, vk] = T.if_then_else(vk > 0, B[vi, vj, T.max(vk - 1, 0)], 7)
""")
    check(func, ordered("B", 1, 0))
    check(func, ordered("B", 2, 1, 0))


def test_loops_of_other_kinds_move_along(parse, check):
    def steps(sch):
        i, j, k = loops(sch, "C")
        sch.parallel(i)
        sch.unroll(k)
        sch.reorder(k, j, i)

    after = check(parse(MATMUL), steps)
    assert "T.parallel(n)" in after.script()


def test_a_decomposed_update(parse, check):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((4, 6), "int32"), B: T.Buffer((4,), "int32")):
    for i in range(4):
        with T.block("start"):
            vi = T.axis.spatial(4, i)
            B[vi] = 0
    for i, k in T.grid(4, 6):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            B[vi] = B[vi] + A[vi, vk]
""")
    check(func, ordered("B", 1, 0))


def test_refused_structures(parse, refuse):
    func = parse(
        TWO.format(value="1")
        + """
    for i2 in range(4):
        for j2 in range(i2 + 1):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i2, j2])
                A[vi, vj] = 1
        for j3 in range(6):
            with T.block("E"):
                vi, vj = T.axis.remap("SS", [i2, j3])
                C[vi, vj] = 1
"""
    )
    text = refuse(func, lambda sch: sch.reorder(loops(sch, "B")[0], loops(sch, "D")[0]))
    assert "are not nested in each other" in text
    text = refuse(func, ordered("D", 1, 0))
    assert "reorder: loop j2 does not stand directly inside loop i2" in text
    assert "takes at least one loop" in refuse(func, lambda sch: sch.reorder())
    assert "a loop is given twice" in refuse(func, ordered("B", 0, 0))


def test_bounds_stay_inside(parse, refuse):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((4, 8), "int32")):
    for i in range(4):
        for j in range(i + 1):
            with T.block("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = 1
""")
    text = refuse(func, ordered("A", 1, 0))
    assert "the bounds of loop j depend on loop i, which would stand inside of it" in text


@pytest.mark.parametrize(
    "body, message",
    [
        ("A[vi, vj] = A[vi, vj] + 1", "it reads buffer A, which it also writes"),
        ("A[0, 0] = vi", "may write the same element of A"),
        ("A[vi, vj] = i", "its body uses the loop variable i itself"),
        ("T.evaluate(T.call_extern('int32', 'f', vi, vj))", "it calls a function with effects"),
    ],
)
def test_blocks_of_which_nothing_is_known(parse, refuse, body, message):
    func = parse(f"""
@T.prim_func
def main(A: T.Buffer((4, 8), "int32")):
    for i, j in T.grid(4, 8):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            {body}
""")
    text = refuse(func, ordered("A", 1, 0))
    assert "reorder: block A is neither complete nor a reduction block" in text
    assert message in text


def test_statements_outside_of_blocks(parse, refuse):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((4, 8), "int32")):
    for i, j in T.grid(4, 8):
        A[0, 0] = i
        with T.block("B"):
            T.evaluate(0)
""")
    assert "a statement stands outside of blocks" in refuse(func, ordered("B", 1, 0))
    assert "parallel: a statement stands outside of blocks" in refuse(
        func, lambda sch: sch.parallel(loops(sch, "B")[0])
    )


def test_a_reduction_that_is_repeated(parse, refuse):
    """Each pass of `u` starts the sums anew; inside of `k` it would add every term twice."""
    func = parse(
        REDUCE.format(dtype="int32", update="B[vi] + A[vi, vk]").replace(
            "for i, k in T.grid(4, 6)", "for u, i, k in T.grid(2, 4, 6)"
        )
    )
    text = refuse(func, ordered("B", 2, 0))
    assert "the values of block B may be computed more than once" in text


def test_a_reduction_from_its_end(parse, refuse):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((4, 6), "int32"), B: T.Buffer((4,), "int32")):
    for i, k in T.grid(4, 6):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            vk = T.axis.reduce(6, 5 - k)
            with T.init():
                B[vi] = 0
            B[vi] = B[vi] + A[vi, vk]
""")
    text = refuse(func, ordered("B", 1, 0))
    assert "error[E8102]: reorder: " in text


def test_variables_of_a_block(parse, check, refuse):
    def permuted(*order):
        return lambda sch: sch.reorder_block_iter_var(sch.get_block("C"), list(order))

    after = check(parse(MATMUL), permuted(2, 0, 1))
    assert 'vk, vi, vj = T.axis.remap("RSS", [k, i, j])' in after.script()
    check(parse(MATMUL), permuted(0, 1, 2), parse(MATMUL))
    for order in ((0, 1), (0, 1, 1), (0, 1, 3)):
        text = refuse(parse(MATMUL), permuted(*order))
        assert "new_order must have each of the numbers from 0 to 2 once" in text


FUSED = """
@T.prim_func
def main(A: T.Buffer((4, 6), "float32"), C: T.Buffer((4,), "float32")):
    for f in range(24):
        with T.block("C"):
            vj = T.axis.spatial(4, f // 6)
            vk = T.axis.reduce(6, f % 6)
            with T.init():
                C[vj] = T.float32(0)
            C[vj] = C[vj] + A[vj, vk]
"""


def split_by(*factors):
    return lambda sch: sch.split(sch.get_loops(sch.get_block("C"))[0], list(factors))


def interchange(sch):
    sch.reorder(*reversed(sch.get_loops(sch.get_block("C"))))


@pytest.mark.parametrize("factors", [(3, 8), (6, 4)])
def test_a_sum_begins_with_its_first_term(parse, refuse, factors):
    text = refuse(parse(FUSED), split_by(*factors), interchange)
    assert "is bound to data-parallel and to reduction variables of block C" in text


def test_digits_of_a_fused_loop_may_change_places(parse, check):
    def steps(sch):
        split_by(4, 6)(sch)
        interchange(sch)

    check(parse(FUSED), steps)
