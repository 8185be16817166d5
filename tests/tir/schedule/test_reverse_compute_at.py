"""reverse_compute_at: a consumer takes, in an iteration of a loop of its producers, what they have computed there."""

from __future__ import annotations

import pytest
from schedule_programs import PRODUCT_AND_CONSUMER

SIMPLE = """
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    P = T.alloc_buffer((n,), "float32")
    for i in range(n):
        with T.block("P"):
            vi = T.axis.spatial(n, i)
            P[vi] = A[vi] * T.float32(2)
    for i in range(n):
        with T.block("B"):
            vi = T.axis.spatial(n, i)
            B[vi] = P[vi] + T.float32(1)
"""


def at(producer, number, tile=None, block="B", **options):
    """reverse_compute_at of a block under a loop of its producer, which is split first if `tile` is given."""

    def steps(sch):
        loop = sch.get_loops(sch.get_block(producer))[number]
        if tile is not None:
            loop, _ = sch.split(loop, [None, tile])
        sch.reverse_compute_at(sch.get_block(block), loop, **options)

    return steps


def elementwise(read, shape="(16, 8)", write="P[vi, vj]", domain=(16, 8)):
    n, m = domain
    return f"""
@T.prim_func
def main(A: T.Buffer((16, 8), "float32"), B: T.Buffer(({n}, {m}), "float32")):
    P = T.alloc_buffer({shape}, "float32")
    for i, j in T.grid(16, 8):
        with T.block("P"):
            vi, vj = T.axis.remap("SS", [i, j])
            {write} = A[vi, vj] * T.float32(2)
    for i, j in T.grid({n}, {m}):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = {read}
"""


def test_a_tile_is_taken_where_it_was_computed(parse, check):
    expected = parse("""
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    P = T.alloc_buffer((n,), "float32")
    for i_0 in range((n + 3) // 4):
        for i_1 in range(T.int64(4)):
            with T.block("P"):
                vi = T.axis.spatial(n, i_0 * 4 + i_1)
                T.where(i_0 * 4 + i_1 < n)
                P[vi] = A[vi] * T.float32(2)
        for ax0 in range(T.int64(4)):
            with T.block("B"):
                vi = T.axis.spatial(n, i_0 * 4 + ax0)
                T.where(i_0 * 4 + ax0 < n)
                B[vi] = P[vi] + T.float32(1)
""")
    check(parse(SIMPLE), at("P", 0, 4), expected)


def test_an_epilogue_follows_a_reduction(parse, check):
    for number in (0, 1):
        check(parse(PRODUCT_AND_CONSUMER), at("P", number, block="C"))
    check(parse(PRODUCT_AND_CONSUMER), at("P", 0, 4, block="C"))


def test_a_sum_that_is_not_finished_is_refused(parse, refuse):
    text = refuse(parse(PRODUCT_AND_CONSUMER), at("P", 2, block="C"))
    assert "block C" in text
    static = PRODUCT_AND_CONSUMER.replace("m = T.int64()", "m = 4").replace("n = T.int64()", "n = 3")
    text = refuse(parse(static), at("P", 2, block="C"))
    assert (
        "block C may read elements of buffer P that block P has not written before in the same iterations of the "
        "loops around both" in text
    )


@pytest.mark.parametrize(
    ("program", "number"),
    [
        (elementwise("P[vi, vj]"), 1),
        (elementwise("P[vj, vi]", domain=(8, 16)), 0),
        (elementwise("P[15 - vi, vj]"), 0),
        (elementwise("P[vi, vj] + P[vi, 7 - vj]"), 0),
        (elementwise("P[vi * 2, vj] + P[vi * 2 + 1, vj]", domain=(8, 8)), 0),
        (elementwise("P[vi * 8 + vj]", shape="(128,)", write="P[vi * 8 + vj]"), 0),
        (elementwise("P[vi // 4, vi % 4, vj]", shape="(4, 4, 8)", write="P[vi // 4, vi % 4, vj]"), 0),
    ],
)
def test_indices_of_many_kinds(parse, check, refuse, program, number):
    if "vi * 2" in program:  # an iteration computes one row of the two
        assert "would not run for the same values" in refuse(parse(program), at("P", number))
        check(parse(program), at("P", number, 2))
    else:
        check(parse(program), at("P", number))


