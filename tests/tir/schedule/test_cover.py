"""Region cover: a consumer reads only what its producer has written before, in the same iterations of shared loops."""

from __future__ import annotations

import pytest

from relax.tir import Schedule
from relax.tir.schedule.cover import covers, domain_points, fresh_points, implied
from relax.tir.schedule.facts import outer_facts


def is_covered(func):
    sch = Schedule(func)
    producer, consumer = (sch.state.placed(sch.get_block(name)) for name in ("P", "B"))
    return covers(sch.state, "main", producer, consumer, producer.block.writes[0].buffer)


def program(write, read, size="n * 4 + 8"):
    """Both blocks in one loop i of n iterations; `write` and `read` are what stands in it."""

    def indented(text):
        return "".join(f"        {line}\n" for line in text.strip("\n").split("\n"))

    return f"""
@T.prim_func
def main(a: T.handle, b: T.handle, c: T.handle):
    n = T.int64()
    m = T.int64()
    N = T.match_buffer(c, (n, m), "float32")
    A = T.match_buffer(a, ({size},), "float32")
    B = T.match_buffer(b, ({size},), "float32")
    P = T.alloc_buffer(({size},), "float32")
    for i in range(n):
{indented(write)}{indented(read)}"""


def block(name, value, store, loop="for j in range(T.int64(4)):", where="", domain="n * 4 + 8"):
    condition = f"\n        T.where({where})" if where else ""
    return f"""
{loop}
    with T.block("{name}"):
        v = T.axis.spatial({domain}, {value}){condition}
        {store}
"""


def writes(value="i * 4 + j", store="P[v] = A[v]", **options):
    return block("P", value, store, **options)


def reads(value="i * 4 + j", store="B[v] = P[v]", **options):
    return block("B", value, store, **options)


SIX = "for j in range(T.int64(6)):"


@pytest.mark.parametrize(
    ("write", "read"),
    [
        (writes(), reads()),
        (writes(loop=SIX), reads(store="B[v] = P[v] + P[v + 2]")),
        (writes(), reads(loop="for j in range(T.int64(2)):", store="B[v] = P[v]", value="i * 4 + j * 2 + 1")),
        (writes(loop="for j0, j1 in T.grid(T.int64(2), T.int64(2)):", value="i * 4 + j0 * 2 + j1"), reads()),
        (writes(loop="for j0, j1 in T.grid(T.int64(2), T.int64(3)):", value="i * 4 + j0 * 2 + j1"), reads()),
        (writes(loop="for f in range(T.int64(12)):", value="i * 4 + f // 3"), reads()),
        (writes(loop=SIX, where="i * 4 + j < n * 4"), reads(where="i * 4 + j < n * 4")),
        (writes(loop=SIX, where="i * 4 + j < n * 4"), reads()),
        (writes(loop="for j in range(m):"), reads(loop="for j in range(m):")),
        (writes(loop="for j in range(m):"), reads(loop="for j in range(m - 1):", store="B[v] = P[v + 1]")),
        (writes(value="i * 4 + 3 - j"), reads()),
        (writes(store="P[v + 5] = A[v]", domain="n * 4"), reads(store="B[v] = P[v + 5]", domain="n * 4")),
        (writes(store="P[v] = A[v]\n        P[v] = P[v] + A[0]"), reads()),
    ],
)
def test_covered(parse, write, read):
    assert is_covered(parse(program(write, read)))


@pytest.mark.parametrize(
    ("write", "read"),
    [
        (writes(), reads(store="B[v] = P[v + 1]")),
        (writes(), reads(loop="for j in range(T.int64(5)):")),
        (writes(loop="for j in range(T.int64(2)):", value="i * 4 + j * 2"), reads()),
        (writes(loop="for j0, j1 in T.grid(T.int64(2), T.int64(2)):", value="i * 4 + j0 * 3 + j1"), reads()),
        (writes(where="j < 3"), reads()),
        (writes(where="i < n - 1"), reads()),
        (writes(where="A[0] > T.float32(0)"), reads()),
        (writes(store="if A[v] > T.float32(0):\n            P[v] = A[v]"), reads()),
        (writes(loop="for j in range(m):"), reads()),
        (writes(loop="for j in range(T.int64(4) - i):", value="i * 4 + j"), reads(loop="for j in range(T.int64(1)):")),
        (writes(), reads(value="i * i + j")),
        (writes(store="P[v // 2] = A[v]"), reads()),
    ],
)
def test_not_covered(parse, write, read):
    assert not is_covered(parse(program(write, read)))


def test_a_sum_must_be_finished(parse):
    text = """
@T.prim_func
def main(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8,), "float32")):
    P = T.alloc_buffer((8,), "float32")
    for {} in T.grid({}):
        for {} in range({}):
            with T.block("P"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    P[vi] = T.float32(0)
                P[vi] = P[vi] + A[vi, vk]
        for j in range(8):
            with T.block("B"):
                vj = T.axis.spatial(8, j)
                B[vj] = P[vj]
"""
    assert is_covered(
        parse(text.format("u", "1", "i, k", "8, 4").replace("for i, k in range(8, 4)", "for i, k in T.grid(8, 4)"))
    )
    assert not is_covered(parse(text.format("k", "4", "i", "8")))


def test_stores_in_nested_blocks_count(parse):
    nested = """
@T.prim_func
def main(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8, 4), "float32")):
    P = T.alloc_buffer((8, 4), "float32")
    for i in range(8):
        with T.block("P"):
            vi = T.axis.spatial(8, i)
            for j in range({}):
                with T.block("inner"):
                    vj = T.axis.spatial({}, j)
                    P[vi, vj] = A[vi, vj]
        for j in range(4):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = P[vi, 3 - vj]
"""
    assert is_covered(parse(nested.format(4, 4)))
    assert not is_covered(parse(nested.format(3, 3)))


@pytest.mark.parametrize("size", [0, 1, 5, 12])
@pytest.mark.parametrize("factor", [1, 3, 4])
def test_images_say_just_the_points_that_are_reached(parse, size, factor):
    """The conditions of an image hold for the values that a block takes, and for no others: counted."""
    func = parse(f"""
@T.prim_func
def main(A: T.Buffer(({size} + 2,), "float32")):
    for i, j in T.grid(({size} + {factor} - 1) // {factor}, {factor} + 2):
        with T.block("A"):
            v = T.axis.spatial({size} + 2, i * {factor} + j)
            T.where(i * {factor} + j < {size} + 1)
            A[v] = T.float32(1)
""")
    sch = Schedule(func)
    name = sch.get_block("A")
    realize, loops = sch.state.placed(name), sch.state.loops(name)
    facts = outer_facts(sch.state, name)
    points = fresh_points(realize.iter_values)
    conditions = domain_points(realize, loops, points, facts)
    reached = {i * factor + j for i in range((size + factor - 1) // factor) for j in range(factor + 2)}
    reached = {v for v in reached if v < size + 1}
    for value in range(-2, size + 5):
        inside = implied(facts, [points[0].equal(value)], conditions)
        assert inside == (value in reached)


def test_parallel_tiles_that_are_computed_again(parse, check, refuse):
    func = parse(program(writes(loop=SIX), reads(store="B[v] = P[v] + P[v + 2]")))

    def outer(sch):
        sch.parallel(sch.get_loops(sch.get_block("B"))[0])

    check(func, outer)
    other = parse(program(writes(), reads(store="B[v] = P[v] + P[v + 2]")))
    text = refuse(other, outer)
    assert "block B may touch elements of P that block P writes in another iteration of loop i" in text
