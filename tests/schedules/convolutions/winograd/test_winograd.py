"""Winograd: convolutions of 3, 5 and 7 taps in tiles, within the bound of error that the rule states."""

from __future__ import annotations

import ml_dtypes  # noqa: F401  (NumPy learns bfloat16)
import numpy as np
import pytest
from applied import Applied

import relax
from relax import te, tir, topi
from relax.codegen import build_module, resolve
from relax.codegen.module import kernel_texts
from relax.farm import worker
from relax.ir import IRModule
from relax.ir.transform import PassContext
from relax.optimize import PACKED_CONSTANTS, PackConstants
from relax.schedules import schedule
from relax.schedules.cpu import RULES, Winograd
from relax.schedules.cpu.convolutions.winograd import winograd
from relax.schedules.cpu.convolutions.winograd.transforms import F23, F43, S2, KernelTransform
from relax.schedules.cpu.convolutions.winograd.winograd import ERROR, FAST_ALGORITHMS
from relax.script import relax as R
from support import MODES, numbers, parse

CASES = {
    "whole tiles": {"ci": 16, "co": 16, "size": (32, 32), "kernel": (3, 3), "pad": 1},
    "rests of tiles, channels that are no vector": {"ci": 19, "co": 17, "size": (31, 38), "kernel": (3, 3)},
    "several images": {"ci": 16, "co": 50, "size": (30, 29), "kernel": (3, 3), "n": 2, "pad": 2},
    "stride 2": {"ci": 19, "co": 40, "size": (31, 28), "kernel": (3, 3), "n": 2, "stride": 2, "pad": 1},
    "one axis": {"ci": 35, "co": 40, "size": (1031,), "kernel": (3,), "n": 2, "pad": 1},
    "5 taps of one axis": {"ci": 64, "co": 33, "size": (450,), "kernel": (5,), "pad": 2},
    "5 taps, and more zeros": {"ci": 64, "co": 33, "size": (450,), "kernel": (5,), "pad": 4},
    "7 taps of one axis": {"ci": 40, "co": 64, "size": (131,), "kernel": (7,), "n": 3, "pad": 6},
    "lines one pixel wide": {"ci": 64, "co": 40, "size": (101, 1), "kernel": (5, 1), "n": 2},
    "taps along lines": {"ci": 40, "co": 37, "size": (9, 50), "kernel": (1, 5), "n": 2, "pad": (0, 2)},
    "taps across lines": {"ci": 40, "co": 37, "size": (50, 9), "kernel": (7, 1), "n": 2, "pad": (3, 0)},
    "5×5 taps": {"ci": 19, "co": 37, "size": (13, 30), "kernel": (5, 5), "n": 2, "pad": 2},
    "5×3 taps, and more zeros": {"ci": 19, "co": 37, "size": (13, 30), "kernel": (5, 3), "pad": (4, 2)},
    "7×7 taps": {"ci": 33, "co": 18, "size": (22, 20), "kernel": (7, 7), "pad": 3},
}


def transformed(known, target="llvm"):
    """The convolution with transformed weights, and their transform."""
    run = Applied(Winograd(), known.func(), target, known=[1])
    return run, run.packings[1]


def operands(known, *size):
    """Data, weights, and a result full of rubbish."""
    x, k, y = known.shapes(*size)
    return numbers(*x), numbers(*k, seed=1), np.full(y, 77, "float32")


