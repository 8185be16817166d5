"""WordBlocked: convolutions of bfloat16 with known weights by dot products of words, in tiles of pixels by channels."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from relax import te, tir, topi
from relax.codegen import build_module, resolve
from relax.schedules.cpu import WordBlocked
from relax.schedules.cpu.words import words_for

X86 = "llvm -mtriple=x86_64-unknown-linux-gnu"
DOTS = f"{X86} -mcpu=cooperlake"
"""A machine with dot products of bfloat16."""
TILES = f"{X86} -mcpu=sapphirerapids -mattr=+amx-tile,+amx-int8,+amx-bf16"
BFLOAT = ml_dtypes.bfloat16
LAYOUTS = {1: ("NCW", "OIW"), 2: ("NCHW", "OIHW")}

CASES = {
    "a line of tiles of all heights": {"ci": 9, "co": 32, "size": (3, 18), "kernel": (3, 3), "pad": 1},
    "stride 2, several images": {"ci": 40, "co": 60, "size": (5, 14), "kernel": (3, 3), "n": 2, "stride": 2},
    "dilation, an odd number of channels": {
        "ci": 33, "co": 64, "size": (9, 31), "kernel": (3, 2), "pad": 2, "dilation": 2,
    },
    "one dimension": {"ci": 10, "co": 32, "size": (29,), "kernel": (3,), "n": 3, "pad": 1},
    "lines along the first dimension": {"ci": 10, "co": 32, "size": (40, 1), "kernel": (5, 1), "n": 2},
    "images of a pixel": {"ci": 40, "co": 96, "size": (1, 1), "kernel": (3, 3), "pad": 1},
}  # fmt: skip


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """The rule takes few channels too."""
    monkeypatch.setattr("relax.schedules.cpu.word_blocks.CHANNELS", 1)


def convolution(ci, co, size, kernel, n=1, stride=1, pad=0, dilation=1, behind=lambda y: y):
    x, w = te.placeholder((n, ci, *size), "bfloat16", "X"), te.placeholder((co, ci, *kernel), "bfloat16", "W")
    y = topi.nn.conv(x, w, stride, pad, dilation, 1, *LAYOUTS[len(size)], out_dtype="float32")
    return te.create_prim_func([x, w, behind(y)])


def computed(x, w, stride=1, pad=0, dilation=1, **_):
    """The convolution by NumPy, in float32."""
    axes = x.ndim - 2
    x = np.pad(x.astype("f4"), [(0, 0)] * 2 + [(pad, pad)] * axes)
    spans = [(taps - 1) * dilation + 1 for taps in w.shape[2:]]
    sizes = [(size - span) // stride + 1 for size, span in zip(x.shape[2:], spans, strict=True)]
    if min(sizes) < 1 or not x.shape[0]:
        return np.zeros((x.shape[0], w.shape[0], *(max(size, 0) for size in sizes)), "f4")
    windows = np.lib.stride_tricks.sliding_window_view(x, spans, tuple(range(2, 2 + axes)))
    windows = windows[(..., *(slice(None, None, stride),) * axes, *(slice(None, None, dilation),) * axes)]
    taken = windows[(slice(None),) * 2]
    form = "ncwi,oci->now" if axes == 1 else "nchwij,ocij->nohw"
    return np.einsum(form, taken, w.astype("f4"), optimize=True)


def numbers(*shape):
    """Small whole numbers, whose sums are exact."""
    return np.random.default_rng(sum(shape)).integers(-3, 4, shape).astype(BFLOAT)


def kernels(func):
    """What runs the rule's result: this machine if it has the instruction; else the interpreter, for one that has."""
    runs = []
    dtypes = func_dtypes(func)
    for name in ("llvm",) if words_for(resolve("llvm"), *dtypes) is not None else (DOTS,):
        target = resolve(name)
        packed = WordBlocked().pack(func, target, [1])
        assert packed is not None
        tir.verify_well_formed(packed.func)
        runs.append((packed, build_module(packed.func)["main"] if name == "llvm" else None))
    return runs


