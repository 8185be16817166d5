"""Index maps: functions of indices as nodes, and the shapes that they make."""

from __future__ import annotations

import pytest

import relax
from relax.ir import structural_equal
from relax.prim import SizeVar, evaluate
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from relax.tir import IndexMap


def test_indices_and_shapes():
    blocked = IndexMap.from_func(lambda n, c: (n, c // 4, c % 4))
    assert [evaluate(index, {}) for index in blocked.map_indices([1, 6])] == [1, 1, 2]
    assert [evaluate(size, {}) for size in blocked.map_shape([2, 6])] == [2, 2, 4]
    n = SizeVar("n", "int64")
    assert [str(size) for size in blocked.map_shape([n, n])] == ["n", "(n + 3) // 4", "T.int64(4)"]


def test_functions_of_any_number_of_indices():
    reverse = IndexMap.from_func(lambda first, *rest: (*rest, first), ndim=3)
    assert [var.name for var in reverse.initial_indices] == ["first", "rest0", "rest1"]
    assert structural_equal(reverse, IndexMap.from_func(lambda i, j, k: (j, k, i)))
    with pytest.raises(ValueError, match="needs the number of dimensions, ndim="):
        IndexMap.from_func(lambda *i: i)


def test_wrong_number_of_indices():
    with pytest.raises(ValueError, match="the index map takes 1 indices, found 2"):
        IndexMap.from_func(lambda i: (i,)).map_indices([1, 2])
    with pytest.raises(ValueError, match="the index map takes 1 indices, found 2 dimensions"):
        IndexMap.from_func(lambda i: (i,)).map_shape([1, 2])


def test_maps_print_and_parse_back():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n", 8), "float32")):
            a = R.layout_transform(x, index_map=T.index_map(lambda i, j: (i, j // 4, j % 4)), pad_value=1)
            return R.layout_transform(a, index_map=lambda i, j, k: (i, j * 4 + k), pad_value=None)

    text = Module.script()
    assert "index_map=T.index_map(lambda i, j: (i, j // 4, j % 4)), pad_value=1)" in text
    assert structural_equal(relax.script.from_source(text, name="again.py"), Module)
