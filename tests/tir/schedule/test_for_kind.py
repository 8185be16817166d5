"""parallel, vectorize, unroll, bind: the way in which a loop runs."""

from __future__ import annotations

import pytest
from schedule_programs import loops

from relax.tir import Schedule

MATMUL = """
@T.prim_func
def main(a: T.handle, b: T.handle, c: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, 5), "float32")
    B = T.match_buffer(b, (5, 4), "float32")
    C = T.match_buffer(c, (n, 4), "float32")
    for i, j, k in T.grid(n, T.int64(4), T.int64(5)):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
STAGES = """
@T.prim_func
def main(A: T.Buffer((4, 6), "int32"), C: T.Buffer((4, 6), "int32")):
    B = T.alloc_buffer((4, 6), "int32")
    for i, j in T.grid(4, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + 1
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, {column}]
"""


@pytest.mark.parametrize("method, text", [("parallel", "T.parallel(n)"), ("unroll", "T.unroll(n)")])
def test_a_data_parallel_loop(parse, check, method, text):
    expected = parse(
        MATMUL.replace(
            "for i, j, k in T.grid(n, T.int64(4), T.int64(5))",
            f"""for i in {text}:
      for j, k in T.grid(T.int64(4), T.int64(5))""",
        )
    )
    check(parse(MATMUL), lambda sch: getattr(sch, method)(loops(sch, "C")[0]), expected)


def test_a_vector_loop(parse, check):
    after = check(parse(MATMUL), lambda sch: sch.vectorize(loops(sch, "C")[1]))
    assert "T.vectorized(T.int64(4))" in after.script()


@pytest.mark.parametrize("axis", ["threadIdx.x", "blockIdx.y", "vthread"])
def test_a_thread_loop_is_kept_and_printed(parse, axis):
    sch = Schedule(parse(MATMUL), debug_mask="all")
    sch.bind(loops(sch, "C")[0], axis)
    assert f'T.thread_binding(n, thread="{axis}")' in sch.mod["main"].script()
    sch.unroll(loops(sch, "C")[0])
    assert "T.unroll(n)" in sch.mod["main"].script()


def test_a_reduction_loop_is_unrolled_only(parse, check, refuse):
    func = parse(MATMUL)
    check(func, lambda sch: sch.unroll(loops(sch, "C")[2]))
    for method in ("parallel", "vectorize"):
        text = refuse(func, lambda sch, method=method: getattr(sch, method)(loops(sch, "C")[2]))
        assert f"{method}: loop k is bound to vk of block C, over which it sums up" in text
        assert "for k in range(T.int64(5)):\n            ^^^^" in text
    assert "bind: loop k is bound" in refuse(func, lambda sch: sch.bind(loops(sch, "C")[2], "threadIdx.x"))


@pytest.mark.parametrize("method", ["parallel", "vectorize"])
def test_rows_are_independent_of_each_other(parse, check, refuse, method):
    func = parse(STAGES.format(column="5 - vj"))
    if method == "parallel":
        check(func, lambda sch: sch.parallel(loops(sch, "C")[0]))
    text = refuse(func, lambda sch: getattr(sch, method)(loops(sch, "C")[1]))
    assert "block C may touch elements of B that block B writes in another iteration of loop j" in text
    check(parse(STAGES.format(column="vj")), lambda sch: sch.parallel(loops(sch, "C")[1]))


@pytest.mark.parametrize(
    "body, message",
    [
        ("A[vi] = i", "its body uses the loop variable i itself (bind a variable of the block to it)"),
        ("A[0] = vi", "two values of its variable vi may write the same element of A"),
        ("A[vi] = A[7 - vi] + 1", "it reads elements of buffer A other than the one that it writes"),
        ("T.evaluate(T.call_extern('int32', 'f', vi))", "it calls a function with effects"),
    ],
)
def test_blocks_that_are_not_complete(parse, refuse, body, message):
    func = parse(f"""
@T.prim_func
def main(A: T.Buffer((8,), "int32")):
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            {body}
""")
    assert message in refuse(func, lambda sch: sch.parallel(loops(sch, "C")[0]))


def test_elements_that_change_in_place(parse, check):
    """Each iteration reads the element that it writes, and no other."""
    func = parse("""
