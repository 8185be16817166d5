"""FuseConvolutions: an expansion, a depthwise convolution and a projection become one kernel."""

from __future__ import annotations

import ml_dtypes  # noqa: F401  (NumPy knows bfloat16 by it)
import numpy as np
import pytest

import relax
from relax.optimize import FuseConvolutions
from relax.schedules.cpu.convolutions.chains.chain import link_of
from relax.script import relax as R
from relax.transform import AnnotateTIROpPattern, FuseOps, FuseTIR, LegalizeOps, PassContext, Sequential
from support import PLAIN_LOOPS, same

KERNELS = Sequential([LegalizeOps(), AnnotateTIROpPattern(), FuseOps(), FuseTIR()])
SIZES = [(1, 7, 9), (2, 1, 1), (0, 3, 3), (1, 0, 2), (1, 13, 4)]


def weights(generator, *shape):
    return R.const(generator.integers(-2, 3, shape).astype("float32"))


def normalized(bb, y, generator):
    """A batch normalisation of what is known, and a bounded activation."""
    channels = y.struct_info.shape.values[1].value
    scale, shift, mean = (weights(generator, channels) for _ in range(3))
    variance = R.const(generator.integers(1, 4, channels).astype("float32"))
    y = bb.emit(R.nn.batch_norm(y, scale, shift, mean, variance, axis=1, epsilon=0.0))
    return bb.emit(R.clip(y[0], 0.0, 6.0))


def block(stride=1, residual=True, gives=(), dtype="float32", known=True, dilation=1, taps=1):
    """A block of MobileNet-V2; `gives` are the values in between that are results too."""
    generator = np.random.default_rng(0)
    bb = relax.BlockBuilder()
    n, h, w = (relax.tir.Var(name, "int64") for name in "nhw")
    x = relax.Var("x", relax.TensorStructInfo((n, 3, h, w), dtype))
    given = relax.Var("given", relax.TensorStructInfo((18, 3, 1, 1), dtype))

    def conv(data, *shape, **attrs):
        own = weights(generator, *shape)
        return bb.emit(R.nn.conv2d(data, own if dtype == "float32" else own.astype(dtype), **attrs))

    with bb.function("main", [x] if known else [x, given]):
        with bb.dataflow():
            attrs = {"strides": 2, "padding": 1} if taps > 1 else {}
            first = conv(x, 18, 3, taps, taps, **attrs) if known else bb.emit(R.nn.conv2d(x, given))
            first = normalized(bb, first, generator) if dtype == "float32" else first
            second = conv(first, 18, 1, 3, 3, strides=stride, padding=dilation, groups=18, dilation=dilation)
            second = normalized(bb, second, generator) if dtype == "float32" else second
            third = conv(second, 3, 18, 1, 1)
            values = {"first": first, "second": second, "result": bb.emit(R.add(third, x)) if residual else third}
            results = [bb.emit_output(values[name]) for name in (*gives, "result")]
        bb.emit_func_output(results[0] if len(results) == 1 else relax.Tuple(results))
    return bb.get()


def graph(mod):
    return KERNELS(relax.get_pipeline("graph")(mod))


def check_results(mod, channels, *sizes, inputs=1, target="llvm", dtype="float32", tolerance=(1e-5, 1e-4)):
    """The fused program computes what the unfused one does, whose loops are as written; returns cases (inputs, result)."""
    compiled = relax.VirtualMachine(relax.build(mod, target), relax.cpu())["main"]
    plain = relax.VirtualMachine(relax.build(mod, PLAIN_LOOPS, pipeline="unfused"), relax.cpu())["main"]
    generator, cases = np.random.default_rng(1), []
    for n, h, w in sizes:
        data = [generator.integers(-2, 3, (n, channels, h, w)).astype(dtype) for _ in range(inputs)]
        cases.append((data, plain(*data)))
        same(compiled(*data), cases[-1][1], *tolerance)
    return cases


def names(mod):
    return sorted(g.name_hint for g in mod.functions)


@pytest.mark.parametrize(("stride", "residual"), [(1, True), (1, False), (2, False)])
def test_a_block_is_one_kernel_with_the_same_results(stride, residual):
    mod = block(stride, residual)
    fused = FuseConvolutions()(graph(mod))
    assert names(fused) == ["fused_convolutions", "main"]
    assert FuseConvolutions()(fused) is fused
    relax.analysis.assert_well_formed(fused)
    for (x,), expected in check_results(mod, 3, *SIZES):
        if x.shape[2] * x.shape[3] < 20:
            same(relax.interpret(fused, "main", x), expected, 1e-5, 1e-4)


def test_a_first_layer_is_in_the_place_of_the_first():
    mod = block(1, False, taps=3)
    fused = FuseConvolutions()(graph(mod))
    assert names(fused) == ["fused_convolutions", "main"]
    relax.analysis.assert_well_formed(fused)
    check_results(mod, 3, *SIZES, (1, 40, 33))


