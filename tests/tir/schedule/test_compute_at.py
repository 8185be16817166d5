"""compute_at: a producer computes, in an iteration of a loop of its consumers, what they read there."""

from __future__ import annotations

import pytest
from schedule_programs import PRODUCT_AND_CONSUMER

HALO = """
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n + 2,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    P = T.alloc_buffer((n + 2,), "float32")
    for i in range(n + 2):
        with T.block("P"):
            vi = T.axis.spatial(n + 2, i)
            P[vi] = A[vi] + T.float32(1)
    for i in range(n):
        with T.block("B"):
            vi = T.axis.spatial(n, i)
            B[vi] = P[vi] * P[vi + 2]
"""

SUMS_OVER_HALO = """
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n + 2, 3), "float32")
    B = T.match_buffer(b, (n,), "float32")
    P = T.alloc_buffer((n + 2,), "float32")
    for i, k in T.grid(n + 2, 3):
        with T.block("P"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                P[vi] = T.float32(0)
            P[vi] = P[vi] + A[vi, vk]
    for i in range(n):
        with T.block("B"):
            vi = T.axis.spatial(n, i)
            B[vi] = P[vi] * P[vi + 2]
"""
CHAIN = """
@T.prim_func
def main(A: T.Buffer((16, 16), "float32"), D: T.Buffer((16, 16), "float32"), E: T.Buffer((16, 16), "float32")):
    B = T.alloc_buffer((16, 16), "float32")
    C = T.alloc_buffer((16, 16), "float32")
    for i, j in T.grid(16, 16):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(16, 16):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + T.float32(1)
    for i in range(16):
        for j in range(16):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = C[vi, vj] - B[15 - vi, vj]
        for j in range(16):
            with T.block("E"):
                vi, vj = T.axis.remap("SS", [i, j])
                E[vi, vj] = C[vi, 15 - vj]
"""


def at(consumer, number, tile=None, block="P", **options):
    """compute_at of a block under a loop of its consumer, which is split first if `tile` is given."""

    def steps(sch):
        loop = sch.get_loops(sch.get_block(consumer))[number]
        if tile is not None:
            loop, _ = sch.split(loop, [None, tile])
        sch.compute_at(sch.get_block(block), loop, **options)

    return steps


def test_a_halo_is_computed_again_in_each_tile(parse, check):
    expected = parse("""
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n + 2,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    P = T.alloc_buffer((n + 2,), "float32")
    for i_0 in range((n + 3) // 4):
        for ax0 in range(T.int64(6)):
            with T.block("P"):
                vi = T.axis.spatial(n + 2, i_0 * 4 + ax0)
                T.where(i_0 * 4 + ax0 < n + 2)
                P[vi] = A[vi] + T.float32(1)
        for i_1 in range(T.int64(4)):
            with T.block("B"):
                vi = T.axis.spatial(n, i_0 * 4 + i_1)
                T.where(i_0 * 4 + i_1 < n)
                B[vi] = P[vi] * P[vi + 2]
""")
    check(parse(HALO), at("B", 0, 4), expected)


def test_it_may_move_further_inside_again(parse, check):
    def steps(sch):
        outer, inner = sch.split(sch.get_loops(sch.get_block("B"))[0], [None, 4])
        sch.compute_at(sch.get_block("P"), outer)
        sch.compute_at(sch.get_block("P"), inner)

    after = check(parse(HALO), steps)
    assert "for ax0 in range(T.int64(3))" in after.script()


def test_a_reduction_sums_up_all_of_its_steps_there(parse, check):
    after = check(parse(PRODUCT_AND_CONSUMER), at("C", 0, 4))
    assert "for ax0, ax1, ax2 in T.grid(T.int64(4), 3, m)" in after.script()
    check(parse(PRODUCT_AND_CONSUMER), at("C", 1))


