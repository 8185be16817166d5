"""ConvTransposeToConv: transposed convolutions by constant weights become convolutions that give blocks of results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import relax
from relax import op
from relax.op.base import class_named, make_operator
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from relax.transform import ConvTransposeToConv
from support import PLAIN_LOOPS

rng = np.random.default_rng(4)


def test_stride_three(check):
    """The taps 0 and 3 make every third element of the whole result; the later tap comes first."""

    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n", 1, "w"), "float32")):
            with R.dataflow():
                gv = R.nn.conv1d_transpose(x, R.const([[[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]]]), strides=3, padding=1)
                R.output(gv)
            return gv

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor(("n", 1, "w"), "float32")):
            n, w = T.int64(), T.int64()
            with R.dataflow():
                lv = R.nn.conv1d(x, R.const([[[4.0, 1.0]], [[5.0, 2.0]], [[6.0, 3.0]]]), padding=(1, 1))
                lv1 = R.reshape(lv, (n, 1, 3, w + 1))
                lv2 = R.permute_dims(lv1, (0, 1, 3, 2))
                lv3 = R.reshape(lv2, (n, 1, (w + 1) * 3))
                gv = R.strided_slice(lv3, (2,), (1,), (w * 3 + 2,), assume_inbound=True)
                R.output(gv)
            return gv

    check(ConvTransposeToConv(), Before, Expected)


def transposed(x_shape: tuple[Any, ...], weight: np.ndarray, **attrs: Any) -> relax.IRModule:
    """A module of one transposed convolution by a constant; strings are names of sizes."""
    builder = relax.BlockBuilder()
    sizes = [relax.tir.Var(size, "int64") if isinstance(size, str) else size for size in x_shape]
    x = relax.Var("x", relax.TensorStructInfo(sizes, str(weight.dtype)))
    function = getattr(op.nn, f"conv{weight.ndim - 2}d_transpose")
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit_output(function(x, relax.const(weight), **attrs))
        builder.emit_func_output(y)
    return builder.finalize()


CASES = [
    ((2, 3, 6, 2), {"strides": (3, 1), "padding": (2, 0)}),
    ((2, 3, 4, 4), {}),
    ((3, 2, 8, 4), {"strides": (4, 2), "padding": (0, 3, 2, 1), "output_padding": 1}),
    ((2, 3, 16), {"strides": 8, "padding": 4}),
    ((2, 3, 20), {"strides": 2, "padding": (5, 2)}),
    ((2, 1, 2, 12, 2), {"strides": (1, 3, 2), "padding": (0, 1, 0)}),
]
DECLINED = [
    ((4, 5, 5, 5), {"padding": 2}),  # Winograd's transforms might compute the convolution
    ((4, 5, 4, 4), {"strides": 2, "padding": 1}),
    ((3, 2, 3, 3), {"strides": 2, "padding": 1, "output_padding": 1}),
    ((3, 2, 3, 3), {"padding": 1}),
    ((3, 2, 5, 3), {"strides": (2, 3), "padding": (0, 3, 2, 1), "dilation": (3, 2)}),
    ((2, 3, 2, 3), {"strides": 4}),
    ((2, 3, 8), {"strides": 2, "padding": (5, 2)}),
    ((2, 1, 2, 4, 2), {"strides": (1, 2, 2), "padding": (0, 1, 0)}),
]


@pytest.mark.parametrize(("kernel", "attrs"), [*CASES, *DECLINED])
def test_equal_to_the_operator(kernel: tuple[int, ...], attrs: dict[str, Any]):
    """One build for all sizes, with elements that are not finite."""
    weight = rng.standard_normal(kernel).astype("float32")
    count = len(kernel) - 2
    mod = transposed(("n", kernel[0], *"hwd"[:count]), weight, **attrs)
    changed = ConvTransposeToConv()(mod)
    assert (f"R.nn.conv{count}d(" in changed.script()) == ((kernel, attrs) in CASES)
    run = relax.VirtualMachine(relax.build(changed, PLAIN_LOOPS), relax.cpu())["main"]
    cls = class_named(f"relax.nn.conv{count}d_transpose")
    assert cls is not None
    operator: Any = make_operator(cls, attrs)
    for n, size in ((0, 5), (1, 1), (2, 5), (1, 17)):
        x = rng.standard_normal((n, kernel[0], *[size + d for d in range(count)])).astype("float32")
        if n == 2:
            x[0, 0, 2], x[1, 0, 0], x[1, 1, -1] = np.nan, np.inf, -np.inf
        with np.errstate(invalid="ignore"):
            expected = operator.reference(x, weight)
        np.testing.assert_allclose(run(x).numpy(), expected, 1e-4, 1e-5)


@pytest.mark.parametrize("size", [(1, 1), (3, 5), (8, 9)])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_images_of_known_sizes(size: tuple[int, int], layout: str):
    """The results of small images are lines of the weights, those of others lines of the image."""
    weight = rng.standard_normal((6, 4, 4, 4)).astype("float32")
    shape = (2, 6, *size) if layout == "NCHW" else (2, *size, 6)
    attrs: dict[str, Any] = {"strides": 2, "padding": 1, "data_layout": layout}
    run = relax.VirtualMachine(relax.build(transposed(shape, weight, **attrs), "llvm"), relax.cpu())["main"]
    cls = class_named("relax.nn.conv2d_transpose")
    assert cls is not None
    operator: Any = make_operator(cls, attrs)
    x = rng.standard_normal(shape).astype("float32")
    np.testing.assert_allclose(run(x).numpy(), operator.reference(x, weight), 1e-4, 1e-5)


def test_an_image_of_one_element():
    """The first layer of a generator: the kernel is the image."""
    weight = rng.standard_normal((8, 4, 4, 4)).astype("float64")
    run = relax.VirtualMachine(relax.build(transposed(("n", 8, 1, 1), weight), "llvm"), relax.cpu())["main"]
    x = rng.standard_normal((3, 8, 1, 1))
    np.testing.assert_allclose(run(x).numpy(), np.einsum("ni,iohw->nohw", x[:, :, 0, 0], weight), 1e-12)


@pytest.mark.parametrize(
    ("weight", "attrs"),
    [
        pytest.param(np.ones((2, 2, 3, 3), "float32"), {"strides": 2}, id="phases of one and two taps"),
        pytest.param(np.ones((2, 2, 2, 2), "float32"), {"strides": 2}, id="blocks"),
        pytest.param(np.ones((2, 2, 3, 3), "float32"), {}, id="Winograd"),
        pytest.param(np.ones((2, 2, 6, 6), "float32"), {"strides": 2}, id="Winograd of phases"),
        pytest.param(np.ones((2, 2, 4, 4), "float32"), {"strides": 2}, id="few results meet"),
        pytest.param(np.full((2, 2, 8, 8), np.inf, "float32"), {"strides": 4}, id="not finite"),
        pytest.param(np.ones((2, 2, 8, 8), "float16"), {"strides": 4}, id="narrow"),
        pytest.param(np.ones((2, 2, 8, 8), "float32"), {"strides": 4, "groups": 2}, id="groups"),
        pytest.param(np.ones((2, 2, 8, 8), "float32"), {"strides": 4, "dilation": 2}, id="dilation"),
        pytest.param(np.ones((2, 2, 8, 8), "float32"), {"strides": 4, "padding": 8}, id="padding"),
        pytest.param(np.ones((2, 2, 8, 8), "float32"), {"output_padding": 1, "strides": 4}, id="beyond"),
        pytest.param(np.ones((2, 2, 8, 8), "float32"), {"strides": 4, "kernel_layout": "OIHW"}, id="layout"),
    ],
)
def test_declines(check, weight: np.ndarray, attrs: dict[str, Any]):
    check(ConvTransposeToConv(), transposed(("n", 2, 9, 8), weight, **attrs))


def test_declines_weights_that_are_not_known(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((1, 1, 5), "float32"), w: R.Tensor((1, 1, 4), "float32")):
            with R.dataflow():
                gv = R.nn.conv1d_transpose(x, w, strides=2, padding=1)
                R.output(gv)
            return gv

    check(ConvTransposeToConv(), Before)
