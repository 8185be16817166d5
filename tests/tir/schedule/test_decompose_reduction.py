"""decompose_reduction: the init of a reduction is a block in front of a loop."""

from __future__ import annotations

import pytest
from schedule_programs import SUMS_AND_CONSUMER, SUMS_IN_ONE_LOOP, SUMS_OF_ROWS

from relax.tir import Schedule

MATMUL = """
@T.prim_func
def main(A: T.Buffer((4, 6), "float32"), B: T.Buffer((6, 5), "float32"), C: T.Buffer((4, 5), "float32")):
    for i, j, k in T.grid(4, 5, 6):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""


def decompose(position, name="B"):
    def steps(sch):
        block = sch.get_block(name)
        return sch.decompose_reduction(block, sch.get_loops(block)[position])

    return steps


def test_the_init_stands_in_front_of_the_outermost_loop(parse, check):
    expected = parse("""
@T.prim_func
def main(a: T.handle, b: T.handle):
    n, m = T.int64(), T.int64()
    A = T.match_buffer(a, (n, m), "float32")
    B = T.match_buffer(b, (n,), "float32")
    for i_init in range(n):
        with T.block("B_init"):
            vi = T.axis.spatial(n, i_init)
            B[vi] = T.float32(0)
    for i, k in T.grid(n, m):
        with T.block("B_update"):
            vi, vk = T.axis.remap("SR", [i, k])
            B[vi] = B[vi] + A[vi, vk]
""")
    check(parse(SUMS_OF_ROWS), decompose(0), expected)


def test_the_init_stands_in_front_of_the_reduction_loop(parse, check):
    expected = parse("""
@T.prim_func
def main(a: T.handle, b: T.handle):
    n, m = T.int64(), T.int64()
    A = T.match_buffer(a, (n, m), "float32")
    B = T.match_buffer(b, (n,), "float32")
    for i in range(n):
        with T.block("B_init"):
            vi = T.axis.spatial(n, i)
            B[vi] = T.float32(0)
        for k in range(m):
            with T.block("B_update"):
                vi, vk = T.axis.remap("SR", [i, k])
                B[vi] = B[vi] + A[vi, vk]
""")
    check(parse(SUMS_OF_ROWS), decompose(1), expected)


@pytest.mark.parametrize("position", [0, 1, 2])
def test_any_loop_down_to_the_reduction(parse, check, position):
    check(parse(MATMUL), decompose(position, "C"))


def test_random_variables_and_names(parse):
    sch = Schedule(parse(MATMUL))
    block = sch.get_block("C")
    init = sch.decompose_reduction(block, sch.get_loops(block)[1])
    assert sch.get(init).name_hint == "C_init"
    assert sch.get(block).name_hint == "C_update"
    assert [loop.var.name for loop in sch.get_loops(init)] == ["i", "j_init"]
    assert [loop.var.name for loop in sch.get_loops(block)] == ["i", "j", "k"]
    assert sch.copy().get(block) is sch.get(block)
    assert sch.get(sch.get_block("C_update")) is sch.get(block)


@pytest.mark.parametrize("factor", [1, 4, 16])
def test_a_split_reduction_drops_its_condition_from_the_init(parse, check, factor):
    def steps(sch):
        block = sch.get_block("B")
        i, k = sch.get_loops(block)
        sch.split(i, [None, 4])
        outer, _ = sch.split(k, [None, factor])
        sch.decompose_reduction(block, outer)

    after = check(parse(SUMS_OF_ROWS), steps, sizes=(0, 1, 7))
    init = after.script().partition("B_update")[0]
    assert "T.where(i_0 * 4 + i_1 < n)" in init
    assert "k_" not in init.partition("B_init")[2].partition("for k_0")[0]


@pytest.mark.parametrize("position", [0, 1, 2, 3, 4])
def test_loops_of_one_iteration_that_a_condition_names(parse, check, position):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((3, 7), "float32"), B: T.Buffer((3,), "float32")):
    for u, i, w, k_0, k_1 in T.grid(1, 3, 1, 2, 4):
        with T.block("B"):
            vi = T.axis.spatial(3, i)
            vk = T.axis.reduce(7, k_0 * 4 + k_1)
            T.where(w + k_0 * 4 + k_1 < 7 and u + i < 3)
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
""")
    if position < 4:
        check(func, decompose(position))
    check(func, lambda sch: sch.blockize(sch.get_loops(sch.get_block("B"))[position]))
    check(func, lambda sch: sch.blockize(sch.get_loops(sch.get_block("B"))[position], False))


def test_vectorised_loops_stay_so_in_the_init(parse, check):
    def steps(sch):
        block = sch.get_block("C")
        i, j, k = sch.get_loops(block)
        sch.vectorize(j)
        sch.parallel(i)
        sch.decompose_reduction(block, i)

    after = check(parse(MATMUL), steps)
    assert "for i_init in T.parallel(4):\n        for j_init in T.vectorized(5):" in after.script()


def test_a_consumer_in_the_same_iteration_stays_behind(parse, check):
    func = parse(SUMS_AND_CONSUMER)
    check(func, decompose(0))
    after = check(func, decompose(1))
    names = [line.strip() for line in after.script().splitlines() if "T.block" in line]
    assert names == ['with T.block("B_init"):', 'with T.block("B_update"):', 'with T.block("C"):']


