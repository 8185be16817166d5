"""suggest_layout_transforms: layouts of blocks and inputs that follow from layouts of outputs."""

from __future__ import annotations

import pytest

from relax import tir
from relax.analysis import suggest_layout_transforms
from relax.ir import DiagnosticError
from relax.tir import IndexMap
from support import interpreted, numbers, prim_func

ELEMENTWISE = """
@T.prim_func
def f(a: T.Buffer((2, 32, 3, 4), "float32"), b: T.Buffer((32,), "float32"), out: T.Buffer((2, 32, 3, 4), "float32")):
    mid = T.alloc_buffer((2, 32, 3, 4), "float32")
    for n, c, h, w in T.grid(2, 32, 3, 4):
        with T.block("first"):
            vn, vc, vh, vw = T.axis.remap("SSSS", [n, c, h, w])
            mid[vn, vc, vh, vw] = a[vn, vc, vh, vw] * b[vc]
    for n, c, h, w in T.grid(2, 32, 3, 4):
        with T.block("second"):
            vn, vc, vh, vw = T.axis.remap("SSSS", [n, c, h, w])
            out[vn, vc, vh, vw] = mid[vn, vc, vh, vw] + T.float32(1)
"""
REDUCED = """
@T.prim_func
def f(a: T.Buffer((3, 32, 5, 7), "float32"), out: T.Buffer((3, 32), "float32")):
    for i, j, k, l in T.grid(3, 32, 5, 7):
        with T.block("sum"):
            vi, vj, vk, vl = T.axis.remap("SSRR", [i, j, k, l])
            with T.init():
                out[vi, vj] = T.float32(0)
            out[vi, vj] = out[vi, vj] + a[vi, vj, vk, vl]
"""
WINDOW = """
@T.prim_func
def f(a: T.Buffer((8,), "float32"), out: T.Buffer((6, 2), "float32")):
    for i, j in T.grid(6, 2):
        with T.block("window"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = a[vi + vj]
"""


def maps_of(text, transform):
    func = prim_func(text)
    return func, {block.name_hint: maps for block, maps in suggest_layout_transforms(func, [transform]).items()}


def same_map(found, function):
    assert found.is_equivalent_to(IndexMap.from_func(function)), found


def test_elementwise_blocks_follow_their_outputs():
    _, maps = maps_of(ELEMENTWISE, lambda n, c, h, w: (n, h, w, c))
    assert list(maps) == ["first", "second"]
    for found in maps.values():
        for item in found.values():
            same_map(item, lambda n, c, h, w: (n, h, w, c))
    names = {block: [getattr(item, "name", "block") for item in found] for block, found in maps.items()}
    assert names == {"first": ["block", "mid", "a"], "second": ["block", "out", "mid"]}


def test_vectors_that_are_broadcast_are_split_like_their_axis():
    _, maps = maps_of(ELEMENTWISE, lambda n, c, h, w: (n, c // 16, h, w, c % 16))
    bias = next(m for item, m in maps["first"].items() if getattr(item, "name", "") == "b")
    same_map(bias, lambda c: (c // 16, c % 16))


def test_reduced_axes_follow_the_axis_before_them():
    _, maps = maps_of(REDUCED, lambda i, j: (i, j // 16, j % 16))
    block, out, source = maps["sum"].values()
    same_map(out, lambda i, j: (i, j // 16, j % 16))
    for found in (block, source):
        same_map(found, lambda i, j, k, l: (i, j // 16, k, l, j % 16))


def test_inputs_at_other_indices_keep_their_layout():
    _, maps = maps_of(WINDOW, lambda i, j: (j, i))
    assert [getattr(item, "name", "block") for item in maps["window"]] == ["block", "out"]
    same_map(next(iter(maps["window"].values())), lambda i, j: (j, i))


def test_indices_of_several_axes_are_no_layout_of_one():
    _, maps = maps_of(ELEMENTWISE, lambda n, c, h, w: (n, c * 12 + h * 4 + w))
    assert [getattr(item, "name", "block") for item in maps["first"]] == ["block", "mid", "a"]


TWO_READERS = """
@T.prim_func
def f(a: T.Buffer((4, 4), "float32"), b: T.Buffer((4, 4), "float32"), c: T.Buffer((4, 4), "float32")):
    for i, j in T.grid(4, 4):
        with T.block("straight"):
            vi, vj = T.axis.remap("SS", [i, j])
            b[vi, vj] = a[vi, vj] + T.float32(1)
    for i, j in T.grid(4, 4):
        with T.block("turned"):
            vi, vj = T.axis.remap("SS", [i, j])
            c[vi, vj] = a[vj, vi] + T.float32(1)
"""
STRIDED = """
@T.prim_func
def f(a: T.Buffer((8,), "float32"), out: T.Buffer((8,), "float32")):
    for i in range(4):
        with T.block("even"):
            vi = T.axis.remap("S", [i])
            out[vi * 2] = a[vi * 2]
"""
DIAGONAL = """
@T.prim_func
def f(a: T.Buffer((4, 4), "float32"), out: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("diagonal"):
            vi = T.axis.remap("S", [i])
            out[vi] = a[vi, vi]
"""


def test_a_buffer_that_two_blocks_want_differently_keeps_its_layout():
    func = prim_func(TWO_READERS)
    maps = {b.name_hint: m for b, m in suggest_layout_transforms(func, [lambda i, j: (j, i)] * 2).items()}
    names = {block: [getattr(item, "name", "block") for item in found] for block, found in maps.items()}
    assert names == {"straight": ["block", "b"], "turned": ["block", "c"]}


def test_a_block_that_does_not_write_at_its_iterators_has_no_layout():
    _, maps = maps_of(STRIDED, lambda i: (i // 2, i % 2))
    assert maps == {}


def test_an_access_at_one_iterator_twice_has_no_layout():
    _, maps = maps_of(DIAGONAL, lambda i: (i // 2, i % 2))
    assert [getattr(item, "name", "block") for item in maps["diagonal"]] == ["block", "out"]


def test_suggestions_can_be_applied():
    func, maps = maps_of(REDUCED, lambda i, j: (j, i))
    schedule = tir.Schedule(func)
    block = schedule.get_block("sum")
    schedule.transform_block_layout(block, next(iter(maps["sum"].values())))
    args = [numbers(3, 32, 5, 7), numbers(3, 32)]
    before, after = interpreted(func, *args), interpreted(schedule.mod["main"], *args)
    assert abs(before[1] - after[1]).max() < 1e-4


@pytest.mark.parametrize(
    "transforms, message",
    [([], "the kernel writes 1 buffers, found 0 maps"), ([lambda i: (i,)], "out has 2 dimensions, its map takes 1")],
)
def test_maps_must_fit_the_outputs(transforms, message):
    with pytest.raises(DiagnosticError, match=f"E4022.*suggest_layout_transforms: {message}"):
        suggest_layout_transforms(prim_func(REDUCED), transforms)