def test_unit_loops_are_kept_if_asked_for(parse, check):
    after = check(parse(PRODUCT_AND_CONSUMER), at("C", 1, preserve_unit_loops=True))
    assert "T.grid(T.int64(1), 1, m)" in after.script()
    after = check(parse(PRODUCT_AND_CONSUMER), at("C", 1))
    assert 'T.axis.remap("SSR", [i, j, ax0])' in after.script()


def test_a_box_holds_what_all_consumers_read(parse, check):
    after = check(parse(CHAIN), at("D", 0, block="C"))
    assert after.script().count("for ax0 in range(16)") == 1


def test_producers_follow_their_consumers(parse, check):
    def steps(sch):
        i, _ = sch.get_loops(sch.get_block("D"))
        sch.compute_at(sch.get_block("C"), i)
        sch.compute_at(sch.get_block("B"), i, index=0)

    check(parse(CHAIN), steps)


@pytest.mark.parametrize(("index", "place"), [(-1, 1), (-2, 0), (0, 0), (1, 1)])
def test_index_is_the_place_among_the_statements(parse, check, index, place):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    P = T.alloc_buffer((8,), "float32")
    for i in range(8):
        with T.block("P"):
            vi = T.axis.spatial(8, i)
            P[vi] = A[vi] * T.float32(2)
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = P[vi]
""")
    after = check(func, at("C", 0, index=index))
    text = after.script()
    names = sorted("BPC", key=lambda name: text.index(f'T.block("{name}")'))
    assert names.index("P") == place


@pytest.mark.parametrize(
    ("size", "write", "read"),
    [
        ("64", "P[vi]", "P[vj * 2] + P[vj * 2 + 1]"),
        ("64", "P[vi]", "P[vj * 3]"),
        ("64", "P[vi]", "P[63 - vj]"),
        ("16, 4", "P[vi // 4, vi % 4]", "P[vj // 4, vj % 4]"),
        ("66", "P[vi + 2]", "P[vj + 2] + P[vj + 5]"),
        ("64", "P[63 - vi]", "P[vj]"),
        ("64", "P[vi]", "P[T.min(vj, 7) + T.max(vj - 3, 0)]"),
        ("64", "P[vi]", "P[vj * vj % 64]"),
    ],
)
def test_indices_of_many_kinds(parse, check, size, write, read):
    func = parse(f"""
@T.prim_func
def main(A: T.Buffer((64,), "float32"), B: T.Buffer((20,), "float32")):
    P = T.alloc_buffer(({size},), "float32")
    for i in range(64):
        with T.block("P"):
            vi = T.axis.spatial(64, i)
            {write} = A[vi] * T.float32(3)
    for j in range(20):
        with T.block("B"):
            vj = T.axis.spatial(20, j)
            B[vj] = {read}
