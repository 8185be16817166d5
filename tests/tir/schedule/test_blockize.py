"""blockize: inner loops with their block, or several blocks, become one block."""

from __future__ import annotations

import pytest
from schedule_programs import PLUS_ONE, SUMS_OF_ROWS

ELEMENTWISE = """
@T.prim_func
def main(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    for i, j in T.grid(8, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
"""
MATMUL = """
@T.prim_func
def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((8, 4), "float32"), C: T.Buffer((4, 4), "float32")):
    for i, j, k in T.grid(4, 4, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""


def loop(block, position, **options):
    """Blockize a loop around a block, by its place from outside."""

    def steps(sch):
        return sch.blockize(sch.get_loops(sch.get_block(block))[position], **options)

    return steps


def test_inner_loops_become_a_block(parse, check):
    expected = parse("""
@T.prim_func
def main(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    for i, j_0 in T.grid(8, 2):
        with T.block("B_o"):
            vi, vj_o = T.axis.remap("SS", [i, j_0])
            T.reads(A[vi, vj_o * 4 : vj_o * 4 + 4])
            T.writes(B[vi, vj_o * 4 : vj_o * 4 + 4])
            for j_1 in range(4):
                with T.block("B"):
                    vj_i = T.axis.spatial(4, j_1)
                    B[vi, vj_o * 4 + vj_i] = A[vi, vj_o * 4 + vj_i] * T.float32(2)
""")

    def steps(sch):
        block = sch.get_block("B")
        _, inner = sch.split(sch.get_loops(block)[1], [2, 4])
        outer = sch.blockize(inner)
        assert sch.get(outer).name_hint == "B_o"
        assert [item.var.name for item in sch.get_loops(outer)] == ["i", "j_0"]
        assert [item.var.name for item in sch.get_loops(block)] == ["j_1"]

    check(parse(ELEMENTWISE), steps, expected)


@pytest.mark.parametrize("position", [0, 1])
@pytest.mark.parametrize("preserve", [True, False])
def test_any_loop(parse, check, position, preserve):
    after = check(parse(ELEMENTWISE), loop("B", position, preserve_unit_iters=preserve))
    units = "T.axis.spatial(1, 0)" in after.script()
    assert units is preserve


def test_a_reduction_starts_in_the_new_block(parse, check):
    expected = parse("""
@T.prim_func
def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((8, 4), "float32"), C: T.Buffer((4, 4), "float32")):
    for i, k_0 in T.grid(4, 2):
        with T.block("C_o"):
            vi, vk_o = T.axis.remap("SR", [i, k_0])
            T.reads(A[vi, vk_o * 4 : vk_o * 4 + 4], B[vk_o * 4 : vk_o * 4 + 4, 0:4])
            T.writes(C[vi, 0:4])
            with T.init():
                for j in range(4):
                    with T.block("C_init"):
                        vj_i = T.axis.spatial(4, j)
                        C[vi, vj_i] = T.float32(0)
            for j, k_1 in T.grid(4, 4):
                with T.block("C"):
                    vj_i, vk_i = T.axis.remap("SR", [j, k_1])
                    C[vi, vj_i] = C[vi, vj_i] + A[vi, vk_o * 4 + vk_i] * B[vk_o * 4 + vk_i, vj_i]
""")
    func = parse("""
