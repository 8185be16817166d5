"""Operators of neural networks in programs: symbolic sizes, errors of their operands and attributes, checks at run time."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from support import PLAIN_LOOPS

nn = relax.op.nn
n, m = relax.tir.SizeVar("n", "int64"), relax.tir.SizeVar("m", "int64")


def tensor(name, *shape, dtype="float32"):
    return relax.Var(name, relax.TensorStructInfo(shape, dtype))


def run(module, *arguments):
    """The result of the compiled program, which is also the interpreter's."""
    expected = relax.interpret(module, "main", *arguments)
    result = relax.VirtualMachine(relax.build(module, PLAIN_LOOPS))["main"](*arguments)
    np.testing.assert_allclose(result.numpy(), expected.numpy(), rtol=1e-5)
    return result.numpy()


def ones(*shape):
    return np.ones(shape, "float32")


def test_pad_by_symbolic_widths():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n", 2), "float32"), s: R.Shape(["m"])):
            n = T.int64()
            m = T.int64()
            y: R.Tensor((n + m - 1, 2), "float32") = R.nn.pad(x, (m, -1, 0, 0), pad_mode="constant", pad_value=5.0)
            return y

    x = np.arange(4, dtype="float32").reshape(2, 2)
    assert run(Module, x, relax.runtime.ShapeTuple([2])).tolist() == [[5, 5], [5, 5], [0, 1]]
    assert run(Module, x[:1], relax.runtime.ShapeTuple([0])).tolist() == []
    with pytest.raises(ValueError, match=r"main: a shape cannot have a negative dimension, as in \(-1, 2\)"):
        run(Module, x[:0], relax.runtime.ShapeTuple([0]))


def test_reflection_needs_an_element():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n",), "float32")):
            y = R.nn.pad(x, (2, 1), pad_mode="reflect")
            return y

    assert run(Module, np.array([1, 2, 3], "float32")).tolist() == [3, 2, 1, 2, 3, 2]
    with pytest.raises(AssertionError, match=r"dimension 0 of data must have an element to pad it with"):
        run(Module, ones(0))


def test_targets_must_be_classes():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n", 3), "float32"), t: R.Tensor(("n",), "int64")):
            y = R.nn.nll_loss(x, t, reduction="sum", ignore_index=-1)
            return y

    assert run(Module, ones(2, 3), np.array([2, -1])) == -1
    for wrong in (3, -2):
        with pytest.raises(IndexError):
            relax.VirtualMachine(relax.build(Module, PLAIN_LOOPS))["main"](ones(2, 3), np.array([0, wrong]))


def test_a_bias_of_unknown_size_may_be_one():
    @I.ir_module
    class Module:
        @R.function
        def main(q: R.Tensor((1, "n", 1, 2), "float32"), b: R.Tensor((1, 1, "m", "n"), "float32")):
            y = R.nn.attention_bias(q, q, q, b)
            return y

    q = np.random.default_rng(0).random((1, 3, 1, 2)).astype("float32")
    row = np.array([[[[0, -1, 2]]]], "float32")
    repeated = np.repeat(row, 3, 2)
    np.testing.assert_array_equal(run(Module, q, row), run(Module, q, repeated))


def shape_of(call):
    return str(relax.op.infer_call(call).shape)


def test_symbolic_sizes():
    image, kernel = tensor("x", 1, 4, n, n), tensor("w", 4, 6, 3, 3)
    assert shape_of(nn.conv1d(tensor("x", n, 2, m), tensor("w", 4, 2, 3), padding=1)) == "R.shape([n, 4, m])"
    assert shape_of(nn.conv2d_transpose(image, kernel, strides=2, padding=1)) == (
        "R.shape([1, 6, n * 2 - 1, n * 2 - 1])"
    )
    assert shape_of(nn.max_pool3d(tensor("x", 1, n, 4, 4, m), 2, 2)) == "R.shape([1, n, 2, 2, m // 2])"
    assert shape_of(nn.adaptive_avg_pool2d(image, (2, 3))) == "R.shape([1, 4, 2, 3])"
    assert shape_of(nn.pixel_shuffle(image, 2)) == "R.shape([1, 1, n * 2, n * 2])"
    assert shape_of(nn.pad(image, [0, 0, 0, 0, 1, 2, 0, m])) == "R.shape([1, 4, n + 3, n + m])"


X2, X3, X4 = tensor("x", 2, 3), tensor("x", 2, 3, 4), tensor("x", 2, 4, 5, 5)
W3, ROW = tensor("w", 3, 3, 2), tensor("r", 3)
WHOLE = tensor("t", 2, dtype="int64")