def test_several_results(parse, check):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((3, 5), "int32"), I: T.Buffer((3,), "int32"), V: T.Buffer((3,), "int32")):
    for i, k in T.grid(3, 5):
        with T.block("best"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                I[vi] = -1
                V[vi] = -100
            v_i: T.int32 = T.Select(V[vi] >= A[vi, vk], I[vi], vk)
            v_v: T.int32 = T.Select(V[vi] >= A[vi, vk], V[vi], A[vi, vk])
            I[vi] = v_i
            V[vi] = v_v
""")
    check(func, decompose(0, "best"))
    check(func, decompose(1, "best"))


def test_a_loop_of_both_kinds(parse, check):
    func = parse(SUMS_IN_ONE_LOOP)
    check(func, decompose(0))


NEIGHBOUR = """
@T.prim_func
def main(A: T.Buffer((4, 6), "float32"), B: T.Buffer((5,), "float32"), C: T.Buffer((4,), "float32")):
    for i in range(4):
        for k in range(6):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vk]
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = B[vi + 1]
"""


def test_an_init_that_would_be_seen_or_is_not_there_is_refused(parse, refuse):
    text = refuse(parse(NEIGHBOUR), decompose(0))
    assert "block C may read elements of B before the init of block B has run, and would then see it" in text
    assert "help: give a loop inside of i" in text
    elementwise = parse("""
@T.prim_func
def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[vi]
""")
    assert "block B is not a reduction block: it has no init" in refuse(elementwise, decompose(0))


def test_a_reduction_loop_further_out_is_refused(parse, refuse):
    func = parse(SUMS_OF_ROWS.replace("for i, k in T.grid(n, m)", "for k, i in T.grid(m, n)"))
    text = refuse(func, decompose(1))
    assert "loop k, outside of i, is bound to a reduction variable of block B" in text
    assert "help: give loop k, or one outside of it" in text


def test_a_loop_elsewhere_is_refused(parse, refuse):
    def steps(sch):
        sch.decompose_reduction(sch.get_block("C"), sch.get_loops(sch.get_block("B"))[1])

    assert "loop k is not around block C in its scope" in refuse(parse(NEIGHBOUR), steps)


def test_a_reduction_that_starts_again_is_refused(parse, refuse):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((6,), "float32"), B: T.Buffer((1,), "float32")):
    for again, k in T.grid(2, 6):
        with T.block("B"):
            vk = T.axis.reduce(6, k)
            with T.init():
                B[0] = T.float32(0)
            B[0] = B[0] + A[vk]
""")
    text = refuse(func, decompose(0))
    assert "may reach one point of block B twice, which would start its reduction again" in text


def test_a_start_that_is_no_first_iteration_is_refused(parse, refuse):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((6,), "float32"), B: T.Buffer((1,), "float32")):
    for k in range(6):
        with T.block("B"):
            vk = T.axis.reduce(6, 5 - k)
            with T.init():
                B[0] = T.float32(0)
            B[0] = B[0] + A[vk]
""")
    text = refuse(func, decompose(0))
    assert "variable vk of block B is 5 - k, which need not be 0 in the first iterations of its loops" in text


CONDITION = """
@T.prim_func
def main(A: T.Buffer((4, 6), "float32"), B: T.Buffer((4,), "float32"), n: T.int32):
    for i, k in T.grid(4, 6):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.where(i + k >= n)
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
"""


def test_a_condition_on_both_kinds_of_loops_is_that_of_the_first_iteration(parse, check):
    after = check(parse(CONDITION), decompose(0))
    assert "T.where(i_init >= n)" in after.script().partition("B_update")[0]


def test_a_condition_that_may_fail_at_the_start_is_refused(parse, refuse):
    symbolic = CONDITION.replace("n: T.int32", "n: T.int32, m: T.int32").replace("grid(4, 6)", "grid(4, m)")
    text = refuse(parse(symbolic.replace("reduce(6", "reduce(m")), decompose(0))
    assert "the condition i + k >= n of block B may fail where its reduction starts" in text
    fused = CONDITION.replace("for i, k in T.grid(4, 6)", "for f in range(24)").replace("i + k >= n", "f >= n")
    fused = fused.replace(
        'vi, vk = T.axis.remap("SR", [i, k])',
        """vi = T.axis.spatial(4, f // 6)
            vk = T.axis.reduce(6, f % 6)""",
    )
    text = refuse(parse(fused), decompose(0))
    assert "the condition f >= n of block B may fail where its reduction starts" in text


def test_an_init_that_reads_what_is_written_inside_is_refused(parse, refuse):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((4, 6), "float32"), B: T.Buffer((4,), "float32"), D: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("D"):
            vi = T.axis.spatial(4, i)
            D[vi] = A[vi, 0]
        for k in range(6):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = D[vi]
                B[vi] = B[vi] + A[vi, vk]
""")
    text = refuse(func, decompose(0))
    assert "the init of block B reads buffer D, which block D writes inside of loop i" in text


def test_an_init_that_reads_what_a_loose_statement_writes_is_refused(parse, refuse):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((4, 6), "float32"), B: T.Buffer((4,), "float32"), D: T.Buffer((4,), "float32")):
    for i in range(4):
        D[i] = A[i, 0]
        for k in range(6):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = D[vi]
                B[vi] = B[vi] + A[vi, vk]
""")
    text = refuse(func, decompose(0))
    assert "the init of block B reads buffer D, which a statement outside of blocks uses" in text
