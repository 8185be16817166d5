"""pad_einsum: a sum of products over whole multiples, with zeros where there was nothing."""

from __future__ import annotations

import pytest

from relax.tir import Schedule

MATMUL = """
@T.prim_func
def main(a: T.handle, b: T.handle, c: T.handle):
    n = T.int64()
    m = T.int64()
    A = T.match_buffer(a, (n, m), "float32")
    B = T.match_buffer(b, (m, 6), "float32")
    C = T.match_buffer(c, (n, 6), "float32")
    for i, j, k in T.grid(n, 6, m):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""


def pad(*padding):
    return lambda sch: sch.pad_einsum(sch.get_block("C"), list(padding))


def test_a_product_of_matrices(parse, check):
    expected = parse("""
@T.prim_func
def main(a: T.handle, b: T.handle, c: T.handle):
    n = T.int64()
    m = T.int64()
    A = T.match_buffer(a, (n, m), "float32")
    B = T.match_buffer(b, (m, 6), "float32")
    C = T.match_buffer(c, (n, 6), "float32")
    A_pad = T.alloc_buffer((n, (m + 3) // 4 * 4), "float32")
    B_pad = T.alloc_buffer(((m + 3) // 4 * 4, 6), "float32")
    for ax0, ax1 in T.grid(n, (m + 3) // 4 * 4):
        with T.block("A_pad"):
            v0, v1 = T.axis.remap("SS", [ax0, ax1])
            A_pad[v0, v1] = T.if_then_else(v1 < m, A[v0, v1], T.float32(0))
    for ax0, ax1 in T.grid((m + 3) // 4 * 4, T.int64(6)):
        with T.block("B_pad"):
            v0, v1 = T.axis.remap("SS", [ax0, ax1])
            B_pad[v0, v1] = T.if_then_else(v0 < m, B[v0, v1], T.float32(0))
    for i, j, k in T.grid(n, 6, (m + 3) // 4 * 4):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A_pad[vi, vk] * B_pad[vk, vj]
""")
    check(parse(MATMUL), pad(1, 2, 4), expected, sizes=(0, 1, 5))


@pytest.mark.parametrize("padding", [(4, 4, 4), (1, 4, 1), (8, 1, 1), (2, 8, 3), (1, 1, 1)])
def test_any_multiples(parse, check, padding):
    after = check(parse(MATMUL), pad(*padding), sizes=(1, 5))
    assert ("C_pad" in after.script()) == (padding[:2] not in ((1, 1), (1, 2)))


def test_nothing_to_pad_changes_nothing(parse):
    sch = Schedule(parse(MATMUL))
    before = sch.mod
    pad(1, 3, 1)(sch)
    assert sch.mod is before


def test_narrow_inputs_and_converted_factors(parse, check):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((5, 7), "int8"), x: T.Buffer((7,), "int8"), s: T.Buffer((5,), "int8"), C: T.Buffer((5,), "int32")):
    for i, k in T.grid(5, 7):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = 0
            C[vi] = C[vi] + T.cast(A[vi, vk], "int32") * T.cast(x[vk], "int32") * T.cast(s[vi], "int32")
""")
    check(func, pad(4, 4))


SQUARE = """
@T.prim_func
def main(A: T.Buffer((6, 6), "float32"), C: T.Buffer((6, 6), "float32")):
    for i, j, k in T.grid(6, 6, 6):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * A[vk, vj]
"""


def test_a_buffer_that_is_two_factors(parse, check, refuse):
    """It has one copy, which must be long enough for both."""
    after = check(parse(SQUARE), pad(4, 4, 4))
    assert "A_pad = T.alloc_buffer((8, 8))" in after.script()
    text = refuse(parse(SQUARE), pad(1, 4, 4))
    assert (
        "buffer A is two factors of the product, and vi and vk, which index the same dimension, get different" in text
    )
    assert "cache_read one of the two first" in text


def test_the_result_goes_on(parse, check):
    func = parse(MATMUL.replace('C = T.match_buffer(c, (n, 6), "float32")', 'D = T.match_buffer(c, (n, 6), "float32")\n'
                                '    C = T.alloc_buffer((n, 6), "float32")') + """
    for i, j in T.grid(n, 6):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vi, 5 - vj]
""")  # fmt: skip

    def steps(sch):
        pad(4, 4, 4)(sch)
        sch.compute_inline(sch.get_block("C_pad"))
        sch.compute_inline(sch.get_block("A_pad"))

    check(func, steps, sizes=(0, 5))


def test_refusals(parse, refuse):
    func = parse(MATMUL)
    assert "padding must be a number of 1 or more for each of the 3 variables" in refuse(func, pad(1, 2))
    assert "found [1, 0, 1]" in refuse(func, pad(1, 0, 1))
    text = refuse(parse(MATMUL.replace("A[vi, vk] *", "A[vi, vk] +")), pad(4, 4, 4))
    assert "block C does not sum up a product of elements from zero on" in text
    text = refuse(parse(MATMUL.replace("T.float32(0)", "T.float32(1)")), pad(4, 4, 4))
    assert "block C does not sum up a product of elements from zero on" in text
    text = refuse(parse(MATMUL.replace("A[vi, vk] *", "A[vi, vk] * A[vi, 0] *")), pad(4, 4, 4))
    assert "the indices of buffer A are not distinct variables of block C" in text
    text = refuse(func, lambda sch: sch.split(sch.get_loops(sch.get_block("C"))[0], [None, 2]), pad(4, 4, 4))
    assert "the variables of block C are not bound one by one to loops that run over their domains" in text
    scaled = MATMUL.replace("A[vi, vk] * B[vk, vj]", "A[vi, vk] * S[vi]").replace(
        "    C = T.m", '    S = T.alloc_buffer((n,), "float32")\n    C = T.m'
    )
    text = refuse(parse(scaled), pad(1, 1, 4))
    assert "the variable vk gets longer, but does not index all factors of the product" in text
    elementwise = parse("""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = A[vi]
""")
    assert "block C is not a reduction block" in refuse(elementwise, pad(4))
