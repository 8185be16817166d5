"""transform_block_layout: a block's variables and loops become those that an index map gives."""

from __future__ import annotations

import pytest

ELEMENTWISE = """
@T.prim_func
def main(a: T.handle, b: T.handle):
    T.func_attr({"tir.noalias": True})
    n = T.int64()
    A = T.match_buffer(a, (n, 8), "float32")
    B = T.match_buffer(b, (n, 8), "float32")
    for i, j in T.grid(n, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
"""
MATMUL = """
@T.prim_func
def main(a: T.handle, b: T.handle, c: T.handle):
    n, m = T.int64(), T.int64()
    A = T.match_buffer(a, (n, m), "float32")
    B = T.match_buffer(b, (m, 4), "float32")
    C = T.match_buffer(c, (n, 4), "float32")
    for i, j, k in T.grid(n, 4, m):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""


def by(name, mapping):
    return lambda sch: sch.transform_block_layout(sch.get_block(name), mapping)


def test_fused(parse, check):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((4, 16), "float32"), B: T.Buffer((4, 16), "float32")):
    for i, j in T.grid(4, 16):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
""")
    expected = parse("""
@T.prim_func
def main(A: T.Buffer((4, 16), "float32"), B: T.Buffer((4, 16), "float32")):
    T.func_attr({"tir.noalias": True})
    for ax0 in range(64):
        with T.block("B"):
            v0 = T.axis.spatial(64, ax0)
            B[v0 // 16, v0 % 16] = A[v0 // 16, v0 % 16] * T.float32(2)
""")
    check(func, by("B", lambda i, j: (i * 16 + j,)), expected)


def test_split_with_a_condition(parse, check):
    after = check(parse(ELEMENTWISE), by("B", lambda i, j: (i // 3, j, i % 3)))
    assert "T.where" in after.script()
    after = check(parse(ELEMENTWISE), by("B", lambda i, j: (i, j // 4, j % 4)))
    assert "T.where" not in after.script()


def test_loops_that_only_move_stay(parse, check):
    loops = []

    def steps(sch):
        i, j = sch.get_loops(sch.get_block("B"))
        by("B", lambda i, j: (j, i))(sch)
        loops.extend([sch.get(loop).loop_var for loop in sch.get_loops(sch.get_block("B"))])
        assert loops[0] is j.var
        assert loops[1] is i.var

    expected = parse(
        ELEMENTWISE.replace("i, j in T.grid(n, 8)", "j, i in T.grid(8, n)").replace(
            'vi, vj = T.axis.remap("SS", [i, j])', 'vj, vi = T.axis.remap("SS", [j, i])'
        )
    )
    check(parse(ELEMENTWISE), steps, expected)


@pytest.mark.parametrize(
    "mapping",
    [
        lambda i, j, k: (k, j, i),
        lambda i, j, k: (k // 3, i, k % 3, j),
        lambda i, j, k: (i * 4 + j, k),
        lambda i, j, k: (i // 2, k // 2, i % 2, j, k % 2),
    ],
)
def test_reductions(parse, check, mapping):
    check(parse(MATMUL), by("C", mapping), sizes=(0, 1, 4))


def test_indices_become_simple(parse, check):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
    for i in range(32):
        with T.block("B"):
            vi = T.axis.spatial(32, i)
            B[vi] = A[vi // 4 * 4 + vi % 4]
""")
    after = check(func, by("B", lambda i: (i // 4, i % 4)))
    assert "B[v0 * 4 + v1] = A[v0 * 4 + v1]" in after.script()


@pytest.mark.parametrize(
    "steps, message",
    [
        (
            [by("C", lambda i, j, k: (i, j + 4 * k))],
            "the index map mixes data-parallel variables and reductions: vj, vk",
        ),
        ([by("C", lambda i, j, k: (i, j // 2, k))], "moves two elements to one place"),
        ([by("C", lambda i, j: (i, j))], "the index map takes 2 indices, expected 3"),
        (
            [lambda sch: sch.split(sch.get_loops(sch.get_block("C"))[1], [2, 2]), by("C", lambda i, j, k: (i, k, j))],
            "the loops directly around block C are not one for each of its variables",
        ),
        (
            [lambda sch: sch.parallel(sch.get_loops(sch.get_block("C"))[0]), by("C", lambda i, j, k: (i, k, j))],
            "loop i is parallel",
        ),
        (
            [by("C", lambda i, j, k: (i, j, (k + 1) // 2, (k + 1) % 2))],
            "the new values begin with one that is no old one",
        ),
    ],
)
def test_refusals(parse, refuse, steps, message):
    assert message in refuse(parse(MATMUL), *steps)


def test_refused_bindings(parse, refuse):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
""")
    text = refuse(func, by("B", lambda i: (i // 4, i % 4)))
    assert "variable vi of block B is not known to take all values of its domain, from 0 on" in text
