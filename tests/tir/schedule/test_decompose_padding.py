"""decompose_padding: a block that pads becomes one that fills, and one that writes what is inside."""

from __future__ import annotations

import pytest


def program(value, size="n + 2", source="n", extra=""):
    return f"""
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, ({source}, 4), "float32")
    B = T.match_buffer(b, ({size}, 6), "float32")
    for i, j in T.grid({size}, T.int64(6)):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            {extra}
            B[vi, vj] = {value}
"""


PAD = program("T.if_then_else(1 <= vi and vi < n + 1 and 2 <= vj, A[vi - 1, vj - 2], T.float32(3))")


def decompose(number, **options):
    def steps(sch):
        block = sch.get_block("B")
        filling = sch.decompose_padding(block, sch.get_loops(block)[number])
        assert sch.get(filling).name_hint == "B_pad_const"

    return steps


def test_padding_on_all_sides(parse, check):
    expected = parse("""
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, 4), "float32")
    B = T.match_buffer(b, (n + 2, 6), "float32")
    for i, j in T.grid(n + 2, T.int64(6)):
        with T.block("B_pad_const"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = T.float32(3)
    for i, j in T.grid(n, T.int64(4)):
        with T.block("B"):
            vi = T.axis.spatial(n + 2, i + 1)
            vj = T.axis.spatial(T.int64(6), j + 2)
            B[vi, vj] = A[vi - 1, vj - 2]
""")
    check(parse(PAD), decompose(0), expected)


def test_in_front_of_an_inner_loop(parse, check):
    after = check(parse(PAD), decompose(1))
    assert "T.where(1 <= i and i <= n)" in after.script()


@pytest.mark.parametrize(
    "value",
    [
        "T.if_then_else(vi < n and vj < 4, A[vi, vj], T.float32(0))",
        "T.if_then_else(vi > 0 and vi <= n and vj < 4, A[vi - 1, vj], T.float32(0))",
        "T.if_then_else(0 <= vi - 2 and 4 - vj > 0, A[vi - 2, vj], T.float32(1))",
        "T.if_then_else(vi % 2 == 0 and vi < n and vj < 4, A[vi, vj], T.float32(1))",
        "T.if_then_else(vi + vj < n and vj < 4, A[vi, vj], T.float32(1))",
    ],
)
def test_conditions_of_many_kinds(parse, check, value):
    for number in (0, 1):
        check(parse(program(value)), decompose(number))


def test_loops_that_are_split_or_fused(parse, check):
    def steps(sch):
        i, _ = sch.get_loops(sch.get_block("B"))
        sch.split(i, [None, 4])
        decompose(0)(sch)

    check(parse(PAD), steps)


def test_the_padding_may_go_before_its_consumer(parse, check):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32")):
    B = T.alloc_buffer((18,), "float32")
    for i in range(18):
        with T.block("B"):
            vi = T.axis.spatial(18, i)
            B[vi] = T.if_then_else(1 <= vi and vi < 17, A[vi - 1], T.float32(0))
    for i in range(16):
        with T.block("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = B[vi] + B[vi + 1] + B[vi + 2]
""")

    def steps(sch):
        outer, _ = sch.split(*sch.get_loops(sch.get_block("C")), [None, 4])
        sch.compute_at(sch.get_block("B"), outer)
        decompose(1)(sch)

    check(func, steps)


def test_refusals(parse, refuse):
    text = refuse(parse(program("A[vi - 1, vj]", "n")), decompose(0))
    assert "block B does not write a padded value" in text
    text = refuse(parse(program("T.if_then_else(vi < n and vj < 4, A[vi, vj], A[0, 0])")), decompose(0))
    assert "block B does not write a padded value" in text
    text = refuse(parse(program("T.if_then_else(vi < n, B[vi, vj], T.float32(0))")), decompose(0))
    assert "block B is not complete" in text
    func = parse("""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((9,), "float32"), C: T.Buffer((9,), "float32")):
    for i in range(9):
        with T.block("B"):
            vi = T.axis.spatial(9, i)
            B[vi] = T.if_then_else(vi < 8, A[vi], T.float32(0))
        with T.block("C"):
            vi = T.axis.spatial(9, i)
            C[vi] = B[vi]
""")
    assert "loop i has something else in it than block B" in refuse(func, decompose(0))
    two = parse("""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((9,), "float32"), C: T.Buffer((9,), "float32")):
    for i in range(9):
        with T.block("B"):
            vi = T.axis.spatial(9, i)
            B[vi] = T.if_then_else(vi < 8, A[vi], T.float32(0))
    for i in range(9):
        with T.block("C"):
            vi = T.axis.spatial(9, i)
            C[vi] = B[vi]
""")

    def wrong_loop(sch):
        sch.decompose_padding(sch.get_block("B"), *sch.get_loops(sch.get_block("C")))

    assert "loop i is not around block B" in refuse(two, wrong_loop)