@T.prim_func
def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((8, 4), "float32"), C: T.Buffer((4, 4), "float32")):
    for i, k_0, j, k_1 in T.grid(4, 2, 4, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            vk = T.axis.reduce(8, k_0 * 4 + k_1)
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
""")
    check(func, loop("C", 2, preserve_unit_iters=False), expected)


@pytest.mark.parametrize("position", [0, 1, 2])
@pytest.mark.parametrize("preserve", [True, False])
def test_a_whole_reduction_inside_keeps_its_init(parse, check, position, preserve):
    after = check(parse(MATMUL), loop("C", position, preserve_unit_iters=preserve))
    assert ('T.block("C_init")' in after.script()) is preserve


def test_nested_blocks(parse, check):
    def steps(sch):
        block = sch.get_block("C")
        _, inner = sch.split(sch.get_loops(block)[2], [None, 2])
        outer = sch.blockize(inner)
        sch.blockize(sch.get_loops(outer)[1])
        assert [item.var.name for item in sch.get_loops(outer)] == ["j", "k_0"]

    after = check(parse(MATMUL), steps)
    assert 'T.block("C_o_o")' in after.script()


def test_the_new_block_is_decomposed(parse, check):
    def steps(sch):
        block = sch.get_block("C")
        outer_loop, inner = sch.split(sch.get_loops(block)[2], [None, 2])
        outer = sch.blockize(inner)
        init = sch.decompose_reduction(outer, outer_loop)
        assert sch.get(init).name_hint == "C_o_init"
        assert sch.get(outer).name_hint == "C_o_update"
        assert sch.get_child_blocks(init)[0].name == "C_init"

    check(parse(MATMUL), steps)


def test_symbolic_sizes_with_a_condition_inside(parse, check):
    def steps(sch):
        _, inner = sch.split(sch.get_loops(sch.get_block("B"))[0], [None, 4])
        sch.blockize(inner)

    after = check(parse(PLUS_ONE), steps)
    assert "T.where(vi_o * 4 + i_1 < n)" in after.script()


@pytest.mark.parametrize("position", [0, 1, 2, 3])
def test_a_condition_on_the_reduction_is_dropped_from_the_init(parse, check, position):
    func = parse("""
@T.prim_func
def main(a: T.handle, b: T.handle):
    n, m = T.int64(), T.int64()
    A = T.match_buffer(a, (n, m), "float32")
    B = T.match_buffer(b, (n,), "float32")
    for i_0, k_0, i_1, k_1 in T.grid((n + 1) // 2, (m + 3) // 4, T.int64(2), T.int64(4)):
        with T.block("B"):
            vi = T.axis.spatial(n, i_0 * 2 + i_1)
            vk = T.axis.reduce(m, k_0 * 4 + k_1)
            T.where(i_0 * 2 + i_1 < n and k_0 * 4 + k_1 < m)
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
""")
    after = check(func, loop("B", position))
    init = after.script().partition('T.block("B_init")')[2].partition("B[vi")[0]
    assert "< m" not in init


@pytest.mark.parametrize("factors", [(4, None), (3, None), (None, 3)])
@pytest.mark.parametrize("position", [0, 1, 2])
def test_tiles_whose_size_is_symbolic(parse, check, factors, position):
    func = parse(SUMS_OF_ROWS)

    def steps(sch):
        sch.split(sch.get_loops(sch.get_block("B"))[1], list(factors))
        loop("B", position)(sch)

    check(func, steps, sizes=(0, 1, 5))


def test_a_list_of_blocks(parse, check):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((4, 6), "float32"), B: T.Buffer((4, 6), "float32"), C: T.Buffer((4, 6), "float32")):
    for i in range(4):
        for j in range(6):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for j in range(6):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, 5 - vj] + T.float32(1)
""")
    expected = parse("""
@T.prim_func
def main(A: T.Buffer((4, 6), "float32"), B: T.Buffer((4, 6), "float32"), C: T.Buffer((4, 6), "float32")):
    for i in range(4):
        with T.block("outer_B_C_"):
            vi = T.axis.spatial(4, i)
            T.reads(A[vi, 0:6], B[vi, 0:6])
            T.writes(B[vi, 0:6], C[vi, 0:6])
            for j in range(6):
                with T.block("B"):
                    vj = T.axis.spatial(6, j)
                    B[vi, vj] = A[vi, vj] * T.float32(2)
            for j in range(6):
                with T.block("C"):
                    vj = T.axis.spatial(6, j)
                    C[vi, vj] = B[vi, 5 - vj] + T.float32(1)
""")

    def steps(sch):
        outer = sch.blockize([sch.get_block("B"), sch.get_block("C")])
        assert [item.var.name for item in sch.get_loops(outer)] == ["i"]
        assert [item.name for item in sch.get_child_blocks(outer)] == ["B", "C"]

    check(func, steps, expected)


def test_a_condition_of_one_block_is_not_that_of_the_others(parse, check):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            T.where(i < 3)
            B[vi] = A[vi] * T.float32(2)
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = A[vi] + T.float32(1)
""")
    after = check(func, lambda sch: sch.blockize([sch.get_block("B"), sch.get_block("C")]))
    assert "T.where(vi < 3)" in after.script().partition('T.block("B")')[2]


TWO = """
@T.prim_func
def main(A: T.Buffer((6,), "float32"), B: T.Buffer((6,), "float32"), C: T.Buffer((6,), "float32")):
    for i in range(6):
        with T.block("B"):
            vi = T.axis.spatial(6, i)
            B[vi] = A[vi] * T.float32(2)
    for i in range(6):
        with T.block("C"):
            vi = T.axis.spatial(6, i)
            C[vi] = B[5 - vi]
"""


def test_blocks_of_nests_of_their_own(parse, check, refuse):
    check(parse(TWO), lambda sch: sch.blockize([sch.get_block("B"), sch.get_block("C")]))
    text = refuse(parse(TWO), lambda sch: sch.blockize([sch.get_block("C"), sch.get_block("B")]))
    assert "the blocks do not stand directly behind each other, in this order" in text
    assert "target must be a loop, or a list of one block or more" in refuse(parse(TWO), lambda sch: sch.blockize([]))


def test_a_loop_with_two_blocks_is_refused(parse, refuse):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((6,), "float32"), B: T.Buffer((6,), "float32"), C: T.Buffer((6,), "float32")):
    for i in range(6):
        with T.block("B"):
            vi = T.axis.spatial(6, i)
            B[vi] = A[vi] * T.float32(2)
        with T.block("C"):
            vi = T.axis.spatial(6, i)
            C[vi] = B[vi]
""")
    text = refuse(func, loop("B", 0))
    assert "loop i has more inside than loops and one block" in text
    assert "help: give a loop further inside, or the blocks as a list" in text


