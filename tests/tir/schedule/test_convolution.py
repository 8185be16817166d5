"""A convolution with padding and an epilogue, moved together by several primitives."""

from __future__ import annotations

CONVOLUTION = """
@T.prim_func
def main(x: T.handle, w: T.Buffer((2, 2, 3, 3), "float32"), y: T.handle):
    h = T.int64()
    X = T.match_buffer(x, (2, h, 5), "float32")
    Y = T.match_buffer(y, (2, (h + 1) // 2, 3), "float32")
    P = T.alloc_buffer((2, h + 2, 7), "float32")
    C = T.alloc_buffer((2, (h + 1) // 2, 3), "float32")
    for c, i, j in T.grid(2, h + 2, 7):
        with T.block("P"):
            vc, vi, vj = T.axis.remap("SSS", [c, i, j])
            P[vc, vi, vj] = T.if_then_else(
                1 <= vi and vi < h + 1 and 1 <= vj and vj < 6, X[vc, vi - 1, vj - 1], T.float32(0)
            )
    for f, i, j, rc, ry, rx in T.grid(2, (h + 1) // 2, 3, 2, 3, 3):
        with T.block("C"):
            vf, vi, vj, vc, vy, vx = T.axis.remap("SSSRRR", [f, i, j, rc, ry, rx])
            with T.init():
                C[vf, vi, vj] = T.float32(0)
            C[vf, vi, vj] = C[vf, vi, vj] + P[vc, vi * 2 + vy, vj * 2 + vx] * w[vf, vc, vy, vx]
    for f, i, j in T.grid(2, (h + 1) // 2, 3):
        with T.block("Y"):
            vf, vi, vj = T.axis.remap("SSS", [f, i, j])
            Y[vf, vi, vj] = T.max(C[vf, vi, vj], T.float32(0))
"""


def tiled(sch):
    """Rows in tiles: the convolution and the padded input are computed in each."""
    _, rows, _ = sch.get_loops(sch.get_block("Y"))
    outer, _ = sch.split(rows, [None, 2])
    sch.compute_at(sch.get_block("C"), outer)
    sch.compute_at(sch.get_block("P"), outer)


def test_tiles_of_rows(parse, check):
    text = check(parse(CONVOLUTION), tiled, sizes=(0, 1, 4, 5)).script()
    assert "for ax0, ax1, ax2 in T.grid(2, T.int64(5), 7):" in text


def test_tiles_whose_padding_is_filled_first(parse, check):
    def steps(sch):
        tiled(sch)
        filters, _, channels, *_ = sch.get_loops(sch.get_block("P"))
        sch.parallel(filters)
        sch.decompose_padding(sch.get_block("P"), channels)

    text = check(parse(CONVOLUTION), steps, sizes=(0, 1, 5)).script()
    assert 'T.block("P_pad_const")' in text
    assert "for ax0, ax1, ax2 in T.grid(2, T.int64(5), 5):" in text


def test_tiles_that_keep_the_last_row(parse, check):
    def steps(sch):
        tiled(sch)
        sch.rolling_buffer(sch.get_block("P"), 0)

    text = check(parse(CONVOLUTION), steps, sizes=(0, 1, 5)).script()
    assert "P = T.alloc_buffer((2, 5, 7))" in text
    assert "(i_0 < 1 or 1 <= ax1)" in text


def test_padding_and_epilogue_inside_of_the_loops(parse, check):
    def steps(sch):
        sch.compute_inline(sch.get_block("P"))
        sch.reverse_compute_at(sch.get_block("Y"), sch.get_loops(sch.get_block("C"))[2])

    text = check(parse(CONVOLUTION), steps, sizes=(0, 1, 5)).script()
    assert "P = " not in text
    assert "for rc, ry, rx in T.grid(2, 3, 3):" in text