def test_a_row_that_is_summed_up(parse, check):
    func = parse("""
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, 8), "float32")
    B = T.match_buffer(b, (n,), "float32")
    P = T.alloc_buffer((n, 8), "float32")
    for i, j in T.grid(n, 8):
        with T.block("P"):
            vi, vj = T.axis.remap("SS", [i, j])
            P[vi, vj] = A[vi, vj] * A[vi, vj]
    for i, k in T.grid(n, 8):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + P[vi, vk]
""")
    check(func, at("P", 0))
    check(func, at("P", 0, 3))


def test_place_among_the_statements(parse, check, refuse):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    P = T.alloc_buffer((8,), "float32")
    for i in range(8):
        with T.block("P"):
            vi = T.axis.spatial(8, i)
            P[vi] = A[vi] * T.float32(2)
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = A[vi]
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = P[vi]
""")
    for index, order in ((-1, "PCB"), (-2, "PBC"), (1, "PBC"), (2, "PCB")):
        text = check(func, at("P", 0, index=index)).script()
        assert "".join(sorted("BPC", key=lambda name: text.index(f'T.block("{name}")'))) == order
    assert "index must be one of the places 1 to 2" in refuse(func, at("P", 0, index=0))


def test_what_comes_behind_still_reads_it(parse, check):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32"), C: T.Buffer((4, 8), "float32")):
    P = T.alloc_buffer((4, 8), "float32")
    for i in range(4):
        for j in range(8):
            with T.block("P"):
                vi, vj = T.axis.remap("SS", [i, j])
                P[vi, vj] = A[vi, vj] * T.float32(2)
        for j in range(8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = P[vi, vj] + T.float32(1)
        for j in range(8):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, 7 - vj]
""")
    check(func, at("P", 1))


def test_a_halo_is_refused(parse, refuse):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((9,), "float32"), B: T.Buffer((8,), "float32")):
    P = T.alloc_buffer((9,), "float32")
    for i in range(9):
        with T.block("P"):
            vi = T.axis.spatial(9, i)
            P[vi] = A[vi]
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = P[vi] + P[vi + 1]
""")
    text = refuse(func, at("P", 0))
    assert "block B would not run for the same values of its variables at the new place" in text
    assert "choose a loop further outside" in text


def test_refusals(parse, refuse):
    func = parse(PRODUCT_AND_CONSUMER)
    assert "loop i is around block C already" in refuse(func, at("C", 0, block="C"))
    assert "no block below loop i writes what block P reads" in refuse(func, at("C", 0, block="P"))
    broadcast = parse("""
@T.prim_func
def main(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8,), "float32")):
    P = T.alloc_buffer((8, 4), "float32")
    for j, i in T.grid(4, 8):
        with T.block("P"):
            vi, vj = T.axis.remap("SS", [i, j])
            P[vi, vj] = A[vi, vj]
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = P[vi, 0] + P[vi, 3]
""")
    text = refuse(broadcast, at("P", 0))
    assert "block B may read elements of buffer P that block P has not written before" in text


def test_a_writer_between_is_not_passed(parse, refuse):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    P = T.alloc_buffer((8,), "float32")
    Q = T.alloc_buffer((8,), "float32")
    for i in range(8):
        with T.block("P"):
            vi = T.axis.spatial(8, i)
            P[vi] = A[vi]
    for i in range(8):
        with T.block("Q"):
            vi = T.axis.spatial(8, i)
            Q[vi] = A[7 - vi]
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = P[vi] + Q[vi]
""")
    assert "block B would move past block Q, which writes what it reads" in refuse(func, at("P", 0))


def test_a_reader_in_front_is_refused(parse, refuse):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    P = T.alloc_buffer((8,), "float32")
    for i in range(8):
        with T.block("P"):
            vi = T.axis.spatial(8, i)
            P[vi] = A[vi]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi]
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = P[vi]
""")
    assert "block C reads buffer B before block B writes it" in refuse(func, at("P", 0))


def test_parts_of_an_output_are_refused(parse, refuse):
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
            T.where(i != 3)
            B[vi] = P[vi]
""")
    assert "block B would not run for the same values of its variables" in refuse(func, at("P", 0))


def test_parallel_loops_stay_parallel(parse, check, refuse):
    def tile(sch):
        outer, _ = sch.split(sch.get_loops(sch.get_block("P"))[0], [None, 4])
        sch.parallel(outer)

    def both(sch):
        tile(sch)
        at("P", 0)(sch)

    check(parse(SIMPLE), both)
