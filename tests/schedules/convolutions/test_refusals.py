"""Each rule for convolutions names the condition that keeps it from a function: `ScheduleRule.accepts`."""

from __future__ import annotations

import pytest
from applied import DOTS, TILES, X86

from relax import te, topi
from relax.codegen import resolve
from relax.ir.transform import PassContext
from relax.schedules import cpu
from relax.schedules.rule import Refusal
from relax.script import from_source
from relax.script import tir as T
from relax.tir import PrimFunc

AVX512 = f"{X86} -mcpu=skylake-avx512"
PLAIN = f"{X86} -vector-width=32"
"""A target without vectors."""
N = te.var("n", "int64")


def conv(
    inputs=32, outputs=32, size=(14, 14), kernel=(3, 3), stride=1, pad=1, groups=1, data="float32", dilation=1,
    weights=None, out=None,
) -> PrimFunc:  # fmt: skip
    x = te.placeholder((1, inputs, *size), data, "X")
    w = te.placeholder((outputs, inputs // groups, *kernel), weights or data, "W")
    layouts = {1: ("NCW", "OIW"), 2: ("NCHW", "OIHW"), 3: ("NCDHW", "OIDHW")}[len(size)]
    return te.create_prim_func([x, w, topi.nn.conv(x, w, stride, pad, dilation, groups, *layouts, out_dtype=out)])


def pool(shape, windows=(3, 3), formula=topi.nn.max_pool) -> PrimFunc:
    x = te.placeholder(shape, name="X")
    return te.create_prim_func([x, formula(x, topi.nn.Pooling(windows, 1, 0))])


def of_bytes(**sizes) -> PrimFunc:
    return conv(**{"data": "uint8", "weights": "int8", "out": "int32", **sizes})


def of_bfloat16(**sizes) -> PrimFunc:
    return conv(**{"data": "bfloat16", "out": "float32", **sizes})


ONE = {"kernel": (1, 1), "pad": 0}
FLIPPED = "sign bits must be flipped, and results corrected"
NO_DOTS = "the target has no dot products of float32, summed in float32"
REFUSALS = [
    # rule, function, target, constants, sentence
    (cpu.Convolution, conv(inputs=2, outputs=4, size=(8, 8)), AVX512, [], "only 4,608 multiplications, fewer than 8,192"),
    (cpu.Convolution, conv(data="int64"), AVX512, [], "the sum is of int64, its factors of int64"),
    (cpu.Convolution, conv().without_attr("tir.noalias"), AVX512, [], "parameters may share memory: the function lacks tir.noalias"),
    (cpu.Convolution, conv(kernel=(N, 3)), AVX512, [], "the number of taps of an axis is dynamic or 0"),
    (cpu.Convolution, conv(inputs=2 * N, outputs=8, groups=2), AVX512, [], "the groups have dynamic numbers of channels, or their channels are not consecutive"),
    (cpu.Depthwise, conv(), AVX512, [], "a single group, or groups of several input channels"),
    (cpu.Depthwise, conv(groups=4), AVX512, [], "a single group, or groups of several input channels"),
    (cpu.Depthwise, conv(groups=32, kernel=(9, 9)), AVX512, [], "windows of 81 elements, more than 49"),
    (cpu.Depthwise, conv(groups=32), PLAIN, [], "the target has no vectors"),
    (cpu.Pointwise, conv(groups=2, **ONE), AVX512, [1], "there are 2 groups"),
    (cpu.Pointwise, conv(), AVX512, [1], "the windows have 9 elements, not 1"),
    (cpu.Pointwise, conv(kernel=(1, 1), pad=1), AVX512, [1], "the data are padded"),
    (cpu.Pointwise, conv(inputs=N, **ONE), AVX512, [1], "the number of input or output channels is dynamic"),
    (cpu.Pointwise, of_bytes(**ONE), AVX512, [], "the sum is of int32, its factors of uint8 and int8"),
    (cpu.Blocked, conv(kernel=(5, 5)), AVX512, [], "the weights are not constant"),
    (cpu.Blocked, conv(kernel=(5, 5)), AVX512, [0], "the weights are not constant"),
    (cpu.Blocked, conv(size=(7, 7, 7), kernel=(3, 3, 3)), AVX512, [1], "there are 3 pixel dimensions, more than 2"),
    (cpu.Blocked, conv(**ONE), AVX512, [1], "the windows are 1×1"),
    (cpu.Blocked, conv(inputs=3), AVX512, [1], "only 27 products per pixel and channel, fewer than 48"),
    (cpu.Blocked, conv(outputs=8), AVX512, [1], "the 8 output channels do not fill a vector of at least 4 elements"),
    (cpu.Blocked, conv(data="float64"), AVX512, [1], "the sum is of float64, not of float32"),
    (cpu.FewChannels, conv(), AVX512, [1], "there are 32 input channels, not 1 to 4"),
    (cpu.FewChannels, conv(inputs=3, size=(40, 40), dilation=2), AVX512, [1], "the windows are dilated"),
    (cpu.FewChannels, conv(inputs=3, **ONE), AVX512, [1], "the windows are 1×1"),
    (cpu.FewChannels, conv(inputs=3, size=(90, 90), stride=5), AVX512, [1], "windows have gaps between rows, or a stride of more than 4 along rows"),
    (cpu.FewChannels, conv(inputs=3, size=(30, 7)), AVX512, [1], "rows do not fill a vector of at least 4 pixels"),
    (cpu.FewChannels, conv(inputs=3, size=(30, 30)), AVX512, [], "the weights are not constant"),
    (cpu.Winograd, conv(inputs=8), AVX512, [1], "only 8 input and 32 output channels, fewer than 16"),
    (cpu.Winograd, conv(inputs=64, outputs=64, kernel=(4, 4)), AVX512, [1], "no transform is for the taps, strides and dilations of an axis"),
    (cpu.Winograd, conv(inputs=256, outputs=256, size=(2, 2)), AVX512, [], "transforms take longer than they save"),
    (cpu.Winograd, conv(data="float64"), AVX512, [1], "the sum is of float64, not of float32"),
    (cpu.Winograd, of_bfloat16(inputs=64, outputs=64), TILES, [1], "the target multiplies bfloat16 in tiles, which is faster"),
    (cpu.Winograd, conv(), PLAIN, [1], "the target's vectors have fewer than 4 elements"),
    (cpu.DotConvolution, conv(), DOTS, [1], NO_DOTS),
    (cpu.DotConvolution, of_bytes(groups=32), DOTS, [], "there is a single input channel per group"),
    (cpu.DotConvolution, of_bytes(groups=16), DOTS, [], "the input channels of a group do not fill packed groups of 4"),
    (cpu.WordPixels, conv(**ONE), DOTS, [1], NO_DOTS),
    (cpu.WordPixels, of_bfloat16(**ONE), AVX512, [1], "the target has no dot products of bfloat16, summed in float32"),
    (cpu.WordPixels, of_bytes(data="int8", **ONE), DOTS, [1], FLIPPED),
    (cpu.WordPixels, of_bytes(**ONE), AVX512, [1], "the target has no instruction for s16s16 dot products"),
    (cpu.WordColumns, of_bfloat16(), DOTS, [1], "the products are not of bytes"),
    (cpu.WordColumns, of_bytes(data="int8"), DOTS, [1], FLIPPED),
    (cpu.WordColumns, of_bytes(), DOTS, [1], "only 32 output channels, fewer than 128"),
    (cpu.WordColumns, of_bytes(outputs=128, size=(56, 56)), DOTS, [1], "the copies of an image for all taps do not fit the L2 cache"),
    (cpu.WordColumns, of_bytes(outputs=128, size=(8, 60), pad=0), DOTS, [1], "the padded rows have 358 positions for 348 pixels: few are unused"),
    (cpu.WordColumns, of_bytes(outputs=128, size=(N, N)), DOTS, [1], "images are dynamic, with fewer than 65,536 weights per tap"),
    (cpu.WordBlocked, of_bytes(inputs=96, outputs=96), DOTS, [1], "the products are not of bfloat16"),
    (cpu.WordBlocked, of_bfloat16(), DOTS, [1], "only 32 × 32 channels, fewer than 9,216"),
    (cpu.WordBlocked, of_bfloat16(inputs=96, outputs=104), DOTS, [1], "panels would have 24 unused channels beside the 104 output channels"),
    (cpu.WordBlocked, of_bfloat16(inputs=96, outputs=96), DOTS, [], "the weights are not constant"),
    (cpu.ByRows, conv(), AVX512, [1], "the function is not three convolutions, with elementwise epilogues"),
    (cpu.Pooling, pool((1, 8, 40, 4)), AVX512, [], "rows of 2 results, fewer than 3"),
    (cpu.Pooling, pool((1, 8, 40, 40), (1, 17)), AVX512, [], "windows of 17 elements along rows, of which the last is 16 after the first"),
    (cpu.Pooling, pool((1, 8, 90, 9), (81, 1), topi.nn.avg_pool), AVX512, [], "sums of 81 rows, more than 80, are added in blocks"),
    (cpu.Pooling, pool((1, 8, 40, 40)).without_attr("tir.noalias"), AVX512, [], "parameters may share memory: the function lacks tir.noalias"),
    (cpu.Pooling, conv(), AVX512, [], "no nest is a sum, maximum or minimum over windows"),
    (cpu.BytePixels, of_bytes(), DOTS, [1], "no parameter is channels-last"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "func", "target", "constants", "sentence"), REFUSALS)
def test_refusals(rule, func, target, constants, sentence):
    refusal = rule().accepts(func, resolve(target), constants)
    assert isinstance(refusal, Refusal)
    assert str(refusal) == sentence


def test_refusals_of_other_kinds_of_kernels_are_marked():
    """A product of matrices is none of the convolutions that a rule refuses."""
    a, b = (te.placeholder((64, 64), name=name) for name in "AB")
    matmul = te.create_prim_func([a, b, topi.matmul(a, b)])
    for rule in (cpu.Blocked(), cpu.Winograd(), cpu.Convolution(), cpu.BytePixels()):
        assert rule.accepts(matmul, resolve(AVX512), [1]).unrelated
    assert not cpu.Convolution().accepts(conv(data="int64"), resolve(AVX512)).unrelated


def test_layouts_are_named():
    x, w = te.placeholder((1, 14, 14, 32), name="X"), te.placeholder((3, 3, 32, 32), name="W")
    last = te.create_prim_func([x, w, topi.nn.conv(x, w, 1, 1, 1, 1, "NHWC", "HWIO")])
    refusal = cpu.Convolution().accepts(last, resolve(AVX512))
    assert str(refusal) == (
        "the layout is not channels-first: weights (output channel, input channel, taps …), pixels last"
    )


def test_fast_algorithms_may_be_off():
    with PassContext(config={"relax.fast_algorithms": False}):
        assert str(cpu.Winograd().accepts(conv(), resolve(AVX512), [1])) == "relax.fast_algorithms is False"


@T.prim_func
def scaled(X: T.Buffer((64, 200), "float32"), S: T.Buffer((), "float32"), Y: T.Buffer((64,), "float32")):
    T.func_attr({"tir.noalias": True})
    for i, k in T.grid(64, 200):
        with T.block("Y"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                Y[vi] = T.float32(0)
            Y[vi] = Y[vi] + S[()] * X[vi, vk]


def test_factors_without_indices_are_no_weights():
    assert cpu.Convolution().accepts(scaled, resolve(AVX512)).unrelated


def line(index: str, size: str = "(1, 4, 130)", layout: str = "") -> PrimFunc:
    """A convolution along lines that reads the data at `index`."""
    return from_source(f"""
@T.prim_func
def line(x: T.handle, W: T.Buffer((8, 4, 3), "float32"), y: T.handle):
    T.func_attr({{"tir.noalias": True}})
    n = T.int64()
    X = T.match_buffer(x, {size}, "float32"{layout})
    Y = T.match_buffer(y, (1, 8, n), "float32")
    for b, co, p, ci, i in T.grid(1, 8, n, 4, 3):
        with T.block("Y"):
            vb, vo, vp, vc, vi = T.axis.remap("SSSRR", [b, co, p, ci, i])
            with T.init():
                Y[vb, vo, vp] = T.float32(0)
            Y[vb, vo, vp] = Y[vb, vo, vp] + W[vo, vc, vi] * X[vb, vc, {index}]
""")


@pytest.mark.parametrize(
    ("func", "sentence"),
    [
        (line("vp + vi"), "windows are not proved to end within the data"),
        (line("vp * vp + vi", "(1, 4, n * n + 2)"), "an index of the data is not of windows that move forward by constant steps"),
        (line("n - vp + vi", "(1, 4, n + 3)"), "an index of the data is not of windows that move forward by constant steps"),
        (line("vp + vi", "(1, 4, n + 2)", ", strides=(4 * n + 40, n + 10, 1)"), "the data are a view with strides or an offset"),
    ],
)  # fmt: skip
def test_indices_of_windows(func, sentence):
    assert cpu.Convolution().accepts(line("vp + vi", "(1, 4, n + 2)"), resolve(AVX512))
    assert str(cpu.Convolution().accepts(func, resolve(AVX512))) == sentence


def test_weights_of_two_convolutions_are_not_packed():
    x, w = te.placeholder((1, 32, 14, 14), name="X"), te.placeholder((32, 32, 5, 5), name="W")
    first = topi.nn.conv(x, w)
    twice = te.create_prim_func([x, w, topi.nn.conv(first, w)])
    assert str(cpu.Blocked().accepts(twice, resolve(AVX512), [1])) == "the weights have another reader"


def test_weights_of_a_dynamic_shape_are_packed_at_run_time():
    func = of_bytes(outputs=N)
    assert str(cpu.DotConvolution().pack(func, resolve(DOTS), [1])) == "the weights have a dynamic shape"
    assert cpu.DotConvolution().accepts(func, resolve(DOTS), [1])
