"""Pointwise: convolutions of single elements as products over pixels, in tiles along pixels or along channels."""

from __future__ import annotations

import numpy as np
import pytest
from applied import Applied, convolved, same_on_threads, whole

import relax
from relax import te, tir, topi
from relax.codegen import resolve
from relax.ir import IRModule
from relax.optimize import PACKED_CONSTANTS, PackConstants
from relax.schedules import schedule
from relax.schedules.cpu import RULES, Pointwise
from relax.schedules.cpu.convolutions.pointwise.along_channels import AlongChannels
from relax.schedules.cpu.convolutions.pointwise.loops import even_tiles
from relax.schedules.cpu.convolutions.pointwise.operands import WeightBlocks
from relax.schedules.cpu.convolutions.pointwise.pointwise import PointwiseParameters
from relax.script import relax as R
from support import nodes, numbers

CASES = {
    "whole tiles": {"ci": 8, "co": 24, "size": (8, 16)},
    "rests of tiles": {"ci": 5, "co": 29, "size": (7, 13), "n": 2},
    "a channel": {"ci": 64, "co": 1, "size": (11, 13)},
    "stride 2": {"ci": 9, "co": 20, "size": (9, 13), "stride": 2, "n": 2},
    "one dimension": {"ci": 8, "co": 16, "size": (97,)},
    "three dimensions, stride 2": {"ci": 16, "co": 20, "size": (3, 5, 9), "stride": 2},
}
SIZES = {
    1: [(1, (1, 1)), (2, (3, 5)), (0, (4, 4)), (1, (0, 3)), (2, (1, 31)), (1, (4, 8)), (1, (3, 11))],
    2: [(2, (1, 1)), (1, (5, 7)), (1, (2, 66)), (0, (3, 3))],
}
"""By the stride, batches and images: of nothing, a pixel, a tile's number of pixels, one less and one more."""


def unit(conv, **case):
    """A convolution of single elements."""
    return conv(**case, kernel=(1,) * len(case["size"]))


def packed(func, target):
    """The function with packed weights."""
    result = Applied(Pointwise(), func, target, known=[1])
    assert list(result.packings) == [1]
    return result


def same_packed(target, func, behind, *shapes, stride=1, dtype="float32"):
    """The function for packed weights computes what NumPy does and `behind` makes of it, interpreted and compiled."""
    runs = packed(func, target), packed(func, "llvm")
    for given in shapes:
        x, w, *rest = (whole(*shape, dtype=dtype, seed=i) for i, shape in enumerate(given[:-1]))
        expected = behind(convolved(x, w, stride), *rest)
        for run in runs:
            run.computes(expected, x, w, *rest)


def itself(y):
    return y


@pytest.fixture
def form(monkeypatch):
    """Sets the form of the loops: "pixels" or "channels"."""

    def choose(name):
        monkeypatch.setattr(Pointwise, "parameters", PointwiseParameters(along=name))

    return choose


@pytest.mark.parametrize("case", CASES)
def test_weights_that_are_not_known(same, conv, case):
    known = unit(conv, **CASES[case])
    same(known.func(), Pointwise(), known.shapes())


@pytest.mark.parametrize("along", ["pixels", "channels"])
@pytest.mark.parametrize("case", CASES)
def test_weights_that_are_known(target, conv, form, case, along):
    form(along)
    known = unit(conv, **CASES[case])
    same_packed(target, known.func(), itself, known.shapes(), stride=known.stride)


@pytest.mark.parametrize("tile", [(1, 1), (1, 6), (2, 3)])
@pytest.mark.parametrize("along", ["pixels", "channels"])
def test_low_tiles(conv, monkeypatch, along, tile):
    """Of a single row: no tile can be lower."""
    monkeypatch.setattr(Pointwise, "parameters", PointwiseParameters(along, tile))
    known = unit(conv, ci=9, co=35, size=(11, 13))
    x, w = (whole(*shape, seed=i) for i, shape in enumerate(known.shapes()[:2]))
    packed(known.func(), "llvm").computes(convolved(x, w, 1), x, w)