def within_bound(x, k, y, pad, stride=1, dilation=(1, 1)):
    """Compare with sums in float64; the bound is relative to the sum of the products' magnitudes.

    NaN and infinities are where the sums have them.
    """
    if not y.size:
        return
    axes = k.ndim - 2
    pads = (pad,) * axes if isinstance(pad, int) else pad
    padded = np.pad(x.astype("float64"), ((0, 0), (0, 0), *((p, p) for p in pads)))
    spans = [(taps - 1) * apart + 1 for taps, apart in zip(k.shape[2:], dilation, strict=False)]
    windows = np.lib.stride_tricks.sliding_window_view(padded, spans, tuple(range(2, 2 + axes)))
    windows = windows[(..., *[slice(None, None, step) for step in (*(stride,) * axes, *dilation[:axes])])]
    formula = "nchwij,ocij->nohw" if axes == 2 else "nchi,oci->noh"
    exact = np.einsum(formula, windows, k.astype("float64"), optimize=True)
    magnitude = np.einsum(formula, abs(windows), abs(k.astype("float64")), optimize=True)
    finite = np.isfinite(exact)
    np.testing.assert_array_equal(y[~finite], exact[~finite])
    assert (abs(y[finite] - exact[finite]) <= ERROR * 2.0**-24 * magnitude[finite]).all()


SPOILED = (np.inf, np.nan, -np.inf)


def spoiled(array, values=SPOILED, seed=7):
    """A copy with some elements replaced by the values, each at a place of its own."""
    array = array.copy()
    places = np.random.default_rng(seed).choice(array.size, min(len(values), array.size), replace=False)
    array.reshape(-1)[places] = values[: len(places)]
    return array


def spoiled_operands(known, *size):
    """Data with elements that are not finite, and weights some of which are 0 or not finite."""
    x, k, y = operands(known, *size)
    k[abs(k) < 0.3] = 0
    return spoiled(x), spoiled(k, SPOILED[:2], seed=8), y


@pytest.mark.parametrize("case", CASES)
def test_error(conv, case):
    known = conv(**CASES[case])
    func = known.func()
    arranged = schedule(func, resolve("llvm"), [Winograd()])
    assert (arranged is not func) == (known.stride == 1), "weights of stride 2 take too long to transform"
    kernel = build_module(arranged)["main"]
    for scale in (1, 1e-20, 1e15):
        x, k, y = operands(known)
        kernel(x * np.float32(scale), k, y)
        within_bound(x * np.float32(scale), k, y, known.pad, known.stride)
    x, k, y = spoiled_operands(known)
    kernel(x, k, y)
    within_bound(x, k, y, known.pad, known.stride)


def test_the_interpreter_agrees(target, conv):
    known = conv(16, 16, (16, 18), (3, 3))
    run = Applied(Winograd(), known.func(), target)
    assert run.func.attrs["tir.is_scheduled"]
    x, k, y = operands(known)
    within_bound(x, k, run(x, k, y), 0)


def narrow_convolution(dtype, channels=64, size=None, stride=1):
    """A convolution of narrow floats with sums of float32."""
    h, w = size or (te.var("h", "int64"), te.var("w", "int64"))
    x = te.placeholder((1, channels, h, w), dtype, "X")
    k = te.placeholder((channels, channels, 3, 3), dtype, "K")
    return te.create_prim_func([x, k, topi.nn.conv(x, k, stride, 1, out_dtype="float32")])


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_narrow_floats_are_transformed_in_float32(dtype, known):
    func = narrow_convolution(dtype, 32)
    run = Applied(Winograd(), func, "llvm -mcpu=skylake-avx512", known=[1] * known)
    run.is_for_host = True  # arranged for that machine, and compiled for this one
    for height, width in ((0, 4), (1, 1), (7, 9)):
        x, k = numbers(1, 32, height, width, dtype=dtype), numbers(32, 32, 3, 3, dtype=dtype, seed=1)
        within_bound(x, k, run(x, k, np.full(x.shape, 77, "float32")), 1)
        x = spoiled(x)
        within_bound(x, k, run(x, k, np.full(x.shape, 77, "float32")), 1)