""")
    check(func, at("B", 0))
    check(func, at("B", 0, 6))


def test_fused_loops(parse, check):
    func = parse("""
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, 8), "float32")
    B = T.match_buffer(b, (n, 8), "float32")
    P = T.alloc_buffer((n, 8), "float32")
    for f in range(n * 8):
        with T.block("P"):
            vi = T.axis.spatial(n, f // 8)
            vj = T.axis.spatial(8, f % 8)
            P[vi, vj] = A[vi, vj] * T.float32(2)
    for f in range(n * 8):
        with T.block("B"):
            vi = T.axis.spatial(n, f // 8)
            vj = T.axis.spatial(8, f % 8)
            B[vi, vj] = P[vi, vj] + T.float32(1)
""")
    check(func, at("B", 0))
    check(func, at("B", 0, 6))


def test_inside_of_a_block(parse, check):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
    for i in range(4):
        with T.block("outer"):
            vi = T.axis.spatial(4, i)
            P = T.alloc_buffer((8,), "float32")
            for j in range(8):
                with T.block("P"):
                    vj = T.axis.spatial(8, j)
                    P[vj] = A[vi, vj] * T.float32(2)
            for j in range(8):
                with T.block("B"):
                    vj = T.axis.spatial(8, j)
                    B[vi, vj] = P[7 - vj]
""")
    check(func, at("B", 0))


def test_parallel_loops_stay_parallel(parse, check, refuse):
    def tile(sch):
        outer, _ = sch.split(sch.get_loops(sch.get_block("B"))[0], [None, 4])
        sch.parallel(outer)

    def both(sch):
        tile(sch)
        at("B", 0)(sch)

    check(parse(HALO), both)
    text = refuse(parse(SUMS_OVER_HALO), tile, at("B", 0))
    assert "block P may touch elements of P that block P writes in another iteration of loop i_0" in text


def test_structure_is_refused(parse, refuse):
    func = parse(CHAIN)
    text = refuse(func, at("D", 0, block="D"))
    assert "loop i is around block D already" in text
    text = refuse(func, at("D", 1, block="C"))
    assert "block E, which reads what block C writes, is not below loop j" in text
    assert "move the other consumers below this one first" in text
    text = refuse(func, at("C", 0, block="D"))
    assert "block D is an output block: its scope does not allocate buffer D" in text
    text = refuse(func, at("C", 0, block="B"))
    assert "block D, which reads what block B writes, is not below loop i" in text
    text = refuse(func, at("D", 0, block="C", index=3))
    assert "index must be one of the places 0 to 0" in text
    assert "found 3" in text


def test_a_block_without_consumers_is_refused(parse, refuse):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    P = T.alloc_buffer((8,), "float32")
    for i in range(8):
        with T.block("P"):
            vi = T.axis.spatial(8, i)
            P[vi] = A[vi]
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
""")
    assert "block P has no consumers" in refuse(func, at("B", 0))


def test_other_scopes_are_refused(parse, refuse):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
    P = T.alloc_buffer((4, 8), "float32")
    for i, j in T.grid(4, 8):
        with T.block("P"):
            vi, vj = T.axis.remap("SS", [i, j])
            P[vi, vj] = A[vi, vj]
    for i in range(4):
        with T.block("outer"):
            vi = T.axis.spatial(4, i)
            for j in range(8):
                with T.block("B"):
                    vj = T.axis.spatial(8, j)
                    B[vi, vj] = P[vi, vj]
""")
    assert "block P and loop j are not in the same scope" in refuse(func, at("B", 0))


def test_blocks_that_cannot_move_are_refused(parse, refuse):
    def program(body, loops="for i in range(8):", P=8):
        return parse(f"""
@T.prim_func
def main(A: T.Buffer((16,), "float32"), B: T.Buffer((8,), "float32")):
    P = T.alloc_buffer(({P},), "float32")
    {loops}
        with T.block("P"):
            {body}
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = P[vi]
""")

    text = refuse(program("vi = T.axis.spatial(8, i)\n            P[0] = A[vi]"), at("B", 0))
    assert "block P is neither complete nor a reduction block" in text
    text = refuse(program("vi = T.axis.spatial(8, i)\n            P[vi] = A[i]"), at("B", 0))
    assert "its body uses the loop variable i itself" in text
    text = refuse(program("vi = T.axis.spatial(4, i)\n            P[vi] = A[vi]"), at("B", 0))
    assert "block P may be run for values outside of the domains of its variables" in text
    text = refuse(
        program("vi = T.axis.spatial(8, i)\n            T.where(i < 4)\n            P[vi] = A[vi + 12]"), at("B", 0)
    )
    assert "block P may not run over the whole of its variables' domains" in text
    text = refuse(
        program("vi = T.axis.spatial(8, i)\n            P[vi] = A[vi]", "for i in range(8):\n      if i < 7:"),
        at("B", 0),
    )
    assert "block P stands below a statement that is no loop" in text