@T.prim_func
def main(A: T.Buffer((8,), "int32")):
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            A[vi] = A[vi] + 1
""")
    check(func, lambda sch: sch.parallel(loops(sch, "C")[0]))
    check(func, lambda sch: sch.vectorize(loops(sch, "C")[0]))


@pytest.mark.parametrize("method", ["parallel", "vectorize"])
def test_a_reduction_whose_start_is_a_block_of_its_own(parse, check, refuse, method):
    func = parse("""
@T.prim_func
def main(a: T.handle, c: T.handle):
    n, m = T.int64(), T.int64()
    A = T.match_buffer(a, (n, m), "int32")
    C = T.match_buffer(c, (n,), "int32")
    for i, k in T.grid(n, m):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = 0
            C[vi] = C[vi] + A[vi, vk]
""")

    def decompose(sch):
        return sch.decompose_reduction(sch.get_block("C"), sch.get_loops(sch.get_block("C"))[0])

    def each(sch):
        init = decompose(sch)
        for block in (init, sch.get_block("C_update")):
            getattr(sch, method)(sch.get_loops(block)[0])

    if method == "parallel":
        check(func, each)
    text = refuse(func, decompose, lambda sch: getattr(sch, method)(loops(sch, "C_update")[1]))
    assert "loop k is bound to vk of block C_update, over which it sums up" in text


def test_a_reduction_that_reads_its_neighbour(parse, refuse):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((4, 6), "int32"), B: T.Buffer((4,), "int32")):
    for i, k in T.grid(4, 6):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = 0
            B[vi] = B[vi] + A[vi, vk] * B[3 - vi]
""")
    text = refuse(func, lambda sch: sch.parallel(loops(sch, "C")[0]))
    assert "it reads elements of buffer B other than the one that it writes" in text


def test_views_of_one_storage(parse, refuse):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((8,), "int32")):
    with T.block("root"):
        V = T.decl_buffer((8,), "int32", data=A.data)
        for i in range(7):
            with T.block("C"):
                vi = T.axis.spatial(7, i)
                A[vi] = V[vi + 1]
""")
    text = refuse(func, lambda sch: sch.parallel(loops(sch, "C")[0]))
    assert "shares its storage with another buffer" in text


def test_arguments(parse, refuse):
    func = parse(MATMUL)
    assert "'warp' is no thread axis" in refuse(func, lambda sch: sch.bind(loops(sch, "C")[0], "warp"))
    assert "loop must be a loop, found BlockRV" in refuse(func, lambda sch: sch.parallel(sch.get_block("C")))


def test_a_loop_that_is_gone(parse, refuse):
    kept = []

    def split(sch):
        kept.append(loops(sch, "C")[0])
        sch.split(kept[0], [None, 2])

    text = refuse(parse(MATMUL), split, lambda sch: sch.parallel(kept[0]))
    assert "error[E8001]: parallel: the loop i is no longer there" in text


TILED = STAGES.format(column="vj")


def test_fused_loops_around_tiles(parse, check):
    """The digits of the fused index tell the tiles apart, for a reduction and for blocks that meet in a tile."""

    def steps(sch):
        i, j, k = loops(sch, "C")
        io, ii = sch.split(i, [None, 4])
        jo, ji = sch.split(j, [2, 2])
        sch.reorder(io, jo, k, ii, ji)
        sch.parallel(sch.fuse(io, jo))
        sch.vectorize(ji)

    after = check(parse(MATMUL), steps)
    assert "T.parallel" in after.script()

    def two(sch):
        i, j = loops(sch, "C")
        io, ii = sch.split(i, [2, 2])
        jo, ji = sch.split(j, [3, 2])
        sch.reorder(io, jo, ii, ji)
        sch.parallel(sch.fuse(io, jo))

    check(parse(TILED), two)


def test_a_fused_loop_of_which_only_one_digit_is_used(parse, refuse):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((4, 6), "int32"), B: T.Buffer((4, 6), "int32"), C: T.Buffer((4, 6), "int32")):
    for i, j in T.grid(4, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + 1
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.if_then_else(vi == 0, 0, B[T.max(vi - 1, 0), vj])
""")
    text = refuse(func, lambda sch: sch.fuse(*loops(sch, "C")), lambda sch: sch.parallel(loops(sch, "C")[0]))
    assert "block C may touch elements of B that block B writes in another iteration of loop i_j_fused" in text
