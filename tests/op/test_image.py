"""Operators of images, of object detection, and recurrent ones: what they infer and refuse, and whole programs."""

from __future__ import annotations

import numpy as np
import pytest

import relax
import relax.op as op
from relax.expr import ShapeExpr, Var
from relax.info.text import struct_info_text
from relax.ir import DiagnosticError
from relax.prim import Var as PrimVar
from relax.prim import mark_nonnegative
from relax.script import ir as I
from relax.script import relax as R
from relax.struct_info import ShapeStructInfo, TensorStructInfo
from support import PLAIN_LOOPS


def size(name: str) -> PrimVar:
    var = PrimVar(name, "int64")
    mark_nonnegative(var)
    return var


n, h, w = size("n"), size("h"), size("w")


def tensor(*dims, dtype: str = "float32", name: str = "x") -> Var:
    return Var(name, TensorStructInfo(dims, dtype))


image = tensor(n, 3, h, w)


@pytest.mark.parametrize(
    "build, expected",
    [
        (lambda: op.image.resize2d(image, (h * 2, w * 2)), "(n, 3, h * 2, w * 2)"),
        (lambda: op.image.resize2d(tensor(n, h, w, 3), (5, 6), layout="NHWC"), "(n, 5, 6, 3)"),
        (lambda: op.image.resize(image, (h * 2,), axes=2), "(n, 3, h * 2, w)"),
        (lambda: op.image.grid_sample(image, tensor(n, 7, w, 2), grid_layout="channels_last"), "(n, 3, 7, w)"),
        (lambda: op.image.grid_sample(image, tensor(n, 2, 7, w)), "(n, 3, 7, w)"),
        (lambda: op.image.affine_grid(tensor(n, 2, 3), (h, w)), "(n, 2, h, w)"),
        (lambda: op.vision.roi_align(image, tensor(w, 5), pooled_size=(2, 3)), "(w, 3, 2, 3)"),
        (lambda: op.vision.col2im(tensor(n, 12, 6), (3, 4), (2, 2)), "(n, 3, 3, 4)"),
    ],
)
def test_symbolic_sizes(build, expected):
    assert struct_info_text(op.infer_call(build())) == f'R.Tensor({expected}, "float32")'


def test_states_of_a_recurrent_layer():
    call = op.nn.lstm(tensor(n, w, 3), tensor(2, 16, 3), tensor(2, 16, 4), direction="bidirectional")
    every, state, cell = op.infer_call(call).fields
    assert struct_info_text(every) == 'R.Tensor((n, 2, w, 4), "float32")'
    assert struct_info_text(state) == struct_info_text(cell) == 'R.Tensor((2, w, 4), "float32")'
    call = op.nn.gru(tensor(w, n, 3), tensor(1, h * 3, 3), tensor(1, h * 3, h), layout=1)
    assert struct_info_text(op.infer_call(call).fields[0]) == 'R.Tensor((w, n, 1, h), "float32")'


def test_unknown_sizes():
    shape = Var("s", ShapeStructInfo(ndim=2))
    info = op.infer_call(op.image.resize2d(image, shape))
    assert struct_info_text(info) == 'R.Tensor(dtype="float32", ndim=4)'
    layer = op.nn.rnn(Var("x", TensorStructInfo(None, "float32", None, 3)), tensor(1, 4, 3), tensor(1, 4, 4))
    assert [field.ndim for field in op.infer_call(layer).fields] == [4, 3]