def test_bfloat16_is_left_to_dot_products_that_are_faster():
    """Many channels of few pixels: reading larger weights takes longer than multiplying; so do steps of 2."""
    dots, tiles = (
        resolve(f"llvm -mtriple=x86_64-unknown-linux-gnu {cpu}")
        for cpu in ("-mcpu=cooperlake", "-mcpu=sapphirerapids -mattr=+amx-tile,+amx-int8,+amx-bf16")
    )
    shapes = {(64, (56, 56), 1): True, (256, (14, 14), 1): True, (512, (7, 7), 1): False, (128, (56, 56), 2): False}
    for (channels, size, stride), is_faster in shapes.items():
        func = narrow_convolution("bfloat16", channels, size, stride)
        assert bool(Winograd().pack(func, dots, [1])) == is_faster
        assert not Winograd().pack(func, tiles, [1])
    with PassContext(config={FAST_ALGORITHMS: False}):
        assert not Winograd().pack(narrow_convolution("bfloat16"), dots, [1])


SIZES = [
    (1, (1, 1)), (2, (5, 7)), (0, (4, 4)), (1, (0, 5)), (1, (3, 0)), (3, (4, 29)), (1, (13, 61)), (2, (16, 8)),
]  # fmt: skip
"""Numbers and sizes of images: nothing, a part of a tile, one more than a tile, primes, and more than one item."""


@pytest.mark.parametrize(("outputs", "stride"), [(19, 1), (19, 2), (512, 1)])
def test_one_kernel_for_all_sizes(conv, outputs, stride):
    n, h, w = (te.var(name, "int64") for name in "nhw")
    unknown = conv(16, outputs, (h, w), (3, 3), n, stride, 1)
    run, transform = transformed(unknown)
    assert (transform.rows == transform.columns) == (outputs == 19)
    for size in SIZES:
        for x, k, y in (operands(unknown, *size), spoiled_operands(unknown, *size)):
            within_bound(x, k, run(x, k, y), 1, stride)


@pytest.mark.parametrize("kernel", [(3, 3), (5, 3), (3, 5)])
@pytest.mark.parametrize("dilation", [(2, 1), (3, 1), (1, 2)])
def test_one_axis_with_dilation(conv, dilation, kernel):
    """It has the direct form, whose slots are lines, or pixels of a line, that are so far apart."""
    n, h, w = (te.var(name, "int64") for name in "nhw")
    unknown = conv(19, 37, (h, w), kernel, n, pad=(2, 1), dilation=dilation)
    run, transform = transformed(unknown)
    assert (transform.rows.exact, transform.columns.exact) == (dilation[0] > 1, dilation[1] > 1)
    for size in ((1, (9, 7)), (2, (13, 31)), (0, (16, 8))):
        x, k, y = operands(unknown, *size)
        x = spoiled(x)
        within_bound(x, k, run(x, k, y), (2, 1), dilation=dilation)


def test_few_tiles_are_divided_by_channels(conv):
    known = conv(16, 200, (8, 8), (3, 3), pad=1)
    run, transform = transformed(known, "llvm -num-cores=4")
    assert transform.groups >= 2
    x, k, y = operands(known)
    within_bound(x, k, run(x, k, y), 1)


FORMS = [
    (16, 56, 1, (4, 4)),
    (256, 14, 1, (4, 4)),
    (16, 7, 1, (1, 4)),
    (512, 7, 1, (2, 2)),
    (128, 28, 2, (2, 2)),
    (512, 7, 2, (1, 2)),
]
"""Channels, pixels of a line, stride, and the pixels of a tile."""