def test_parts_that_overlap_are_refused(parse, refuse):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((12,), "float32"), B: T.Buffer((12,), "float32")):
    for i, j in T.grid(4, 4):
        with T.block("B"):
            vi = T.axis.spatial(12, i * 3 + j)
            T.where(i * 3 + j < 12)
            B[vi] = A[vi]
""")
    text = refuse(func, loop("B", 1))
    assert "the variables of block B cannot be divided into parts of outer and of inner loops: " in text
    assert "help: split the loops so that the inner ones cover whole tiles" in text


def test_a_reduction_that_never_starts_is_refused(parse, refuse):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((10,), "float32"), B: T.Buffer((1,), "float32")):
    for k_0, k_1 in T.grid(2, 4):
        with T.block("B"):
            vk = T.axis.reduce(10, k_0 * 4 + k_1 + 2)
            with T.init():
                B[0] = T.float32(0)
            B[0] = B[0] + A[vk]
""")
    text = refuse(func, loop("B", 1))
    assert "variable vk of block B is 2 where its loops begin, which need not be the start 0 of its domain" in text


def test_inner_loops_outside_are_refused(parse, refuse):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((12,), "float32"), B: T.Buffer((12,), "float32")):
    for j, i in T.grid(4, 3):
        with T.block("B"):
            vi = T.axis.spatial(12, i * 4 + j)
            B[vi] = A[vi]
""")
    assert "inner iterators stand above outer ones" in refuse(func, loop("B", 1))


def test_a_condition_on_outer_loops_alone_stays_outside(parse, check, refuse):
    text = """
@T.prim_func
def main(A: T.Buffer((6, 8), "float32"), B: T.Buffer((6, 8), "float32")):
    for i_0, i_1, j in T.grid(2, 4, 8):
        with T.block("B"):
            vi = T.axis.spatial(6, i_0 * 4 + i_1)
            vj = T.axis.spatial(8, j)
            T.where(i_0 * 4 + i_1 < 6)
            B[vi, vj] = A[vi, vj]
"""
    after = check(parse(text), loop("B", 2))
    assert "T.where(i_0 * 4 + i_1 < 6)" in after.script().partition('T.block("B")')[0]
    mixed = text.replace("i_0 * 4 + i_1 < 6)", "i_0 * 4 + i_1 < 6 and i_1 + j < 9)")
    assert "the sum that the predicate i_1 + j < 9 bounds" in refuse(parse(mixed), loop("B", 2))


def test_a_list_around_which_a_reduction_runs_is_refused(parse, refuse):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((6, 4), "float32"), B: T.Buffer((4,), "float32"), C: T.Buffer((6, 4), "float32")):
    for k in range(6):
        for i in range(4):
            with T.block("C"):
                vk, vi = T.axis.remap("SS", [k, i])
                C[vk, vi] = A[vk, vi]
        for i in range(4):
            with T.block("B"):
                vk, vi = T.axis.remap("RS", [k, i])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + C[vk, vi]
""")
    text = refuse(func, lambda sch: sch.blockize([sch.get_block("C"), sch.get_block("B")]))
    assert "a loop around all of the blocks is bound to a reduction variable" in text