def test_interpreted():
    """A line of a tile and a rest, of blocks that are not full, for a machine with the instruction."""
    packed = WordBlocked().pack(convolution(5, 30, (1, 18), (1, 3), te.var("n", "int64")), resolve(DOTS), [1])
    x, w = numbers(1, 5, 1, 18), numbers(30, 5, 1, 3)
    assert packed is not None
    check(packed, None, x, w, computed(x, w))


def func_dtypes(func):
    buffers = dict(func.buffer_map)
    return (*(buffers[func.params[i]].dtype for i in (0, 1)), tir.const(0, "float32").dtype)


def check(packed, compiled, x, w, expected):
    words = np.ascontiguousarray(packed.packings[1](w))
    result = np.full(expected.shape, 77, expected.dtype)
    if compiled is None:
        tir.interpret(packed.func, x, words, result, reverse_parallel=True)
    else:
        compiled(x, words, result)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("case", CASES)
def test_known_sizes(case):
    options = CASES[case]
    x = numbers(options.get("n", 1), options["ci"], *options["size"])
    w = numbers(options["co"], options["ci"], *options["kernel"])
    for packed, compiled in kernels(convolution(**options)):
        check(packed, compiled, x, w, computed(x, w, **options))


@pytest.mark.parametrize("stride", [1, 2])
def test_one_kernel_for_all_sizes(stride):
    """Lines of every rest beside tiles of 14 pixels."""
    n, h, w = (te.var(name, "int64") for name in "nhw")
    runs = kernels(convolution(4, 30, (h, w), (3, 3), n, stride, 1))
    weights = numbers(30, 4, 3, 3)
    for packed, compiled in runs:
        widths = (1, 15) if compiled is None else (*range(1, 19), 27, 28, 29, 53)
        for batch, size in [(0, (4, 4)), (1, (0, 3)), *((1 + x % 2, (1 + x % 3, x)) for x in widths)]:
            x = numbers(batch, 4, *size)
            check(packed, compiled, x, weights, computed(x, weights, stride, 1))


def test_results_of_bfloat16():
    """What stands behind a convolution is computed in float32 and rounded once, as it is stored."""
    third = np.float32(1 / 3)

    def behind(y):
        return te.compute(y.shape, lambda *i: (y(*i) * tir.const(third, "float32")).astype("bfloat16"))

    x, w = numbers(1, 9, 3, 9), numbers(32, 9, 3, 3)
    for packed, compiled in kernels(convolution(9, 32, (3, 9), (3, 3), behind=behind)):
        check(packed, compiled, x, w, (computed(x, w) * third).astype(BFLOAT))


def test_what_is_no_number_stays_in_its_window():
    """The last of an odd number of channels fills its word with zeros, not with what is beside it."""
    x, w = numbers(1, 5, 8, 19), np.ones((32, 5, 2, 1), BFLOAT)
    x[0, 4, 1, 2], x[0, 0, 3, 8] = np.inf, np.nan
    expected = computed(x, w)
    assert np.isnan(expected).sum() == np.isinf(expected).sum() == 2 * 32
    for packed, compiled in kernels(convolution(5, 32, (8, 19), (2, 1))):
        check(packed, compiled, x, w, expected)


def test_others_are_left_alone(monkeypatch):
    func = convolution(16, 32, (9, 9), (3, 3))
    assert WordBlocked().pack(func, resolve(DOTS), []) is None
    for target in (TILES, f"{X86} -mcpu=skylake-avx512"):
        assert WordBlocked().pack(func, resolve(target), [1]) is None
    for other in (convolution(16, 32, (9, 9), (1, 1)), convolution(16, 33, (9, 9), (3, 3))):
        assert WordBlocked().pack(other, resolve(DOTS), [1]) is None
    monkeypatch.undo()
    assert WordBlocked().pack(func, resolve(DOTS), [1]) is None  # few channels