def test_transforms_by_the_taps_of_an_axis(target, conv):
    """Two axes of 8 slots would be too inexact: one of them has a smaller transform, or the direct form."""
    slots = {
        (3,): (1, 6),
        (5,): (1, 8),
        (7,): (1, 8),
        (1, 3): (1, 6),
        (5, 1): (8, 1),
        (3, 5): (6, 6),
        (5, 5): (6, 6),
        (7, 7): (8, 7),
        (1, 9): None,
        (4,): None,
        (1, 1): None,
    }
    for kernel, expected in slots.items():
        pad = tuple(taps // 2 for taps in kernel)
        known = conv(64, 64, (200,) if len(kernel) == 1 else (40, 40), kernel, pad=pad)
        packed = Winograd().pack(known.func(), target, [1])
        transform = packed.packings[1] if packed else None
        assert (None if transform is None else (transform.rows.slots, transform.columns.slots)) == expected


@pytest.mark.parametrize(("kernel", "size"), [((5,), ("h",)), ((3, 1), ("h", 1)), ((1, 7), (3, "h"))])
def test_lines_of_unknown_length(target, conv, monkeypatch, kernel, size):
    """One kernel for all lengths and numbers, which the interpreter computes too."""
    n, h = te.var("n", "int64"), te.var("h", "int64")
    pad = tuple(taps // 2 for taps in kernel)
    unknown = conv(32, 34, [h if s == "h" else s for s in size], kernel, n, pad=pad)
    if 3 not in size:  # an only line of few channels is taken to be short
        assert not Winograd().pack(unknown.func(), target, [1])
    monkeypatch.setattr(winograd, "WIDE", 32)
    compiled, interpreted = (transformed(unknown, machine)[0] for machine in ("llvm", target))
    for images, length in ((0, 5), (1, 0), (1, 1), (2, 4), (1, 29), (3, 150)):
        for run in (compiled, interpreted)[: 1 if length > 5 else 2]:
            x, k, y = operands(unknown, images, [length if s == "h" else s for s in size])
            within_bound(x, k, run(x, k, y), pad)


@pytest.mark.parametrize("machine", ["llvm", "llvm -mcpu=skylake-avx512"])
@pytest.mark.parametrize("known", [False, True])
def test_infinities_and_nan_go_where_sums_send_them(conv, machine, known):
    """Each pixel that meets one has it, by the signs of its weights; pixels of other windows are finite."""
    convolution = conv(16, 16, (30, 31), (3, 3), pad=1)
    run = Applied(Winograd(), convolution.func(), machine, known=[1] * known)
    x, k, y = operands(convolution)
    x[0, 3, 5, 6], x[0, 5, 20, 14], x[0, 9, 29, 30] = np.inf, np.nan, -np.inf
    k[2, 3], k[4, 0, 1, 1], k[7, 5, 2, 2] = 0, np.nan, np.inf
    within_bound(x, k, run(x, k, y), 1)
    np.testing.assert_array_equal(y[0, 0, 4:7, 5:8], np.inf * k[0, 3, ::-1, ::-1])
    np.testing.assert_array_equal(y[0, 0, 28:, 29:], -np.inf * k[0, 9, 2:0:-1, 2:0:-1])
    assert np.isnan(y[0, 0, 19:22, 13:16]).all()
    assert np.isfinite(y[0, 0]).sum() == 30 * 31 - 9 - 4 - 9
    assert np.isnan(y[0, 2, 4:7, 5:8]).all(), "infinity times 0"
    assert np.isnan(y[0, 4]).all(), "a NaN weight"
    assert np.isnan(y[0, 7, :, -1]).all(), "an infinite weight times the zeros around the image"


def with_taps(run, transform, k, value):
    """Packed weights in which the taps for direct sums are something else, where no slot is the tap."""
    packed = np.ascontiguousarray(transform(k))
    packed[:, transform.slots :] = value

    def kernel(x):
        run.kernel(x, packed, result := np.full((x.shape[0], k.shape[0], *x.shape[2:]), 77, "float32"))
        return result

    return kernel


@pytest.mark.parametrize("spoiling", [np.inf, np.nan, 2e38])
def test_only_tiles_that_meet_one_are_computed_again(conv, spoiling):
    """Taps of NaN show it: no tile of ordinary data reads them."""
    known = conv(16, 16, (24, 40), (3, 3), pad=1)
    run, transform = transformed(known)
    assert (transform.rows.m, transform.columns.m) == (4, 4)
    x, k, y = operands(known)
    k /= 64
    kernel = with_taps(run, transform, k, np.nan)
    ordinary = kernel(x)
    np.testing.assert_array_equal(ordinary, run(x, k, y))
    x[0, 3, 6, 9] = spoiling
    x[0, 3, 17, 31] = spoiling  # behind the last pixels of a tile and before the first ones of the next: both read it
    again = np.zeros((24, 40), bool)
    again[4:8, 8:12] = again[16:20, 28:36] = True
    np.testing.assert_array_equal(np.isnan(kernel(x)), np.broadcast_to(again, y.shape))
    np.testing.assert_array_equal(kernel(x)[..., ~again], ordinary[..., ~again])


def test_sums_that_overflow_in_transforms_alone_are_finite(conv):
    """Elements of 1e38 and weights below 1, in one channel: some transforms of the data have three times as much."""
    known = conv(16, 16, (16, 16), (3, 3), pad=1)
    run, transform = transformed(known)
    x, k, y = operands(known)
    x, k = np.sign(x) * np.float32(1e38), k / 16
    x[:, 1:] = 0
    assert np.isnan(with_taps(run, transform, k, np.nan)(x)).any()
    within_bound(x, k, run(x, k, y), 1)
    assert np.isfinite(y).all()


PROGRAM = """
@R.function
def main(
    x: R.Tensor(("n", 16, "h", "w"), "float32"), k: R.Tensor((16, 16, 3, 3), "float32"), b: R.Tensor((16, 1, 1), "float32")
):
    with R.dataflow():
        y = R.nn.relu(R.add(R.nn.conv2d(x, k, padding=1), b))
        z = R.add(y, x)
        R.output(z)
    return z
"""


@pytest.mark.parametrize("known", [[], ["k"], ["k", "b"]])
@pytest.mark.parametrize("mode", MODES)
def test_what_is_fused_with_it_reads_what_the_interpreter_has(known, mode):
    """The residual is the data itself; an infinite bias stays in its channel."""
    x, k, b = numbers(2, 16, 11, 14), numbers(16, 16, 3, 3, seed=1), numbers(16, 1, 1, seed=2)
    x, b[5], k[3, 3] = spoiled(x), -np.inf, 0
    mod = parse(PROGRAM)
    constants = {name: value for name, value in (("k", k), ("b", b)) if name in known}
    vm = relax.VirtualMachine(relax.build(mod, "llvm", params=constants, exec_mode=mode), relax.cpu())
    operands = [value for name, value in (("k", k), ("b", b)) if name not in known]
    found, expected = vm["main"](x, *operands).numpy(), relax.interpret(mod, "main", x, k, b).numpy()
    finite = np.isfinite(expected)
    assert 0 < finite.sum() < finite.size
    np.testing.assert_array_equal(found[~finite], expected[~finite])
    np.testing.assert_allclose(found[finite], expected[finite], 1e-4, 1e-4)


def test_tiles_are_small_where_reading_the_weights_takes_longest(target, conv):
    h, w = te.var("h", "int64"), te.var("w", "int64")
    for channels, size, stride, tile in FORMS:
        known = conv(channels, channels, (size * stride, size * stride), (3, 3), stride=stride, pad=1)
        _, transform = transformed(known, target)
        assert sorted((transform.rows.m, transform.columns.m)) == sorted(tile)
        if channels > 16:
            unknown = conv(channels, channels, (h, w), (3, 3), stride=stride, pad=1)
            _, likely = transformed(unknown, target)
            forms = likely.rows, likely.columns
            assert forms == (transform.rows, transform.columns), "images of unknown size are like those"


def test_tiles_are_small_where_pixels_meet_few_elements(target, conv):
    for pad, size in ((1, 4), (2, 2)):
        _, transform = transformed(conv(16, 16, (56, 56), (3, 3), pad=pad), target)
        assert transform.rows.m == transform.columns.m == size


@pytest.mark.parametrize("stride", [1, 2])
def test_the_interpreter_agrees_for_unknown_sizes(target, conv, stride):
    h, w = te.var("h", "int64"), te.var("w", "int64")
    unknown = conv(16, 16, (h, w), (3, 3), 1, stride, 1)
    run, _ = transformed(unknown, target)
    x, k, y = operands(unknown, 1, (3, 5))
    within_bound(x, k, run(x, k, y), 1, stride)


def test_many_channels_are_added_up_in_chunks(conv):
    known = conv(421, 24, (9, 9), (3, 3), pad=1)
    run, _ = transformed(known)
    x, k, y = operands(known)
    within_bound(x, k, run(x, k, y), 1)


def test_unknown_sizes_with_weights_of_the_call(conv):
    n, h = te.var("n", "int64"), te.var("h", "int64")
    unknown = conv(16, 16, (h, 32), (3, 3), n, pad=1)
    run = Applied(Winograd(), unknown.func())
    for size in ((0, (32, 32)), (1, (1, 32)), (3, (6, 32)), (2, (0, 32))):
        x, k, y = operands(unknown, *size)
        within_bound(x, k, run(x, k, y), 1)


def test_what_stands_behind_is_computed_as_results_are_stored(conv):
    def shifted(y):
        return te.compute(y.shape, lambda *i: y(*i) * 2.0 + i[1].astype("float32"), "shifted")

    known = conv(16, 16, (32, 32), (3, 3), pad=1)
    x, k, y = operands(known)
    Applied(Winograd(), known.func(shifted))(x, k, y)
    within_bound(x, k, (y - np.arange(16, dtype="float32")[:, None, None]) / 2, 1)


@pytest.mark.parametrize("outputs", [16, 19])
def test_what_the_channel_alone_decides_is_computed_before_its_pixels(conv, outputs, target):
    known = conv(16, outputs, (9, 32), (3, 3), n=2, pad=1)
    x, w, scale = (te.placeholder(shape, name=name) for shape, name in zip(
        (*known.shapes()[:2], (outputs,)), ("X", "W", "scale"), strict=True))  # fmt: skip
    y = topi.nn.conv(x, w, 1, 1)
    z = te.compute(y.shape, lambda n, c, i, j: y(n, c, i, j) * te.rsqrt(scale(c)) + i, "scaled")
    formula = te.create_prim_func([x, w, scale, z])
    packed = Winograd().pack(formula, target, [1])
    assert packed
    lowered = tir.lower(IRModule({"main": packed.func}), target)
    (kernel,) = kernel_texts({g.name_hint: f for g, f in lowered.items()}, target)
    assert worker.in_vectors(kernel.text)
    func = schedule(formula, target, [Winograd()])
    assert func.script().count("rsqrt") == 1
    x, k, y = operands(known)
    scale = numbers(outputs, low=1, high=2)
    build_module(func)["main"](x, k, scale, y)
    lines = np.arange(9, dtype="float32")[:, None]
    within_bound(x, k, (y - lines) * np.sqrt(scale)[:, None, None], 1)


def test_others_are_left_alone(target, conv):
    others = [
        conv(16, 16, (32, 32), (3, 3), stride=3),
        conv(16, 16, (32, 32), (3, 3), dilation=2),
        conv(16, 16, (32, 32), (4, 4)),
        conv(64, 64, (32, 32), (9, 1)),
        conv(64, 64, (100,), (5,), stride=2),
        conv(64, 64, (100,), (5,), dilation=2),
        conv(16, 16, (100,), (5,)),
        conv(32, 32, (32, 32), (3, 3), groups=2),
        conv(16, 16, (32, 32), (3, 3), dtype="float64"),
        conv(16, 8, (32, 32), (3, 3)),
        conv(256, 256, (9, 9), (3, 3)),
        conv(512, 512, (te.var("h", "int64"), te.var("w", "int64")), (3, 3)),
    ]
    for other in others:
        func = other.func()
        assert schedule(func, target, [Winograd()]) is func


def test_the_switch(target, conv):
    for func in (conv(16, 16, (32, 32), (3, 3), pad=1).func(), conv(64, 64, (4000,), (5,)).func()):
        with PassContext(config={FAST_ALGORITHMS: False}):
            assert schedule(func, target, [Winograd()]) is func
            assert not Winograd().pack(func, target, [1])
        assert schedule(func, target, [Winograd()]) is not func


@pytest.mark.parametrize("case", CASES)
def test_weights_that_are_known_are_transformed_when_a_program_is_built(target, conv, case):
    known = conv(**CASES[case])
    run, _ = transformed(known, target)
    run.is_for_host = True  # arranged for that machine, and compiled for this one
    for x, k, y in (operands(known), spoiled_operands(known)):
        within_bound(x, k, run(x, k, y), known.pad, known.stride)
    assert not Winograd().pack(known.func(), target, [])
    assert not Winograd().pack(known.func(), target, [0])


@pytest.mark.parametrize(("outputs", "inputs"), [(1, 1), (7, 13), (32, 8), (67, 31)])
@pytest.mark.parametrize("transforms", [(F23, F43), (S2, S2)])
def test_the_transform_of_weights(transforms, outputs, inputs):
    """The weight of a slot, a group, a panel and a chunk is where kernels read it; channels that are none have zeros.

    So is the weight of a tap, in a row of its own unless a slot is the tap.
    """
    rows, columns = transforms
    width, panels, chunk = 8, 2, 12
    groups = -(-outputs // (panels * width))
    packing = KernelTransform(rows, columns, outputs, inputs, groups, panels, width, chunk)
    kernels = np.random.default_rng(0).standard_normal((outputs, inputs, 3, 3)).astype("float32")
    packed = packing(kernels)
    assert (packed.shape, packed.dtype) == (packing.shape, np.float32)
    g, h = np.array(rows.factors), np.array(columns.factors)
    expected = np.einsum("ai,bj,ocij->aboc", g, h, kernels.astype("float64")).astype("float32")
    expected = expected.reshape(packing.slots, outputs, inputs)
    taps = kernels.transpose(2, 3, 0, 1).reshape(9, outputs, inputs)
    own = [tap for tap, row in enumerate(packing.rows_of_taps) if row >= packing.slots]
    for tap, row in enumerate(packing.rows_of_taps):
        np.testing.assert_array_equal(np.concatenate([expected, taps[own]])[row], taps[tap])
    assert len(own) == {F23: 5, S2: 0}[rows]
    expected = np.concatenate([expected, taps[own]])
    for group, slot in np.ndindex(packed.shape[:2]):
        line = packed[group, slot]
        for first in range(0, inputs, chunk):
            size = min(chunk, inputs - first)
            part, line = line[: panels * size * width], line[panels * size * width :]
            for panel, c, p in np.ndindex(panels, size, width):
                co = (group * panels + panel) * width + p
                weight = expected[slot, co, first + c] if co < outputs else 0
                assert abs(part[(panel * size + c) * width + p] - weight) <= 2.0**-23 * abs(weight)
        assert not line.size


def test_a_program_with_known_weights(target):
    weights = np.random.default_rng(0).standard_normal((16, 16, 3, 3)).astype("float32")

    @R.function
    def main(x: R.Tensor((1, 16, 32, 32), "float32")):
        return R.nn.conv2d(x, R.const(weights), padding=1)

    mod = PackConstants(*RULES, target=target)(relax.get_pipeline("default")(IRModule.from_expr(main)))
    assert [g.name_hint for g in mod.functions] == ["main", "conv2d_packed"]
    kernel = mod["conv2d_packed"]
    groups, elements, weights = (size.value for size in kernel.buffer_map[kernel.params[1]].shape)
    assert elements == 36 + 5, "slots of a square, and the taps that none of them is"
    assert groups * weights >= 16 * 16
    assert mod.attrs[PACKED_CONSTANTS]["bytes"] == 4 * groups * elements * weights
