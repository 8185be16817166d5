"""transform_layout: the elements of a buffer move to other places; callers hand over parameters in the new layout."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from relax import tir
from relax.tir import Schedule

CHAIN = """
@T.prim_func
def main(a: T.handle, c: T.handle):
    T.func_attr({"tir.noalias": True})
    n = T.int64()
    A = T.match_buffer(a, (n, 16), "float32")
    C = T.match_buffer(c, (n, 16), "float32")
    B = T.alloc_buffer((n, 16))
    for i, j in T.grid(n, 16):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j, k in T.grid(n, 4, 4):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSS", [i, j, k])
            C[vi, vj * 4 + vk] = B[vi, vj * 4 + vk] + T.float32(1)
"""


def relayout(name, *args, **options):
    return lambda sch: sch.transform_layout(sch.get_block(name), *args, **options)


def run(func, maps, sizes=(1, 3, 8), pads=None):
    """Run a function before and after its parameters got other layouts; `maps` are from names to functions."""
    sch = Schedule(func, debug_mask="all")
    for (name, buffer), (mapping, pad) in maps.items():
        sch.transform_layout(sch.get_block(name), buffer, mapping, pad)
    after = sch.mod["main"]
    buffers = [func.buffer_map[param] for param in func.params]
    layouts = {buffer: tir.IndexMap.from_func(m, 2) for (_, buffer), (m, _) in maps.items()}
    for n in sizes:
        generator = np.random.default_rng(n)
        before = [generator.integers(-4, 5, (n, 16)).astype("float32") for _ in buffers]
        moved = [
            layouts[b.name].map_ndarray(x) if b.name in layouts else x.copy()
            for b, x in zip(buffers, before, strict=True)
        ]
        tir.interpret(func, *before)
        tir.interpret(after, *moved)
        for buffer, x, y in zip(buffers, before, moved, strict=True):
            layout = layouts.get(buffer.name)
            expected = x if layout is None else layout.map_ndarray(x)
            if layout is not None and pads is not None:
                there = layout.map_ndarray(np.ones_like(x)) == 1
                expected = np.where(there, expected, pads)
            np.testing.assert_array_equal(y, expected)
    return after


def test_a_buffer_of_its_own(parse, check):
    expected = parse("""
@T.prim_func
def main(a: T.handle, c: T.handle):
    T.func_attr({"tir.noalias": True})
    n = T.int64()
    A = T.match_buffer(a, (n, 16), "float32")
    C = T.match_buffer(c, (n, 16), "float32")
    B = T.alloc_buffer((4, n, 4))
    for i, j in T.grid(n, 16):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vj // 4, vi, vj % 4] = A[vi, vj] * T.float32(2)
    for i, j, k in T.grid(n, 4, 4):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSS", [i, j, k])
            C[vi, vj * 4 + vk] = B[vj, vi, vk] + T.float32(1)
