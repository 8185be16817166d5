"""DotConvolution: convolutions of bytes and of bfloat16 by dot products of words, or in the tiles of a machine."""

from __future__ import annotations

import pytest
from applied import DOTS, TILES, X86, Applied, convolved, whole_or_anything

from relax import te, topi
from relax.schedules import schedule
from relax.schedules.cpu import Convolution, Depthwise, DotConvolution


def convolution(ci, co, size, kernel, left, right, stride=1, pad=0, dilation=1, groups=1):
    sums = "float32" if left in ("bfloat16", "float16") else "int32"
    x = te.placeholder((1, ci, *size), left, "X")
    w = te.placeholder((co, ci // groups, *kernel), right, "W")
    y = topi.nn.conv(x, w, stride, pad, dilation, groups, out_dtype=sums)
    return te.create_prim_func([x, w, y])


def check(rule, target, ci, co, size, kernel, left, right, known=False, symbolic=False, **options):
    """The rule's function computes the convolution: compiled for this machine, or in the interpreter."""
    shape = [te.var(name, "int64") for name in "hw"] if symbolic else size
    func = convolution(ci, co, shape, kernel, left, right, **options)
    x = whole_or_anything((1, ci, *size), left)
    w = whole_or_anything((co, ci // options.get("groups", 1), *kernel), right, 1)
    Applied(rule, func, target, known=[1] * known).computes(convolved(x, w, **options), x, w)


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize(("left", "right"), [("uint8", "int8"), ("int8", "int8"), ("uint8", "uint8")])
def test_bytes(left, right, known):
    """Six channels are a word and a half; padding is 0 although the first bits of int8 are flipped."""
    check(DotConvolution(), "llvm", 6, 7, (8, 19), (3, 3), left, right, known, pad=1)
    check(DotConvolution(), "llvm", 16, 22, (11, 9), (1, 1), left, right, known, stride=2)


@pytest.mark.parametrize("target", [DOTS, f"{X86} -mcpu=x86-64-v3"])
def test_machines(target):
    check(DotConvolution(), target, 6, 5, (6, 6), (3, 3), "int8", "int8", known=True, pad=1)


def test_bfloat16():
    """With dot products, an odd channel is half of a word; tiles take 32 numbers a step."""
    args = (9, 12, (4, 4), (2, 2), "bfloat16", "bfloat16")
    check(DotConvolution(), DOTS, *args, pad=1)
    args = (33, 12, (3, 5), (2, 2), "bfloat16", "bfloat16")
    check(DotConvolution(), TILES, *args, known=True, pad=1)


def test_groups_dilation_and_images_that_are_not_known():
    check(DotConvolution(), "llvm", 16, 8, (9, 9), (3, 3), "int8", "int8", pad=1, groups=2)
    check(DotConvolution(), "llvm", 8, 8, (9, 20), (3, 3), "uint8", "int8", pad=2, dilation=2)
    check(DotConvolution(), "llvm", 6, 8, (9, 21), (3, 3), "int8", "int8", True, pad=1, symbolic=True)


@pytest.mark.parametrize("dtype", ["int8", "bfloat16", "float16"])
def test_narrow_numbers_without_words_are_converted_as_they_are_copied(dtype):
    check(Depthwise(), "llvm", 16, 16, (9, 21), (3, 3), dtype, dtype, pad=1, groups=16)
    check(Convolution(), "llvm", 6, 16, (9, 11), (3, 3), dtype, dtype, pad=1)


def test_refused(target):
    for func in (
        convolution(9, 9, (20, 20), (3, 3), "int8", "int8", pad=1, groups=9),
        convolution(6, 6, (20, 20), (3, 3), "int8", "int8", pad=1, groups=2),  # three channels are no words
        convolution(6, 6, (20, 20), (3, 3), "float16", "float16"),
    ):
        assert schedule(func, target, [DotConvolution()]) is func