def test_a_sum_that_is_added_twice_is_refused(parse, refuse):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8,), "float32")):
    P = T.alloc_buffer((8,), "float32")
    for i, k, t in T.grid(8, 4, 2):
        with T.block("P"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                P[vi] = T.float32(0)
            P[vi] = P[vi] + A[vi, vk]
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = P[vi]
""")
    assert "it may add a step of its sum several times" in refuse(func, at("B", 0))


def test_a_block_does_not_move_past_writers_of_what_it_reads(parse, refuse):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    P = T.alloc_buffer((8,), "float32")
    for i in range(8):
        with T.block("P"):
            vi = T.axis.spatial(8, i)
            P[vi] = A[vi] * T.float32(2)
    for i in range(8):
        with T.block("A"):
            vi = T.axis.spatial(8, i)
            A[vi] = T.float32(0)
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = P[vi]
""")
    assert "block P would move past block A, which writes what it reads" in refuse(func, at("B", 0))


def test_in_place_consumers_are_refused(parse, refuse):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((9,), "float32")):
    P = T.alloc_buffer((8,), "float32")
    for i in range(8):
        with T.block("P"):
            vi = T.axis.spatial(8, i)
            P[vi] = A[vi] + A[vi + 1]
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            A[vi + 1] = P[vi]
""")
    text = refuse(func, at("B", 0))
    assert "block P reads elements of buffer A that block B, behind it in the same loops, overwrites" in text


def test_readers_in_front_of_the_block_are_refused(parse, refuse):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    P = T.alloc_buffer((8,), "float32")
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = P[7 - vi]
        with T.block("P"):
            vi = T.axis.spatial(8, i)
            P[vi] = A[vi]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = P[vi]
""")
    assert "block B reads buffer P before block P writes it" in refuse(func, at("C", 0))


def test_a_region_that_is_not_covered_is_refused(parse, refuse):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    P = T.alloc_buffer((8, 8), "float32")
    for i in range(8):
        for j in range(8):
            with T.block("P"):
                vi, vj = T.axis.remap("SS", [i, j])
                P[vi, vj] = A[vi, vj]
        for j in range(8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = P[7 - vi, vj]
""")
    text = refuse(func, at("B", 1))
    assert "block B may read elements of buffer P that block P has not written before in the same iterations" in text


def test_a_sum_over_a_halo_moves_twice(parse, check):
    def steps(sch):
        outer, inner = sch.split(sch.get_loops(sch.get_block("B"))[0], [None, 4])
        sch.compute_at(sch.get_block("P"), outer)
        sch.compute_at(sch.get_block("P"), inner)

    check(parse(SUMS_OVER_HALO), steps)


BLOCKS = """
@T.prim_func
def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    P = T.alloc_buffer((64,), "float32")
    for i in range(4):
        with T.block("P"):
            vi = T.axis.spatial(4, i)
            for j in range(16):
                with T.block("inner"):
                    vj = T.axis.spatial(16, j)
                    P[vi * 16 + vj] = A[vi * 16 + vj] * T.float32(2)
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            for j in range(16):
                with T.block("inner_1"):
                    vj = T.axis.spatial(16, j)
                    B[vi * 16 + vj] = P[63 - vi * 16 - vj]
"""


def test_blocks_of_blocks_move_as_wholes(parse, check):
    check(parse(BLOCKS), at("B", 0))

    def back(sch):
        sch.reverse_compute_at(sch.get_block("B"), sch.get_loops(sch.get_block("P"))[0])

    check(parse(BLOCKS), back)


def test_several_results(parse, check):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((9, 5), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((8,), "int32")):
    V = T.alloc_buffer((9,), "float32")
    I = T.alloc_buffer((9,), "int32")
    for i, k in T.grid(9, 5):
        with T.block("P"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                V[vi] = T.float32(-100)
                I[vi] = -1
            I[vi] = T.Select(A[vi, vk] > V[vi], vk, I[vi])
            V[vi] = T.max(V[vi], A[vi, vk])
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = V[vi]
            C[vi] = I[vi + 1]
""")
    check(func, at("B", 0))
    check(func, at("B", 0, 3))
