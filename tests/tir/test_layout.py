"""Data layouts as values, and the ways between them."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest

from relax import tir
from relax.prim import SizeVar, evaluate


def numbers(values):
    return tuple(int(evaluate(value)) for value in values)


def test_axes_of_a_layout():
    layout = tir.layout("NCHW16c")
    assert isinstance(layout, tir.Layout)
    assert len(layout) == 5
    assert list(layout) == ["N", "C", "H", "W", "c"]
    assert (layout[0], layout[-1]) == ("N", "c")
    assert [layout.index_of(axis) for axis in "NCHWcO"] == [0, 1, 2, 3, 4, -1]
    assert [layout.factor_of(axis) for axis in "CcNO"] == [16, 16, -1, -1]
    assert [axis in layout for axis in ("N", "c", "16c", "8c", "O", "n")] == [True, True, True, False, False, False]


def test_several_parts_of_one_dimension():
    layout = tir.layout("OIHW4i16o4i")
    assert layout.factor_of("I") == 16
    assert layout.index_of("i") == 4
    assert layout.factor_of("o") == 16


def test_layouts_are_values():
    layout = tir.layout("NCHW16c")
    assert layout == tir.layout("NCHW16c")
    assert layout != tir.layout("NCHW")
    assert layout != tir.layout("NCHW16c", "int64")
    assert tir.layout(layout) is layout
    assert len({layout, tir.layout("NCHW16c")}) == 1
    assert (str(layout), repr(layout)) == ("NCHW16c", "Layout(NCHW16c)")
    assert pickle.loads(pickle.dumps(layout)) == layout
    way = tir.bijective_layout("NCHW", "NHWC")
    assert way == tir.bijective_layout(tir.layout("NCHW"), "NHWC")
    assert pickle.loads(pickle.dumps(way)) == way
    assert repr(way) == "BijectiveLayout(NCHW -> NHWC)"


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "'' is no layout: expected capital letters, and parts such as 16c of the dimension C$"),
        ("NC1", "'NC1' is no layout: .*, found '1'"),
        ("NC HW", "found ' HW'"),
        ("nchw", "found 'nchw'"),
        ("NHW16c", "layout NHW16c: c is a part of C, which is missing"),
        ("NCC", "layout NCC: the dimension C occurs twice"),
        ("NC0c", "layout NC0c: a part has no elements"),
    ],
)
def test_what_is_no_layout(text, message):
    with pytest.raises(ValueError, match=message):
        tir.layout(text)


@pytest.mark.parametrize("dtype", ["float32", "int32x4"])
def test_indices_of_a_layout_are_integers(dtype):
    with pytest.raises(TypeError, match=f"the indices of a layout are integers, found {dtype}"):
        tir.layout("NCHW", dtype)


def test_shapes_and_indices():
    way = tir.bijective_layout("NCHW", "NCHW16c")
    assert numbers(way.forward_shape((1, 32, 7, 7))) == (1, 2, 7, 7, 16)
    assert numbers(way.forward_shape((1, 30, 7, 7))) == (1, 2, 7, 7, 16)
    assert numbers(way.backward_shape((1, 2, 7, 7, 16))) == (1, 32, 7, 7)
    assert numbers(way.forward_index((0, 18, 6, 6))) == (0, 1, 6, 6, 2)
    assert numbers(way.backward_index((0, 1, 6, 6, 2))) == (0, 18, 6, 6)
    n, c = SizeVar("n", "int64"), SizeVar("c", "int64")
    assert [str(size) for size in way.forward_shape((n, c, 7, 7))][:2] == ["n", "(c + 15) // 16"]
    assert [str(size) for size in way.backward_shape((n, c, 7, 7, 16))][:2] == ["n", "c * 16"]
    i = tir.Var("i", "int32")
    assert [str(index) for index in way.forward_index((0, i, 0, 0))][1::3] == ["i // 16", "i % 16"]


@pytest.mark.parametrize(
    "source, target, shape",
    [
        ("NCHW", "NHWC", (2, 3, 4, 5)),
        ("NCHW", "NCHW4c", (2, 8, 3, 2)),
        ("NCHW", "NCHW4c", (1, 6, 3, 2)),
        ("NCHW", "NCHW4c", (0, 8, 1, 2)),
        ("NCHW8c", "NHWC4c", (2, 2, 3, 1, 8)),
        ("OIHW", "OIHW2i4o2i", (8, 4, 1, 3)),
        ("OI2i4o", "IO4i", (2, 4, 2, 4)),
    ],
)
def test_layouts_as_index_maps(source, target, shape):
    """The index map, the indices and the shapes agree, and the way back leads back."""
    way = tir.bijective_layout(source, target)
    index_map = way.to_index_map()
    moved_shape = numbers(way.forward_shape(shape))
    assert numbers(index_map.map_shape(shape)) == moved_shape
    array = np.arange(1, 1 + int(np.prod(shape))).reshape(shape)
    moved = index_map.map_ndarray(array)
    for place in itertools.product(*map(range, shape)):
        target_place = numbers(way.forward_index(place))
        assert moved[target_place] == array[place]
        assert numbers(way.backward_index(target_place)) == place
    back = tir.bijective_layout(target, source).to_index_map().map_ndarray(moved)
    np.testing.assert_array_equal(back[tuple(map(slice, shape))], array)
    if 6 not in shape:  # of which the last part is not filled up
        assert numbers(way.backward_shape(moved_shape)) == shape
        np.testing.assert_array_equal(index_map.inverse(shape).map_ndarray(moved), array)


@pytest.mark.parametrize("source, target", [("NCHW", "ABCD"), ("NCHW", "NCH"), ("NC", "NCHW16c")])
def test_layouts_of_other_dimensions(source, target):
    message = f"there is no way from layout {source} to {target}: only one of them has the dimension"
    with pytest.raises(ValueError, match=message):
        tir.bijective_layout(source, target)


def test_wrong_shapes_and_indices():
    way = tir.bijective_layout("NC16c", "NC")
    with pytest.raises(ValueError, match="layout NC16c has 3 dimensions, found 2 indices"):
        way.forward_index((1, 2))
    with pytest.raises(ValueError, match="layout NC has 2 dimensions, found a shape of 3"):
        way.backward_shape((1, 2, 3))
    with pytest.raises(ValueError, match="layout NC16c: the size of 16c is 16, found 8"):
        way.forward_shape((1, 2, 8))
