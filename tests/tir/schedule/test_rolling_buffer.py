"""rolling_buffer: a producer keeps what it computed in earlier iterations, in a buffer that is written around."""

from __future__ import annotations

ROWS = """
@T.prim_func
def main(a: T.handle, c: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n + 2, 10), "float32")
    C = T.match_buffer(c, (n, 8), "float32")
    B = T.alloc_buffer((n + 2, 10), "float32")
    for i, j in T.grid(n + 2, T.int64(10)):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(n, T.int64(8)):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + B[vi + 1, vj + 1] - B[vi + 2, vj + 2]
"""


def tile(factor):
    """Split the consumer's outermost loop, and compute the producer there."""

    def steps(sch):
        outer, _ = sch.split(sch.get_loops(sch.get_block("C"))[0], [None, factor])
        sch.compute_at(sch.get_block("B"), outer)

    return steps


def roll(sch):
    sch.rolling_buffer(sch.get_block("B"), 0)


def both(factor):
    def steps(sch):
        tile(factor)(sch)
        roll(sch)

    return steps


def test_rows_are_kept(parse, check):
    expected = parse("""
@T.prim_func
def main(a: T.handle, c: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n + 2, 10), "float32")
    C = T.match_buffer(c, (n, 8), "float32")
    B = T.alloc_buffer((6, 10), "float32")
    for i_0 in range((n + 3) // 4):
        for ax0, ax1 in T.grid(T.int64(6), T.int64(10)):
            with T.block("B"):
                vi = T.axis.spatial(n + 2, i_0 * 4 + ax0)
                vj = T.axis.spatial(T.int64(10), ax1)
                T.where(i_0 * 4 + ax0 < n + 2 and (i_0 < 1 or 2 <= ax0))
                B[vi % 6, vj] = A[vi, vj] * T.float32(2)
        for i_1, j in T.grid(T.int64(4), T.int64(8)):
            with T.block("C"):
                vi = T.axis.spatial(n, i_0 * 4 + i_1)
                vj = T.axis.spatial(T.int64(8), j)
                T.where(i_0 * 4 + i_1 < n)
                C[vi, vj] = B[vi % 6, vj] + B[(vi + 1) % 6, vj + 1] - B[(vi + 2) % 6, vj + 2]
""")
    check(parse(ROWS), both(4), expected)


def test_two_dimensions_overlap(parse, check):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((14, 10), "float32"), C: T.Buffer((12, 8), "float32")):
    B = T.alloc_buffer((14, 10), "float32")
    for i, j in T.grid(3, 4):
        for ax0, ax1 in T.grid(6, 4):
            with T.block("B"):
                vi = T.axis.spatial(14, i * 4 + ax0)
                vj = T.axis.spatial(10, j * 2 + ax1)
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for ax0, ax1 in T.grid(4, 2):
            with T.block("C"):
                vi = T.axis.spatial(12, i * 4 + ax0)
                vj = T.axis.spatial(8, j * 2 + ax1)
                C[vi, vj] = B[vi, vj] + B[vi + 1, vj + 1] - B[vi + 2, vj + 2]
""")
    after = check(func, roll)
    text = after.script()
    assert "B = T.alloc_buffer((6, 10))" in text
    assert "T.where((i < 1 or 2 <= ax0) and (j < 1 or 2 <= ax1))" in text


def test_a_reduction_is_kept_too(parse, check):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((18, 3), "float32"), C: T.Buffer((16,), "float32")):
    B = T.alloc_buffer((18,), "float32")
    for i, k in T.grid(18, 3):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
    for i in range(16):
        with T.block("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = B[vi] * B[vi + 2]
""")
    for factor in (1, 3, 4):
        check(func, both(factor))


def test_refusals(parse, refuse):
    func = parse(ROWS)
    assert "block B shares no loop with its consumers" in refuse(func, roll)
    assert "block C is an output block" in refuse(func, lambda sch: sch.rolling_buffer(sch.get_block("C"), 0))
    text = refuse(func, lambda sch: sch.rolling_buffer(sch.get_block("B"), 1))
    assert "block B writes 1 buffers, found index 1" in text
    flat = parse(ROWS.replace("B[vi + 1, vj + 1] - B[vi + 2, vj + 2]", "B[vi, vj + 1]"))
    text = refuse(flat, tile(4), roll)
    assert "no dimension of buffer B overlaps between iterations of the loops" in text
    text = refuse(func, tile(4), lambda sch: sch.parallel(sch.get_loops(sch.get_block("C"))[0]), roll)
    assert "loop i_0 is not serial: its iterations would use what others have computed" in text


def test_what_was_rolled_is_not_made_parallel(parse, refuse):
    text = refuse(parse(ROWS), both(4), lambda sch: sch.parallel(sch.get_loops(sch.get_block("C"))[0]))
    assert "block B is neither complete nor a reduction block" in text