ERRORS = {
    "conv1d: strides must be 1 number, at least 1, found (0,)": lambda: nn.conv1d(X3, W3, strides=0),
    "conv3d: padding must be 1, 3 or 6 numbers, each at least 0, found (1, 1)": lambda: nn.conv3d(
        tensor("x", 1, 1, 2, 2, 2), tensor("w", 1, 1, 1, 1, 1), padding=(1, 1)
    ),
    "conv1d: data must have 3 dimensions (NCW), found 4": lambda: nn.conv1d(X4, W3),
    "conv1d: the window is larger than the padded data along W": lambda: nn.conv1d(X3, tensor("w", 1, 3, 6)),
    "conv2d_transpose: the channels of data and weight differ": lambda: nn.conv2d_transpose(
        X4, tensor("w", 3, 1, 2, 2)
    ),
    "conv2d_transpose: 4 input channels cannot be split into 3 groups": lambda: nn.conv2d_transpose(
        X4, tensor("w", 4, 1, 2, 2), groups=3
    ),
    "conv1d_transpose: output_padding must be 1 number, at least 0, found (-1,)": lambda: nn.conv1d_transpose(
        X3, W3, output_padding=-1
    ),
    "avg_pool1d: data must be a tensor of floating point, found int64": lambda: nn.avg_pool1d(
        tensor("x", 1, 1, 2, dtype="int64")
    ),
    "max_pool1d: layout must be a permutation of 'NCW', found 'NCHW'": lambda: nn.max_pool1d(X3, layout="NCHW"),
    "adaptive_avg_pool2d: output_size must be 1 or 2 numbers, each at least 1, found (0, 0)": lambda: (
        nn.adaptive_avg_pool2d(X4, 0)
    ),
    "pad: pad_width must be 4 numbers, 2 per dimension of data, found 3": lambda: nn.pad(X2, [1, 1, 1]),
    "pad: pad_width must be a tuple of integers": lambda: nn.pad(X2, [1.5, 1, 1, 1]),
    "pad: dimension 1 of data has fewer than 4 elements to drop": lambda: nn.pad(X2, [0, 0, -2, -2]),
    "pad: dimension 0 of data must have an element to pad it with (pad_mode 'circular')": lambda: nn.pad(
        tensor("x", 0), [1, 0], pad_mode="circular"
    ),
    "pad: pad_value must be a value of int8, found 300": lambda: nn.pad(
        tensor("x", 1, dtype="int8"), [1, 1], pad_value=300
    ),
    "pad: pad_mode: expected one of 'constant', 'reflect'": lambda: nn.pad(X2, [0, 0, 0, 0], pad_mode="mirror"),
    "pixel_shuffle: the number of channels must be a multiple of 9, found 4": lambda: nn.pixel_shuffle(X4, 3),
    "pixel_unshuffle: the height of data must be a multiple of 2, found 5": lambda: nn.pixel_unshuffle(X4, 2),
    "pixel_shuffle: data must have at least 3 dimensions (…, C, H, W), found 2": lambda: nn.pixel_shuffle(X2, 2),
    "group_norm: 3 channels cannot be split into 2 groups": lambda: nn.group_norm(X3, ROW, ROW, 2, 1, [2]),
    "group_norm: axes must be axes other than the channel_axis, found (1,)": lambda: nn.group_norm(
        X3, ROW, ROW, 3, 1, [1]
    ),
    "instance_norm: dimension 0 of gamma must be the number of channels": lambda: nn.instance_norm(
        X3, tensor("g", 2), ROW, 1, [2]
    ),
    "rms_norm: dimension 0 of weight must be the size of the normalised axis": lambda: nn.rms_norm(X3, ROW),
    "rms_norm: data and weight must have one dtype": lambda: nn.rms_norm(X2, tensor("w", 3, dtype="float16")),
    "prelu: a dimension of alpha is 2, which does not broadcast to 3": lambda: nn.prelu(X3, tensor("a", 2)),
    "prelu: alpha must have at most 2 dimensions, found 3": lambda: nn.prelu(X2, X3),
    "softplus: beta must be above 0, found 0.0": lambda: nn.softplus(X2, beta=0.0),
    "cross_entropy_with_logits: the sizes of predictions and labels differ": lambda: nn.cross_entropy_with_logits(
        X2, tensor("l", 2, 4)
    ),
    "cross_entropy_with_logits: predictions have 2 dimensions, labels 3": lambda: nn.cross_entropy_with_logits(X2, X3),
    "nll_loss: targets must have 1 dimensions, found 2": lambda: nn.nll_loss(X2, tensor("t", 2, 3, dtype="int64")),
    "nll_loss: dimension 0 of targets is 3, expected 2 as in predictions": lambda: nn.nll_loss(
        X2, tensor("t", 3, dtype="int64")
    ),
    "nll_loss: weights must have one element per class, 3, found 2": lambda: nn.nll_loss(X2, WHOLE, tensor("w", 2)),
    "nll_loss: weights must have 1 dimension, found 2": lambda: nn.nll_loss(X2, WHOLE, X2),
    "nll_loss: predictions must have a dimension of classes, found 0 dimensions": lambda: nn.nll_loss(
        tensor("x"), WHOLE
    ),
    "attention_var_len: the batch of queries must be 1, found 2": lambda: nn.attention_var_len(
        X4, X4, X4, WHOLE, WHOLE
    ),
    "attention_var_len: the numbers of sequences differ": lambda: nn.attention_var_len(
        *[tensor("q", 1, 4, 2, 2)] * 3, WHOLE, WHOLE, tensor("k", 3, dtype="int64"), WHOLE
    ),
    "attention_var_len: seqstart_q must have 1 dimension, found 3": lambda: nn.attention_var_len(
        *[tensor("q", 1, 4, 2, 2)] * 3, tensor("s", 2, 3, 4, dtype="int64"), WHOLE
    ),
}


@pytest.mark.parametrize("message", ERRORS)
def test_errors(message):
    with pytest.raises(relax.DiagnosticError) as error:
        ERRORS[message]()
    assert f"nn.{message}" in str(error.value)
