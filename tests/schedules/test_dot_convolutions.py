"""DotConvolution: convolutions of bytes and of bfloat16 by dot products of words, or in the tiles of a machine."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from relax import te, tir, topi
from relax.codegen import build_module, resolve
from relax.schedules import schedule
from relax.schedules.cpu import Convolution, Depthwise, DotConvolution

X86 = "llvm -mtriple=x86_64-unknown-linux-gnu"
VNNI = f"{X86} -mcpu=cooperlake"
TILES = f"{X86} -mcpu=sapphirerapids -mattr=+amx-tile,+amx-int8,+amx-bf16"


def convolution(ci, co, size, kernel, left, right, stride=1, pad=0, dilation=1, groups=1):
    sums = "float32" if left in ("bfloat16", "float16") else "int32"
    x = te.placeholder((1, ci, *size), left, "X")
    w = te.placeholder((co, ci // groups, *kernel), right, "W")
    y = topi.nn.conv(x, w, stride, pad, dilation, groups, out_dtype=sums)
    return te.create_prim_func([x, w, y]), sums


def numbers(shape, dtype, seed=0):
    generator = np.random.default_rng(seed)
    if dtype in ("bfloat16", "float16"):
        return generator.integers(-3, 4, shape).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    info = np.iinfo(dtype)
    return generator.integers(info.min, info.max, shape, endpoint=True).astype(dtype)


def expected_of(x, w, stride, pad, dilation, groups):
    """The convolution by its definition, in float64."""
    x = np.pad(x.astype("float64"), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    (co, ci, kh, kw), sizes = w.shape, x.shape[2:]
    h, w_ = ((s - (k - 1) * dilation - 1) // stride + 1 for s, k in zip(sizes, (kh, kw)))
    result = np.zeros((1, co, h, w_))
    for o in range(co):
        first = o // (co // groups) * ci
        for i in range(kh):
            for j in range(kw):
                part = x[0, first : first + ci, i * dilation :, j * dilation :]
                part = part[:, : (h - 1) * stride + 1 : stride, : (w_ - 1) * stride + 1 : stride]
                result[0, o] += np.einsum("chw,c->hw", part, w[o, :, i, j].astype("float64"))
    return result


def check(
    rule, target, ci, co, size, kernel, left, right, known=False, native=True, symbolic=False, **options
):
    """The rule's function computes the convolution: compiled for this machine, or in the interpreter."""
    shape = [te.var(name, "int64") for name in "hw"] if symbolic else size
    func, sums = convolution(ci, co, shape, kernel, left, right, **options)
    x = numbers((1, ci, *size), left)
    w = numbers((co, ci // options.get("groups", 1), *kernel), right, 1)
    options = {"stride": 1, "pad": 0, "dilation": 1, "groups": 1, **options}
    expected = expected_of(x, w, **options)
    if known:
        packed = rule.pack(func, target, [1])
        assert packed is not None
        arranged, w = packed.func, np.ascontiguousarray(packed.packings[1](w))
    else:
        arranged = schedule(func, target, [rule])
    assert arranged is not func
    tir.verify_well_formed(arranged)
    result = np.full(expected.shape, 77, sums)
    if native:
        build_module(arranged)["main"](x, w, result)
    else:
        tir.interpret(arranged, x, w, result, reverse_parallel=True)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize(("left", "right"), [("uint8", "int8"), ("int8", "int8"), ("uint8", "uint8")])
def test_bytes(left, right, known):
    """Six channels are a word and a half; padding is 0 although the first bits of int8 are flipped."""
    here = resolve("llvm")
    check(DotConvolution(), here, 6, 7, (8, 19), (3, 3), left, right, known, pad=1)
    check(DotConvolution(), here, 16, 22, (11, 9), (1, 1), left, right, known, stride=2)


@pytest.mark.parametrize("target", [VNNI, f"{X86} -mcpu=x86-64-v3"])
def test_machines(target):
    check(
        DotConvolution(),
        resolve(target),
        6,
        5,
        (6, 6),
        (3, 3),
        "int8",
        "int8",
        known=True,
        native=False,
        pad=1,
    )


def test_bfloat16():
    """With dot products, an odd channel is half of a word; tiles take 32 numbers a step."""
    args = (9, 12, (4, 4), (2, 2), "bfloat16", "bfloat16")
    check(DotConvolution(), resolve(VNNI), *args, native=False, pad=1)
    args = (33, 12, (3, 5), (2, 2), "bfloat16", "bfloat16")
    check(DotConvolution(), resolve(TILES), *args, known=True, native=False, pad=1)


def test_groups_dilation_and_images_that_are_not_known():
    here = resolve("llvm")
    check(DotConvolution(), here, 16, 8, (9, 9), (3, 3), "int8", "int8", pad=1, groups=2)
    check(DotConvolution(), here, 8, 8, (9, 20), (3, 3), "uint8", "int8", pad=2, dilation=2)
    check(DotConvolution(), here, 6, 8, (9, 21), (3, 3), "int8", "int8", True, pad=1, symbolic=True)


@pytest.mark.parametrize("dtype", ["int8", "bfloat16", "float16"])
def test_narrow_numbers_without_words_are_converted_as_they_are_copied(dtype):
    here = resolve("llvm")
    check(Depthwise(), here, 16, 16, (9, 21), (3, 3), dtype, dtype, pad=1, groups=16)
    check(Convolution(), here, 6, 16, (9, 11), (3, 3), dtype, dtype, pad=1)


def test_refused(target):
    for func, _ in (
        convolution(9, 9, (20, 20), (3, 3), "int8", "int8", pad=1, groups=9),
        convolution(6, 6, (20, 20), (3, 3), "int8", "int8", pad=1, groups=2),  # three channels are no words
        convolution(6, 6, (20, 20), (3, 3), "float16", "float16"),
    ):
        assert schedule(func, target, [DotConvolution()]) is func