@pytest.mark.parametrize(
    "build, message",
    [
        (lambda: op.image.resize2d(tensor(n, h, w), (2, 3)), "image.resize2d: data must have 4 dimensions, found 3"),
        (lambda: op.image.resize2d(image, (2,)), "size must have one number for each of 2 resized axes, found 1"),
        (
            lambda: op.image.resize2d(image, (2, 3), method="nearest"),
            "method: expected one of 'nearest_neighbor', 'linear', 'cubic', found 'nearest'",
        ),
        (lambda: op.image.resize2d(image, (2, 3), layout="NCHW4c"), "layout must be a permutation of 'NCHW'"),
        (lambda: op.image.resize2d(image, (2, 3), roi=(1.0, 2.0)), "roi must be 4 numbers"),
        (lambda: op.image.resize2d(tensor(1, 1, 0, 2), (2, 3)), "image.resize2d: dimension 2 of data has no elements"),
        (
            lambda: op.image.resize2d(tensor(1, 1, 2, 2, dtype="bool"), (2, 3)),
            "data must be a tensor of floating point or signed integers or unsigned integers, found bool",
        ),
        (
            lambda: op.image.resize(tensor(4), (2,), method="nearest_neighbor", antialias=True),
            'antialias must be False with method "nearest_neighbor", found True',
        ),
        (lambda: op.image.resize(tensor(4), (2,), tensor(2)), "dimension 0 of scales must be 1"),
        (
            lambda: op.image.grid_sample(image, tensor(n, 3, 7, w)),
            "dimension 1 of grid must be 2, the length of its vectors",
        ),
        (
            lambda: op.image.grid_sample(tensor(1, 1, 0, 2), tensor(1, 2, 3, 3), padding_mode="border"),
            "dimension 2 of data has no elements",
        ),
        (lambda: op.image.grid_sample(image, image, layout="NC"), "layout must be a permutation of NCW, NCHW or NCDHW"),
        (
            lambda: op.image.affine_grid(tensor(n, 2, 3), (1, 2, 3)),
            "dimension 1 of data must be 3, the number of sizes",
        ),
        (lambda: op.image.affine_grid(tensor(n, 2, 3), (4,)), "size must have 2 or 3 numbers, found 1"),
        (lambda: op.vision.roi_align(image, tensor(w, 4)), "dimension 1 of rois must be 5, the numbers of a region"),
        (
            lambda: op.vision.roi_align(image, tensor(w, 5), pooled_size=0),
            "pooled_size must be 1 or 2 numbers, each at least 1",
        ),
        (
            lambda: op.vision.all_class_non_max_suppression(tensor(n, w, 5), tensor(n, 2, w), 3, 0.5),
            "vision.all_class_non_max_suppression: dimension 2 of boxes must be 4",
        ),
        (
            lambda: op.vision.all_class_non_max_suppression(tensor(n, w, 4), tensor(n, 2, w), 0.5, 0.5),
            "max_output_boxes_per_class must be an integer",
        ),
        (
            lambda: op.vision.deform_conv2d(tensor(1, 2, 4, 4), tensor(1, 8, 2, 2), tensor(3, 2, 2, 2)),
            "dimension 2 of offset must be 3",
        ),
        (
            lambda: op.vision.deform_conv2d(tensor(1, 2, 1, 4), tensor(1, 18, 2, 2), tensor(3, 2, 3, 3)),
            "the window is larger than the padded data along H",
        ),
        (lambda: op.vision.col2im(tensor(1, 7, 6), (3, 4), (2, 2)), "dimension 1 of data must be 4, a multiple"),
        (
            lambda: op.vision.col2im(tensor(1, 8, 5), (3, 4), (2, 2)),
            "dimension 2 of data must be 6, the number of blocks",
        ),
        (
            lambda: op.nn.rnn(tensor(n, w), tensor(1, 4, 3), tensor(1, 4, 4)),
            "nn.rnn: data must have 3 dimensions, found 2",
        ),
        (lambda: op.nn.gru(tensor(n, w, 3), tensor(1, 8, 3), tensor(1, 8, 4)), "dimension 1 of weight must be 12"),
        (
            lambda: op.nn.rnn(tensor(n, w, 3), tensor(1, 4, 3), tensor(1, 4, 4), activations=("Swish",)),
            "activations must be names among affine, elu",
        ),
        (
            lambda: op.nn.lstm(tensor(n, w, 3), tensor(1, 16, 3), tensor(1, 16, 4), activations=("Tanh",)),
            "activations must be 3 names",
        ),
        (lambda: op.nn.rnn(tensor(n, w, 3), tensor(1, 4, 3), tensor(1, 4, 4), clip=-1.0), "clip must be positive"),
    ],
)
def test_refused(build, message):
    with pytest.raises(DiagnosticError) as caught:
        build()
    assert message in str(caught.value)


@I.ir_module
class Detector:
    @R.function
    def main(
        boxes: R.Tensor(("b", "n", 4), "float32"),
        scores: R.Tensor(("b", "c", "n"), "float32"),
        most: R.Tensor((1,), "int64"),
    ):
        with R.dataflow():
            found = R.vision.all_class_non_max_suppression(boxes, scores, most, 0.4, 0.2)
            R.output(found)
        return found


def test_selected_boxes_are_as_many_as_the_data_say():
    rng = np.random.default_rng(3)
    vm = relax.VirtualMachine(relax.build(Detector, PLAIN_LOOPS), relax.cpu())
    counts = set()
    for images, classes, boxes in ((2, 3, 9), (1, 1, 1), (1, 2, 0)):
        corners = rng.random((images, boxes, 4)).astype("float32")
        scores = rng.random((images, classes, boxes)).astype("float32")
        arguments = (corners, scores, np.array([2]))
        rows, count = (part.numpy() for part in vm["main"](*arguments))
        for got, wanted in zip((rows, count), relax.interpret(Detector, "main", *arguments), strict=True):
            np.testing.assert_array_equal(got, wanted.numpy())
        assert rows.shape == (count[0], 3)
        counts.add(int(count[0]))
    assert len(counts) > 1


def test_nothing_is_resized_to_something():
    """A symbolic size that is 0 is found when the program runs, before anything is read."""
    x = Var("x", TensorStructInfo((1, h), "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(op.image.resize(x, ShapeExpr([4]), axes=1)))
    vm = relax.VirtualMachine(relax.build(bb.get(), PLAIN_LOOPS), relax.cpu())
    assert vm["main"](np.ones((1, 2), "float32")).numpy().tolist() == [[1.0] * 4]
    with pytest.raises(AssertionError, match="dimension 1 of data has no elements"):
        vm["main"](np.ones((1, 0), "float32"))