@pytest.mark.parametrize("stride", [1, 2])
def test_unknown_sizes(same, conv, stride):
    n, h, w = (te.var(name, "int64") for name in "nhw")
    unknown = unit(conv, ci=3, co=7, size=(h, w), n=n, stride=stride)
    same(unknown.func(), Pointwise(), *(unknown.shapes(*size) for size in SIZES[stride]))


@pytest.mark.parametrize("along", ["pixels", "channels"])
@pytest.mark.parametrize("stride", [1, 2])
def test_unknown_sizes_and_known_weights(target, conv, form, stride, along):
    form(along)
    n, h, w = (te.var(name, "int64") for name in "nhw")
    unknown = unit(conv, ci=2, co=35, size=(h, w), n=n, stride=stride)
    shapes = [unknown.shapes(*size) for size in SIZES[stride]]
    same_packed(target, unknown.func(), itself, *shapes, stride=stride)


@pytest.mark.parametrize(("along", "stride"), [("pixels", 1), ("channels", 1), ("channels", 2)])
@pytest.mark.parametrize("size", [(27, 29), (12, 12), (24, 24)])
def test_several_chunks_of_pixels_and_parts_of_input_channels(conv, form, along, stride, size):
    """Also chunks that do not fill vectors, of images that do: 144 pixels are two chunks of 72."""
    form(along)
    known = unit(conv, ci=200, co=70, size=size, stride=stride)
    x, w = (whole(*shape, seed=i) for i, shape in enumerate(known.shapes()[:2]))
    packed(known.func(), "llvm").computes(convolved(x, w, stride), x, w)


def test_tiles_of_two_heights_have_no_empty_rows_from_some_pixels_on():
    assert even_tiles(49, 6) == (9, 4, 5)  # 4 · 6 + 5 · 5
    for height in (1, 2, 6, 14):
        for pixels in range(300):
            count, tall, low = even_tiles(pixels, height)
            filled = tall * height + (count - tall) * low
            assert tall <= count
            assert pixels <= filled <= count * height
            assert filled == pixels or pixels < height * (height - 1)


@pytest.mark.parametrize(
    ("ci", "size", "chunks"),
    [(512, (14, 14), [96, 100]), (1024, (7, 7), [49]), (2048, (7, 7), [24, 25]), (64, (28, 28), [96, 100] * 4)],
)
def test_chunks_of_known_images_are_equal_and_fill_their_tiles(target, conv, monkeypatch, ci, size, chunks):
    """As far as half of the second-level cache allows: a chunk of a few pixels would take the time of a whole tile."""
    writers = []

    def chosen(pixels, target, *others):
        writers.append(AlongChannels(pixels, target))
        return writers[-1]

    monkeypatch.setattr("relax.schedules.cpu.convolutions.pointwise.pointwise.writer_for", chosen)
    packed(unit(conv, ci=ci, co=128, size=size).func(), target)
    (writer,) = writers
    parts, _ = writer.sizes()
    assert [int(part) for part in parts] == chunks
    assert writer.vectors == 4
    for part in chunks[:-1]:
        count, tall, low = even_tiles(part, writer.height)
        assert tall * writer.height + (count - tall) * low == part


@pytest.mark.parametrize(("along", "ci", "co"), [("channels", 170, 64), ("channels", 90, 16), ("pixels", 70, 30)])
def test_each_number_of_pixels(conv, form, along, ci, co):
    """Tiles copy pixels that the next tiles read: of whole vectors; those behind them are copied before."""
    form(along)
    n, w = te.var("n", "int64"), te.var("w", "int64")
    unknown = unit(conv, ci=ci, co=co, size=(w,), n=n)
    run, weights = packed(unknown.func(), "llvm"), whole(co, ci, 1)
    for pixels in (*range(70), *range(94, 102), *range(125, 131), 255, 256, 257, 511, 513, 1100):
        x = whole(2, ci, pixels, seed=pixels)
        run.computes(convolved(x, weights), x, weights)


