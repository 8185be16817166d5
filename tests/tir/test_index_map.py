"""Index maps: functions of indices as nodes, and the shapes that they make."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import relax
from relax import tir
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


@pytest.mark.parametrize(
    "shape, function",
    [
        ((16,), lambda i: (i // 4, i % 4)),
        ((15,), lambda i: (i // 4, i % 4)),
        ((1,), lambda i: (i // 4, i % 4)),
        ((0,), lambda i: (i // 4, i % 4)),
        ((116,), lambda i: (i % 4, i // 4 % 8, i // 32)),
        ((5,), lambda i: (i % 4 * 2 + i // 4,)),
        ((3,), lambda i: (0, i)),
        ((8, 4), lambda i, j: (i * 4 + j,)),
        ((15,), lambda i: ((i + 1) // 4, (i + 1) % 4)),
        ((14, 31), lambda i, j: ((i + 1) // 4, (j + 5) // 8, (i + 1) % 4, (j + 5) % 8)),
        ((123,), lambda i: ((i + 5) // 32, (i + 5) // 4 % 8, (i + 5) % 4)),
        ((8, 4), lambda i, j: ((i * 4 + j) // 8, (i * 4 + j) % 8)),
        ((7, 4), lambda i, j: ((i * 4 + j + 3) // 8, (i * 4 + j + 3) % 8)),
        ((5, 3, 4), lambda i, j, k: ((i * 12 + j * 4 + k) // 6, (i * 12 + j * 4 + k) % 6)),
        ((8, 3), lambda i, j: ((i // 2 * 3 + j) // 2, (i // 2 * 3 + j) % 2, i % 2)),
    ],
)
def test_inverses_and_padding(shape, function):
    """Every element is found again by the inverse; a place is padding if, and only if, nothing moves there."""
    index_map = IndexMap.from_func(function)
    final = [evaluate(size) for size in index_map.map_shape(shape)]
    inverse, padding = index_map.non_surjective_inverse(shape)
    source = np.arange(1, 1 + int(np.prod(shape))).reshape(shape)
    expected = np.zeros(final, source.dtype)
    for place in itertools.product(*map(range, shape)):
        moved = tuple(evaluate(index) for index in index_map.map_indices(place))
        assert tuple(evaluate(index) for index in inverse.map_indices(moved)) == place
        assert expected[moved] == 0
        expected[moved] = source[place]
    for place in itertools.product(*map(range, final)):
        values = dict(zip(inverse.initial_indices, place, strict=True))
        assert bool(evaluate(padding, values)) == (expected[place] == 0)
    np.testing.assert_array_equal(index_map.map_ndarray(source), expected)
    tensor = index_map.map_ndarray(relax.nd.array(source))
    np.testing.assert_array_equal(tensor.numpy(), expected)
    if (expected == 0).any():
        with pytest.raises(ValueError, match=r"leaves places empty where .*: use non_surjective_inverse"):
            index_map.inverse(shape)
    else:
        assert structural_equal(index_map.inverse(shape), inverse)


def test_inverses_of_symbolic_shapes():
    n, k = SizeVar("n", "int64"), SizeVar("k", "int64")
    blocked = IndexMap.from_func(lambda i: (i // 4, i % 4))
    expected = IndexMap.from_func(lambda a, b: (a * 4 + b,))
    inverse, padding = blocked.non_surjective_inverse([n])
    assert structural_equal(inverse, expected)
    assert str(padding) == "n <= axis0 * 4 + axis1"
    assert structural_equal(blocked.inverse([n * 4]), expected)
    with pytest.raises(ValueError, match=r"the index map of the shape \(n\) leaves places empty"):
        blocked.inverse([n])
    flat = IndexMap.from_func(lambda i, j: (i * n + j,))
    assert [str(size) for size in flat.map_shape([k, n])] == ["k * n"]
    assert str(flat.inverse([k, n])) == "T.index_map(lambda axis0: (axis0 // n, axis0 % n))"
    assert structural_equal(blocked.inverse([tir.Range(0, 8)]), expected)
    with pytest.raises(ValueError, match="an index map is of indices from 0 on, found a range from"):
        blocked.inverse([tir.Range(4, 8)])


@pytest.mark.parametrize(
    "function, shape, message",
    [
        (lambda i: (i // 4, (i + 1) % 4), (8,), "splits i unevenly"),
        (lambda i: ((i - 1) // 4, (i - 1) % 4), (8,), "moves elements to places before 0 along i"),
        (lambda i: ((i + 9) // 4, (i + 9) % 4), (8,), "moves nothing to the places before 2 along i"),
        (lambda i: (i + 1,), (8,), "the index i \\+ 1 does not begin at 0"),
        (lambda i, j: (i * 8 + j, i), (8, 8), "splits i unevenly"),
        (lambda i, j: ((i * 8 + j) // 4, (i * 8 + j) % 4), (8, 4), "has not all values below its greatest one"),
        (lambda i, j: (i * j,), (8, 4), "is not a sum of indices"),
        (lambda i: (0,), (8,), "does not tell elements apart by the whole of index i"),
    ],
)
def test_maps_without_an_inverse(function, shape, message):
    with pytest.raises(ValueError, match=message):
        IndexMap.from_func(function).non_surjective_inverse(shape)


def test_an_inverse_that_is_given_is_taken():
    n = SizeVar("n", "int64")
    reverse = IndexMap.from_func(lambda i: (n - 1 - i,), inverse_index_map=lambda a: (n - 1 - a,))
    assert reverse.inverse([n]) is reverse.inverse_index_map
    inverse, padding = reverse.non_surjective_inverse([n])
    assert inverse is reverse.inverse_index_map
    assert evaluate(padding) == 0
    assert str(reverse) == ("T.index_map(lambda i: (n - 1 - i,), inverse_index_map=lambda a: (n - 1 - a,))")
    with pytest.raises(TypeError, match="inverse_index_map: expected an index map or a function, found int"):
        IndexMap(reverse.initial_indices, reverse.final_indices, 3)


def test_axis_separators():
    separator = IndexMap.AXIS_SEPARATOR
    index_map, separators = IndexMap.from_func_with_separators(lambda n, c, h: [n, separator, c, h])
    assert separators == [1]
    assert structural_equal(index_map, IndexMap.from_func(lambda n, c, h: (n, c, h)))
    with pytest.raises(ValueError, match="use IndexMap.from_func_with_separators"):
        IndexMap.from_func(lambda n, c: [n, separator, c])


def test_dtypes_of_indices():
    narrow = IndexMap.from_func(lambda i: (i // 4, i % 4), index_dtype="int32")
    assert [str(var.dtype) for var in narrow.initial_indices] == ["int32"]
    assert {str(index.dtype) for index in narrow.inverse([16]).final_indices} == {"int32"}
    wide = IndexMap.from_func(lambda i: (i // 4, i % 4))
    for dtype in ("int32", "int64"):
        var = tir.Var("a", dtype)
        for index_map in (narrow, wide):
            assert {str(index.dtype) for index in index_map.map_indices([var])} == {dtype}
    assert [str(size.dtype) for size in narrow.map_shape([15])] == ["int64", "int64"]
    n = SizeVar("n", "int64")
    flat = IndexMap.from_func(lambda i, j: (i * n + j,))
    places = flat.map_indices([tir.Var("a", "int32"), tir.Var("b", "int32")])
    assert str(places[0].dtype) == "int64"  # n is not cut to 32 bits


def test_equivalent_maps():
    blocked = IndexMap.from_func(lambda i: (i // 4, i % 4))
    assert blocked.is_equivalent_to(IndexMap.from_func(lambda a: (a // 2 // 2, a % 4)))
    assert not blocked.is_equivalent_to(IndexMap.from_func(lambda a: (a // 2, a % 2)))
    assert not blocked.is_equivalent_to(IndexMap.from_func(lambda a: (a // 4, a % 4, 0)))
    assert not blocked.is_equivalent_to(IndexMap.from_func(lambda a, b: (a, b)))


def test_all_of_a_map_prints_and_parses_back():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((8,), "float32")):
            return R.layout_transform(
                x,
                index_map=T.index_map(
                    lambda i: (i // 4, i % 4), inverse_index_map=lambda a, b: (a * 4 + b,), index_dtype="int32"
                ),
                pad_value=None,
            )

    text = Module.script()
    assert 'lambda a, b: (a * 4 + b,), index_dtype="int32")' in text
    assert structural_equal(relax.script.from_source(text, name="again.py"), Module)