""")

    def mapping(i, j):
        return j // 4, i, j % 4

    for name, buffer in (("B", ("write", 0)), ("C", ("read", 0)), ("B", "B"), ("C", "B")):
        check(parse(CHAIN), relayout(name, buffer, mapping), expected)
    check(parse(CHAIN), relayout("B", "B", tir.IndexMap.from_func(mapping)), expected)


@pytest.mark.parametrize(
    "mapping",
    [lambda i, j: (j, i), lambda i, j: (i * 16 + j,), lambda *axes: axes[::-1], lambda i, j: (i, j // 8, j % 8)],
)
def test_maps(parse, check, mapping):
    check(parse(CHAIN), relayout("B", "B", mapping))
    run(parse(CHAIN), {("B", "A"): (mapping, None)})
    run(parse(CHAIN), {("C", "C"): (mapping, None)})


def test_a_parameter(parse):
    after = run(parse(CHAIN), {("B", "A"): (lambda i, j: (j, i), None)})
    assert "A = T.match_buffer(a, (16, n)" in after.script()
    assert "A[vj, vi]" in after.script()


@pytest.mark.parametrize("pad", [0, 7.5, lambda i, j, k: j * 10 + k])
def test_padding_is_written(parse, check, pad):
    def mapping(i, j):
        return i, j // 5, j % 5

    check(parse(CHAIN), relayout("B", "B", mapping, pad))
    pads = pad if not callable(pad) else np.add.outer(np.arange(4) * 10, np.arange(5)).astype("float32")
    after = run(parse(CHAIN), {("C", "C"): (mapping, pad)}, pads=pads)
    assert "C_pad" in after.script()


def test_padding_of_symbolic_sizes(parse, check):
    check(parse(CHAIN), relayout("B", "B", lambda i, j: (i // 4, j, i % 4), 0.0))


def test_padding_of_what_is_read_is_the_callers(parse):
    after = run(parse(CHAIN), {("B", "A"): (lambda i, j: (i, j // 5, j % 5), 0)})
    assert "pad" not in after.script()


def test_nested_blocks_and_reductions(parse, check):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8, 8))
    S = T.alloc_buffer((8,))
    for io in range(4):
        with T.block("outer"):
            vo = T.axis.spatial(4, io)
            for ii, j in T.grid(2, 8):
                with T.block("B"):
                    vi = T.axis.spatial(8, vo * 2 + ii)
                    vj = T.axis.spatial(8, j)
                    B[vi, vj] = A[vi, vj] + T.float32(1)
    for i, k in T.grid(8, 8):
        with T.block("S"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                S[vi] = T.float32(0)
            S[vi] = S[vi] + B[vi, vk]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = S[vi]
""")

    def steps(sch):
        relayout("B", "B", lambda i, j: (j // 4, i // 2, i % 2, j % 4))(sch)
        relayout("S", "S", lambda i: (i % 4, i // 4))(sch)

    after = check(func, steps)
    assert "T.writes(B[0:2, vo, 0:2, 0:4])" in after.script()
    assert "B[vk // 4, vi // 2, vi % 2, vk % 4]" in after.script()


def test_every_map_of_a_small_shape(parse, check):
    """Permutations of the digits of both indices, in one or several dimensions."""
    for order in itertools.permutations(range(3)):
        index_map = tir.IndexMap.from_func(lambda i, j: (i, j // 4, j % 4))
        final = tuple(index_map.final_indices[d] for d in order)
        check(parse(CHAIN), relayout("B", "B", index_map.replace(final_indices=final)), sizes=(3,))


def test_a_promise_that_parameters_are_apart(parse):
    func = parse(CHAIN.replace('    T.func_attr({"tir.noalias": True})\n', ""))
    for name, buffer, promised in (("B", "B", None), ("B", "A", True), ("C", "C", True)):
        sch = Schedule(func)
        relayout(name, buffer, lambda i, j: (j, i))(sch)
        assert sch.mod["main"].attrs.get("tir.noalias") is promised


@pytest.mark.parametrize(
    "steps, message",
    [
        (relayout("B", "B", lambda i, j: (i, j // 2)), "moves two elements to one place, or splits j unevenly"),
        (relayout("B", "B", lambda i, j: (i, j // 5, j % 5)), "has places to which nothing moves, where"),
        (relayout("B", "B", lambda i: i), "the index map takes 1 indices, expected 2"),
        (relayout("B", "B", 3), "index_map must be an IndexMap or a function, found 3"),
        (relayout("B", 0, lambda i, j: (j, i)), "an index alone does not say whether reads or writes are meant"),
        (relayout("B", ("both", 0), lambda i, j: (j, i)), 'buffer must be like ("read", 0) or ("write", 0)'),
        (relayout("B", "D", lambda i, j: (j, i)), "block B reads no buffer called D"),
        (
            relayout("B", "B", lambda i, j: (i, j // 5, j % 5), lambda *axes: (axes[0], axes[1])),
            "pad_value must give one value, found 2",
        ),
    ],
)
def test_refusals(parse, refuse, steps, message):
    assert message in refuse(parse(CHAIN), steps)


def test_refused_parameters(parse, refuse):
    func = parse("""
@T.prim_func
def main(a: T.handle, B: T.Buffer((4,), "float32")):
    n = T.int64()
    A = T.match_buffer(a, (n,), "float32")
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[vi]
""")
    text = refuse(func, relayout("B", "A", lambda i: (i // 4, i % 4), 0))
    assert "the new shape of parameter A does not say what n is" in text
