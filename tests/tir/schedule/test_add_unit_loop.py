"""add_unit_loop: a loop of one iteration around a block or loop."""

from __future__ import annotations

SCALAR = """
@T.prim_func
def main(A: T.Buffer((), "int32"), B: T.Buffer((), "int32")):
    with T.block("root"):
        with T.block("B"):
            B[()] = A[()] + 1
"""
LOOP = """
@T.prim_func
def main(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[vi] + 1
"""


def test_around_a_block(parse, check):
    expected = parse("""
@T.prim_func
def main(A: T.Buffer((), "int32"), B: T.Buffer((), "int32")):
    for u in range(1):
        with T.block("B"):
            B[()] = A[()] + 1
""")
    check(parse(SCALAR), lambda sch: sch.add_unit_loop(sch.get_block("B")), expected)


def test_around_a_loop_and_a_block_in_loops(parse, check):
    def steps(sch):
        (i,) = sch.get_loops(sch.get_block("B"))
        outer = sch.add_unit_loop(i)
        inner = sch.add_unit_loop(sch.get_block("B"))
        sch.parallel(outer)
        sch.unroll(inner)
        sch.reorder(i, outer)

    after = check(parse(LOOP), steps)
    assert "T.unroll(1)" in after.script()


def test_not_around_the_root(parse, refuse):
    text = refuse(parse(LOOP), lambda sch: sch.add_unit_loop(sch.get_block("root")))
    assert "add_unit_loop: no loop can stand around the root block" in text
    assert "must be a block or a loop, found 3" in refuse(parse(LOOP), lambda sch: sch.add_unit_loop(3))
