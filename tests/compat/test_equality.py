"""Equality as TVM has it: of struct infos, tensors, shapes, and of functions with arrays among their attributes."""

from __future__ import annotations

import numpy as np

import relax
from relax import tir
from relax.ir import structural_equal, structural_hash
from relax.script import relax as R
from support import run


def test_struct_info_is_compared_by_structure():
    n, m = tir.Var("n", "int64"), tir.Var("m", "int64")
    infos = [
        R.Tensor((n, 4), "float32"), R.Tensor((m, 4), "float32"), R.Tensor((n, 4), "float16"), R.Tensor(ndim=2),
        R.Shape([n]), R.Shape(ndim=1), R.Prim("int64"), R.Prim(value=n), R.Object(), R.Tuple(R.Object()),
        R.Callable([R.Tensor((n,))], R.Tensor((n,))),
    ]  # fmt: skip
    again = [
        R.Tensor((n, 4), "float32"), R.Tensor((m, 4), "float32"), R.Tensor((n, 4), "float16"), R.Tensor(ndim=2),
        R.Shape([n]), R.Shape(ndim=1), R.Prim("int64"), R.Prim(value=n), R.Object(), R.Tuple(R.Object()),
        R.Callable([R.Tensor((n,))], R.Tensor((n,))),
    ]  # fmt: skip
    for i, a in enumerate(infos):
        for j, b in enumerate(again):
            assert (a == b) is (i == j)
            assert (a != b) is (i != j)
        assert hash(a) == hash(again[i])
    assert len({*infos, *again}) == len(infos)
    assert (infos[0] == "a tensor") is False
    # What a function type binds is its own.
    assert R.Callable([R.Tensor((n,))], R.Tensor((n,))) == R.Callable([R.Tensor((m,))], R.Tensor((m,)))


def test_a_tensor_is_equal_to_itself():
    a = relax.nd.array(np.ones(2, "float32"))
    b = relax.nd.array(np.ones(2, "float32"))
    handle = relax.nd.NDArray(a.tensor)
    assert a == a
    assert a == handle
    assert hash(a) == hash(handle)
    assert a != b
    assert (a == np.ones(2, "float32")) is False


def test_shapes_and_lists():
    shape = relax.ShapeTuple([4, 9])
    for same in ([4, 9], (4, 9), relax.ShapeTuple([4, 9])):
        assert shape == same
        assert not shape != same
        assert same == shape
    for other in ([9, 4], (4,), [], 4, "49"):
        assert shape != other
        assert not shape == other
    assert hash(shape) == hash((4, 9))
    x = relax.Var("x", R.Tensor(("n", 4), "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(relax.op.shape_of(x)))
    found = run(bb.get(), np.zeros((3, 4), "float32"))
    assert isinstance(found, relax.ShapeTuple)
    assert found == [3, 4]


def test_functions_whose_attributes_hold_arrays():
    def with_attrs(value):
        x = relax.Var("x", R.Tensor((2,), "float32"))
        attrs = {"weight": relax.nd.array(value), "list": [relax.nd.array(value)], "np": value, "text": "t"}
        return relax.Function([x], relax.SeqExpr([], x), R.Tensor((2,), "float32"), attrs=attrs)

    ones, many = np.ones(2, "float32"), np.zeros(5000, "float32")
    changed = many.copy()
    changed[2500] = 1
    for value in (ones, many):
        assert structural_equal(with_attrs(value), with_attrs(value.copy()))
        assert structural_hash(with_attrs(value)) == structural_hash(with_attrs(value.copy()))
    assert not structural_equal(with_attrs(many), with_attrs(changed))
    assert structural_hash(with_attrs(many)) != structural_hash(with_attrs(changed))
    assert not structural_equal(with_attrs(ones), with_attrs(ones.astype("float16")))
    assert not structural_equal(with_attrs(ones).with_attr("np", 1), with_attrs(ones))
