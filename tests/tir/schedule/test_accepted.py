"""Steps that TVM rejects. Sound ones are accepted, and compute what the program computed; others are rejected too."""

from __future__ import annotations

import pytest


def product(rest: str = "") -> str:
    """A product in a buffer C of the function's own, and what follows it."""
    return f"""
@T.prim_func
def f(A: T.Buffer((12, 8), "float32"), B: T.Buffer((8, 12), "float32"), D: T.Buffer((12, 12), "float32")):
    C = T.alloc_buffer((12, 12), "float32")
    for i, j, k in T.grid(12, 12, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
    for i, j in T.grid(12, 12):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vi, vj]
{rest}
"""


STORED_TWICE = """
@T.prim_func
def f(B: T.Buffer((16,), "float32")):
    A = T.alloc_buffer((16,), "float32")
    for i in range(16):
        with T.block("first"):
            v = T.axis.spatial(16, i)
            A[v] = T.float32(1)
    for i in range(8):
        with T.block("second"):
            v = T.axis.spatial(8, i)
            A[v * 2] = T.float32(2)
    for i in range(16):
        with T.block("B"):
            v = T.axis.spatial(16, i)
            B[v] = A[v] + T.Cast("float32", v)
"""

OVERWRITTEN = """
    for i, j in T.grid(12, 12):
        with T.block("E"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = D[vi, vj] * T.float32(2)
    for i, j in T.grid(12, 12):
        with T.block("F"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = D[vi, vj] + C[vi, vj]
"""


def one_block(body: str, loops: str = "i, j in T.grid(14, 4)") -> str:
    """A function of A and B with one block."""
    return f"""
@T.prim_func
def f(A: T.Buffer((14, 4), "float32"), B: T.Buffer((14, 4), "float32")):
    for {loops}:
        with T.block("B"):
            {body}
"""


PARTLY_AFFINE = one_block(
    """v0 = T.axis.spatial(14, i * 2 % 14 + k * 0)
            v1 = T.axis.spatial(4, j)
            B[v0, v1] = A[v0, v1] + T.float32(1)""",
    "i, j, k in T.grid(14, 4, 2)",
)

TWICE = one_block(
    """v0 = T.axis.spatial(14, i * 4 + j)
            v1 = T.axis.spatial(4, k)
            T.where(i * 4 + j < 14)
            B[v0, v1] = A[v0, v1] * T.float32(2)""",
    "i, j, k in T.grid(4, 5, 4)",
)

NOT_AFFINE = """
@T.prim_func
def f(A: T.Buffer((8, 128), "float32"), B: T.Buffer((8,), "float32")):
    for i, k in T.grid(8, 16):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            vk = T.axis.reduce(128, k * k // 2)
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
"""


def loops(sch, block):
    return sch.get_loops(sch.get_block(block))


ACCEPTED = {
    "rfactor of a block that others follow": (product(), lambda sch: sch.rfactor(loops(sch, "C")[2], 0)),
    "rfactor to the outermost axis of the result": (product(), lambda sch: sch.rfactor(loops(sch, "C")[2], 2)),
    "cache_read of a buffer with several producers": (
        STORED_TWICE,
        lambda sch: sch.cache_read(sch.get_block("B"), 0, "global"),
    ),
    "reorder of a loop that takes no part in the axes": (
        PARTLY_AFFINE,
        lambda sch: sch.reorder(*reversed(loops(sch, "B"))),
    ),
    "reorder of the affine loop": (PARTLY_AFFINE, lambda sch: sch.reorder(loops(sch, "B")[1], loops(sch, "B")[0])),
    "reorder of loops that write twice": (TWICE, lambda sch: sch.reorder(*reversed(loops(sch, "B")))),
    "parallel of a loop that writes twice": (TWICE, lambda sch: sch.parallel(loops(sch, "B")[0])),
    "vectorize of a loop that writes twice": (TWICE, lambda sch: sch.vectorize(loops(sch, "B")[1])),
    "bind of a loop that writes twice": (TWICE, lambda sch: sch.bind(loops(sch, "B")[0], "blockIdx.x")),
    "parallel around axes that are not affine": (NOT_AFFINE, lambda sch: sch.parallel(loops(sch, "B")[0])),
    "vectorize around axes that are not affine": (NOT_AFFINE, lambda sch: sch.vectorize(loops(sch, "B")[0])),
    "bind around axes that are not affine": (NOT_AFFINE, lambda sch: sch.bind(loops(sch, "B")[0], "blockIdx.x")),
}


@pytest.mark.parametrize("program, step", ACCEPTED.values(), ids=ACCEPTED)
def test_a_step_computes_the_same(parse, check, program, step):
    check(parse(program), step)


REJECTED = {
    "rfactor of a buffer that is written twice": (
        product(OVERWRITTEN),
        lambda sch: sch.rfactor(loops(sch, "C")[2], 0),
        "block C is not a reduction block: it is not the only block that writes buffer C: so does E",
        "help: a reduction block starts an element in T.init and updates it, and no other block writes its buffer",
    ),
    "cache_read across another store": (
        product(OVERWRITTEN),
        lambda sch: sch.cache_read(sch.get_block("D"), 0, "global"),
        "block E writes buffer C between the copy and a block that would read it",
        "help: name fewer consumer_blocks",
    ),
    "cache_write of one of several producers": (
        STORED_TWICE,
        lambda sch: sch.cache_write(sch.get_block("second"), 0, "global"),
        "block second is neither complete nor a reduction block: it is not the only block that writes buffer A",
        "help: a complete block reads no buffer that it writes, and no other block writes its buffers",
    ),
    "reorder of a reduction that starts again": (
        NOT_AFFINE,
        lambda sch: sch.reorder(*reversed(loops(sch, "B"))),
        "the values of block B may be computed more than once",
        "help: bind every loop around a reduction to a variable of the block",
    ),
    "rfactor of a reduction that starts again": (
        NOT_AFFINE,
        lambda sch: sch.rfactor(loops(sch, "B")[1], 0),
        "the loops inside may reach one point of block B twice, which would start its reduction again",
        "help: bind each iteration of the loops to a point of its own",
    ),
    "decompose_reduction of a reduction that starts again": (
        NOT_AFFINE,
        lambda sch: sch.decompose_reduction(sch.get_block("B"), loops(sch, "B")[1]),
        "the loops inside may reach one point of block B twice, which would start its reduction again",
        "help: bind each iteration of the loops to a point of its own",
    ),
}


@pytest.mark.parametrize("program, step, message, help", REJECTED.values(), ids=REJECTED)
def test_a_step_that_would_compute_something_else(parse, refuse, program, step, message, help):
    text = refuse(parse(program), step)
    assert message in text
    assert help in text