def test_blocks_that_follow_each_other_are_calls_of_one_kernel():
    bb = relax.BlockBuilder()
    generator = np.random.default_rng(0)
    x = relax.Var("x", relax.TensorStructInfo((1, 4, 24, 24), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            y = x
            for _ in range(2):
                wide = bb.emit(R.nn.relu(bb.emit(R.nn.conv2d(y, weights(generator, 20, 4, 1, 1)))))
                mixed = bb.emit(R.nn.conv2d(wide, weights(generator, 20, 1, 3, 3), padding=1, groups=20))
                y = bb.emit(R.add(bb.emit(R.nn.conv2d(mixed, weights(generator, 4, 20, 1, 1))), y))
            gv = bb.emit_output(y)
        bb.emit_func_output(gv)
    fused = FuseConvolutions()(graph(bb.get()))
    assert names(fused) == ["fused_convolutions", "main"]
    assert fused.script().count("R.call_tir(cls.fused_convolutions,") == 2


def narrow_block(middle, rounded=True):
    """A block of bfloat16, of which the results of convolutions are rounded before others read them."""
    generator = np.random.default_rng(0)
    bb = relax.BlockBuilder()
    n, h, w = (relax.tir.Var(name, "int64") for name in "nhw")
    x = relax.Var("x", relax.TensorStructInfo((n, 4, h, w), "bfloat16"))

    def conv(data, *shape, **attrs):
        own = R.const(generator.integers(-2, 3, shape).astype(str(data.struct_info.dtype)))
        y = bb.emit(R.nn.conv2d(data, own, out_dtype="float32", **attrs))
        y = bb.emit(R.clip(bb.emit(R.multiply(y, R.const(1 / 3, "float32"))), 0.0, 6.0))
        return bb.emit(R.astype(y, "bfloat16")) if rounded else y

    with bb.function("main", [x]):
        with bb.dataflow():
            y = conv(conv(x, middle, 4, 1, 1), middle, 1, 3, 3, padding=1, groups=middle)
            gv = bb.emit_output(conv(y, 4, middle, 1, 1))
        bb.emit_func_output(gv)
    return bb.get()


def test_blocks_of_bfloat16_with_many_channels():
    mod = narrow_block(256)
    fused = FuseConvolutions()(graph(mod))
    assert names(fused) == ["fused_convolutions", "main"]
    relax.analysis.assert_well_formed(fused)
    check_results(mod, 4, *SIZES, dtype="bfloat16", tolerance=(1e-2, 1e-2))
    for kernels in (graph(narrow_block(255)), graph(narrow_block(256, rounded=False))):
        assert FuseConvolutions()(kernels) is kernels


LEFT = {
    "the first result is given away": {"gives": ("first",)},
    "the second result is given away": {"gives": ("second",)},
    "weights that are not known": {"known": False},
    "float64": {"dtype": "float64"},
    "windows with dilation": {"dilation": 2},
}


@pytest.mark.parametrize("case", LEFT)
def test_others_are_left_alone(case):
    kernels = graph(block(**LEFT[case]))
    assert FuseConvolutions()(kernels) is kernels


@pytest.mark.parametrize("place", ["first", "second", "last"])
def test_tensors_of_pixels_behind_the_first_two_keep_them_apart(place):
    generator = np.random.default_rng(0)
    bb = relax.BlockBuilder()
    n, h, w = (relax.tir.Var(name, "int64") for name in "nhw")
    x, r = (relax.Var(name, relax.TensorStructInfo((n, 4, h, w), "float32")) for name in "xr")
    with bb.function("main", [x, r]):
        with bb.dataflow():
            results = x
            for name, shape in (("first", (4, 4, 1, 1)), ("second", (4, 1, 3, 3)), ("last", (4, 4, 1, 1))):
                options = {"padding": 1, "groups": 4} if name == "second" else {}
                results = bb.emit(R.nn.conv2d(results, weights(generator, *shape), **options))
                results = bb.emit(R.add(results, r)) if name == place else results
            results = bb.emit_output(results)
        bb.emit_func_output(results)
    mod = bb.get()
    kernels = graph(mod)
    assert (FuseConvolutions()(kernels) is kernels) == (place != "last")
    check_results(mod, 4, *SIZES, inputs=2, target="llvm" if place == "last" else PLAIN_LOOPS)


def test_nothing_is_done_at_level_0():
    kernels = graph(block())
    with PassContext(opt_level=0):
        assert FuseConvolutions()(kernels) is kernels


def test_windows_with_dilation_compute_the_same():
    """There are no loops by rows for them: the rule of each convolution arranges it."""
    check_results(block(dilation=2), 3, (1, 8, 9))


@pytest.mark.parametrize("dilation", [1, 2])
def test_kinds_of_convolutions(dilation):
    kernels = graph(block(dilation=dilation))
    found = [link_of(f) for f in kernels.functions.values() if isinstance(f, relax.tir.PrimFunc)]
    assert sorted(link.is_depthwise for link in found) == [False, False, True]
    assert sorted(link.windows.axes[0].taps for link in found) == [1, 1, 3]
    assert all(link.windows.axes[0].dilation == (dilation if link.is_depthwise else 1) for link in found)