@pytest.mark.parametrize("along", ["pixels", "channels"])
def test_functions_of_results(target, conv, form, along):
    """Made apart where tiles store results, so that their constants leave the registers to the sums of the tiles."""
    form(along)
    n, w = te.var("n", "int64"), te.var("w", "int64")
    unknown = unit(conv, ci=9, co=20, size=(w,), n=n)

    def func(formula):
        return unknown.func(lambda y: te.compute(y.shape, lambda *at: formula(y[at]), "made"))

    exponentials = func(tir.exp)
    assert ("tir.own_function" in packed(exponentials, target).func.script()) == (along == "pixels")
    assert "tir.own_function" not in packed(func(lambda y: y * 2.0), target).func.script()
    run, weights = packed(exponentials, "llvm"), np.float32(0.1) * numbers(20, 9, 1)
    for pixels in (0, 1, 15, 16, 31, 32, 33, 100):
        x = numbers(2, 9, pixels, seed=pixels)
        y = run(x, weights, np.full((2, 20, pixels), 77, "float32"))
        np.testing.assert_allclose(y, np.exp(convolved(x, weights)), 1e-5, err_msg=f"{pixels} pixels")


@pytest.mark.parametrize("along", ["pixels", "channels"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_no_number_stays_in_its_pixel(conv, form, along, value):
    form(along)
    n, w = te.var("n", "int64"), te.var("w", "int64")
    run, weights = (packed(unit(conv, ci=170, co=40, size=(w,), n=n).func(), "llvm"), np.ones((40, 170, 1), "f4"))
    for pixels, at in ((1, 0), (33, 32), (49, 20), (100, 99), (130, 0)):
        x = np.ones((1, 170, pixels), "float32")
        x[0, 169, at] = value
        run.computes(convolved(x, weights), x, weights)


@pytest.mark.parametrize("stride", [1, 2])
def test_several_chunks_of_unknown_images_are_equal(conv, form, stride):
    """14 × 14 pixels are two chunks of 96 and 100, and 27 × 29 are eight of at most 100."""
    form("channels")
    n, h, w = (te.var(name, "int64") for name in "nhw")
    unknown = unit(conv, ci=90, co=64, size=(h, w), n=n, stride=stride)
    run = packed(unknown.func(), "llvm")
    for batch, size in ((1, (14, 14)), (2, (27, 29)), (1, (126, 2)), (1, (5, 25)), (0, (9, 9)), (1, (0, 7))):
        x, w_ = (whole(*shape, seed=i) for i, shape in enumerate(unknown.shapes(batch, size)[:2]))
        run.computes(convolved(x, w_, stride), x, w_)


@pytest.mark.parametrize("size", [(14, 14), (7, 9), (1, 193), (28, 28)])
def test_the_last_panel_of_a_known_image_may_be_narrow(target, conv, form, size):
    """196 pixels are 13 vectors: six panels of two, and one of a vector."""
    form("pixels")
    known = unit(conv, ci=12, co=26, size=size)
    same_packed(target, known.func(), itself, known.shapes())
    if size == (14, 14):
        script = packed(known.func(), target).func.script()
        assert '16), scope="local")' in script
        assert '32), scope="local")' in script


def test_doubles(target, conv):
    double = unit(conv, ci=16, co=12, size=(7, 9), dtype="float64")
    same_packed(target, double.func(), itself, double.shapes(), dtype="float64")


def test_the_number_of_threads_changes_nothing(conv, monkeypatch):
    known = unit(conv, ci=64, co=96, size=(20, 20))
    same_on_threads(monkeypatch, Applied(Pointwise(), known.func()), *known.shapes())


# ------------------------------------------------------------------------------------- packing


def test_blocks_of_weights():
    weights = np.arange(5 * 2, dtype="float32").reshape(5, 2, 1, 1)
    overlapping, filled = (WeightBlocks(5, 2, 3, is_filled)(weights) for is_filled in (False, True))
    assert overlapping.shape == filled.shape == WeightBlocks(5, 2, 3, True).shape
    np.testing.assert_array_equal(overlapping, [[[0, 2, 4], [1, 3, 5]], [[4, 6, 8], [5, 7, 9]]])
    np.testing.assert_array_equal(filled, [[[0, 2, 4], [1, 3, 5]], [[6, 8, 0], [7, 9, 0]]])


def test_the_form_is_that_with_fewer_steps(target, conv):
    """49 pixels fill vectors badly; few input channels do not pay for transposed results."""
    h, w = te.var("h", "int64"), te.var("w", "int64")
    deep_and_small = unit(conv, ci=512, co=256, size=(7, 7))
    flat_and_small = unit(conv, ci=16, co=256, size=(7, 7))
    large = unit(conv, ci=512, co=256, size=(32, 32))
    deep, flat = (unit(conv, ci=ci, co=256, size=(h, w)) for ci in (512, 64))
    narrowing, wide = (unit(conv, ci=ci, co=64, size=(h, w)) for ci in (384, 128))
    filled = [
        packed(case.func(), target).packings[1].is_filled
        for case in (deep_and_small, flat_and_small, large, deep, flat, narrowing, wide)
    ]
    assert filled == [True, False, False, True, False, True, False]


def test_a_model_with_unknown_sizes():
    weights = whole(20, 3, 1, 1)

    @R.function
    def main(x: R.Tensor(("n", 3, "h", "w"), "float32")):
        return R.nn.relu(R.nn.conv2d(x, R.const(weights)))

    mod = PackConstants(*RULES, target=resolve("llvm"))(relax.get_pipeline("default")(IRModule.from_expr(main)))
    assert mod.attrs[PACKED_CONSTANTS]["kernels"] == 1
    vm = relax.VirtualMachine(relax.build(IRModule.from_expr(main)), relax.cpu())
    x = whole(2, 3, 5, 7, seed=1)
    np.testing.assert_array_equal(vm["main"](relax.nd.array(x)).numpy(), np.maximum(convolved(x, weights), 0))


# ------------------------------------------------------------------------------------- what stands behind


def bottleneck(h, w, n=1, ci=16, co=20):
    """A convolution, and a bias, an addition and an activation in one formula, as fusion makes it of operators."""
    x, k = te.placeholder((n, ci, h, w), name="X"), te.placeholder((co, ci, 1, 1), name="K")
    bias, rest = te.placeholder((co,), name="B"), te.placeholder((n, co, h, w), name="R")
    y = topi.nn.conv(x, k)
    zero = tir.const(0, "float32")
    out = te.compute(y.shape, lambda n, c, i, j: tir.max(y[n, c, i, j] + bias[c] + rest[n, c, i, j], zero), "out")
    return te.create_prim_func([x, k, bias, rest, out])


def bottleneck_by_numpy(y, bias, rest):
    return np.maximum(y + bias[:, None, None] + rest, 0)


def bottleneck_shapes(n, size, ci=16, co=20):
    return [(n, ci, *size), (co, ci, 1, 1), (co,), (n, co, *size), (n, co, *size)]


@pytest.mark.parametrize("along", ["pixels", "channels"])
def test_what_stands_behind_is_computed_as_results_are_stored(target, form, along):
    form(along)
    func = bottleneck(7, 7)
    same_packed(target, func, bottleneck_by_numpy, bottleneck_shapes(1, (7, 7)))
    assert "T.alloc_buffer" not in packed(func, target).func.script()


def test_what_stands_behind_of_unknown_size(target):
    n, h, w = (te.var(name, "int64") for name in "nhw")
    func = bottleneck(h, w, n)
    same_packed(target, func, bottleneck_by_numpy, *(bottleneck_shapes(*size) for size in SIZES[1][:4]))


def asked_lines(part):
    """The statements that ask for lines of results."""
    return [call for call in nodes(part, tir.Call) if call.intrinsic == "prefetch" and call.args[1].value == 1]


def steps_of(func):
    """The loops over input channels."""
    return [loop for loop in nodes(func.body, tir.For) if loop.loop_var.name == "k"]


@pytest.mark.parametrize("along", ["pixels", "channels"])
@pytest.mark.parametrize("ci", [3, 16, 200])
def test_lines_of_results_are_asked_for_while_tiles_multiply(target, form, along, ci):
    """Not all at once: they would leave the processor no buffers for what a tile reads."""
    form(along)
    h, w = (te.var(name, "int64") for name in "hw")
    func = bottleneck(h, w, ci=ci, co=40)
    arranged = packed(func, target).func
    assert asked_lines(arranged.body)
    assert len(asked_lines(arranged.body)) == sum(len(asked_lines(loop)) for loop in steps_of(arranged))
    same_packed(target, func, bottleneck_by_numpy, *(bottleneck_shapes(1, size, ci, 40) for _, size in SIZES[1]))


def test_tiles_of_few_steps_ask_for_lines_of_the_next_tile(target, form):
    form("pixels")
    h, w = (te.var(name, "int64") for name in "hw")
    asked = {}
    for ci in (32, 200):
        lines = packed(bottleneck(h, w, ci=ci, co=40), target).func.script().splitlines()
        asked[ci] = {line.rpartition(", ")[2] for line in lines if "T.prefetch(out_rows" in line}
    assert asked == {32: {"2)"}, 200: {"3)"}}


@pytest.mark.parametrize("along", ["pixels", "channels"])
def test_what_a_channel_decides_is_computed_once(target, form, along):
    form(along)
    n, h, w = (te.var(name, "int64") for name in "nhw")
    x, k, scale = (
        te.placeholder((n, 16, h, w), name="X"),
        te.placeholder((20, 16, 1, 1), name="K"),
        te.placeholder((20,), name="S"),
    )
    y = topi.nn.conv(x, k)
    out = te.compute(y.shape, lambda n, c, i, j: y[n, c, i, j] * (1.0 / tir.sqrt(scale[c] + 5.0)), "out")
    func = te.create_prim_func([x, k, scale, out])
    assert packed(func, target).func.script().count("T.sqrt") == 1
    shapes = (
        [(n, 16, *size), (20, 16, 1, 1), (20,), (n, 20, *size)] for n, size in ((1, (1, 1)), (0, (2, 2)), (2, (5, 7)))
    )
    same_packed(target, func, lambda y, scale: y * (np.float32(1) / np.sqrt(scale[:, None, None] + 5)), *shapes)


# ------------------------------------------------------------------------------------- refusals


def test_others_are_left_alone(target, conv):
    pixels, ones = (9, 9), {"ci": 16, "co": 16, "size": (9, 9), "kernel": (1, 1)}

    def shifted(y):
        return te.compute(y.shape, lambda n, c, i, j: y[n, c, i, j] + i.astype("float32"), "shifted")

    others = {
        "several elements": conv(16, 16, pixels, (3, 3)).func(),
        "padding": conv(**ones, pad=1).func(),
        "groups": conv(**ones, groups=2).func(),
        "channels whose number is not known": conv(te.var("c", "int64"), 16, pixels, (1, 1)).func(),
        "lines behind the convolution": conv(**ones).func(shifted),
        "few multiplications": conv(2, 2, pixels, (1, 1)).func(),
        "arguments that may overlap": conv(**ones).func().without_attr("tir.noalias"),
        "whole numbers": conv(**ones, dtype="int32").func(),
    }
    for reason, func in others.items():
        assert schedule(func, target, [Pointwise()]) is func, reason
        assert not Pointwise().pack(func, target, [1]), reason
    assert not Pointwise().pack(conv(**ones).func(), target, [0])


def test_weights_that_something_else_reads_too_stay_as_they_are(target):
    x, k = te.placeholder((1, 16, 9, 9), name="X"), te.placeholder((16, 16, 1, 1), name="K")
    largest = te.compute(k.shape, lambda *i: k(*i) * 2.0, "twice")
    func = te.create_prim_func([x, k, topi.nn.conv(x, k), largest])
    assert not Pointwise().pack(func, target, [1])


def test_more_groups_of_channels_than_share_them_evenly(conv):
    """33 blocks for 16 groups are 2 for each, and 3 for one."""
    h, w = te.var("h", "int64"), te.var("w", "int64")
    known = unit(conv, ci=2, co=426, size=(h, w))
    run = packed(known.func(), "llvm -mcpu=skylake-avx512 -num-cores=16")
    assert run.packings[1].shape[0] == 33
    x, k = (whole(*shape, seed=i) for i, shape in enumerate(known.shapes(size=(3, 3))[:2]))
    run.computes(convolved(x, k), x, k)
