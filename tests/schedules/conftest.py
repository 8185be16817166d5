"""Helpers of the tests of schedule rules: a rule's result computes what the function computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from relax import te, tir, topi
from relax.codegen import build_module, resolve
from relax.ir import assert_structural_equal
from relax.schedules import ScheduleRule, schedule
from relax.script import from_source
from relax.target import Target
from relax.tir import PrimFunc
from support import PLAIN_LOOPS

TARGET = "llvm -mcpu=skylake-avx512"
"""Tiles of 6 x 4 vectors, wherever the tests run: what a rule makes depends on the target, the interpreter does not."""


@pytest.fixture(scope="session")
def target() -> Target:
    """A machine with 32 registers of 512 bits."""
    return resolve(TARGET)


def _arguments(shapes: Sequence[tuple[int, ...]], dtype: str) -> list[Any]:
    """Arrays of small integers, so that sums are exact in any order; the last one, the result, is full of rubbish."""
    generator = np.random.default_rng(0)
    arrays = [generator.integers(-3, 4, shape).astype(dtype) for shape in shapes]
    arrays[-1][...] = 77
    return arrays


@pytest.fixture(scope="session")
def same(target: Target) -> Callable[..., None]:
    """``same(func, rule, shapes, …)``: for each tuple of shapes, the rule's result computes what the function does.

    It is well-formed, is read as it prints, is taken by the interpreter, and by the compiler for the machine that the tests run on.
    """

    def run(func: PrimFunc, rule: ScheduleRule, *shapes: Sequence[tuple[int, ...]], dtype: str = "float32") -> None:
        arranged = schedule(func, target, [rule])
        assert arranged is not func
        assert schedule(arranged, target, [rule]) is arranged
        tir.verify_well_formed(arranged)
        assert_structural_equal(from_source(arranged.script()), arranged)
        here = schedule(func, resolve("llvm"), [rule])
        compiled, plain = build_module(here)["main"], build_module(func, PLAIN_LOOPS)["main"]
        for given in shapes:
            expected, interpreted, native = (_arguments(given, dtype) for _ in range(3))
            plain(*expected)
            tir.interpret(arranged, *interpreted, reverse_parallel=True)
            compiled(*native)
            np.testing.assert_array_equal(interpreted[-1], expected[-1])
            np.testing.assert_array_equal(native[-1], expected[-1])

    return run


LAYOUTS = {1: ("NCW", "OIW"), 2: ("NCHW", "OIHW"), 3: ("NCDHW", "OIDHW")}


class Convolution:
    """A convolution of images of `ci` channels, which may have sizes that are not known, to `co` channels."""

    def __init__(
        self,
        ci: int,
        co: int,
        size: Sequence[Any],
        kernel: Sequence[int],
        n: Any = 1,
        stride: int = 1,
        pad: int | tuple[int, ...] = 0,
        dilation: int | tuple[int, ...] = 1,
        groups: int = 1,
        dtype: str = "float32",
    ) -> None:
        self.ci, self.co, self.size, self.kernel, self.n = ci, co, size, kernel, n
        self.stride, self.pad, self.dilation, self.groups, self.dtype = stride, pad, dilation, groups, dtype

    def func(self, *behind: Callable[[te.Tensor], te.Tensor]) -> PrimFunc:
        """The convolution as a PrimFunc, with what is computed of its result by formulas."""
        x = te.placeholder((self.n, self.ci, *self.size), self.dtype, "X")
        k = te.placeholder((self.co, self.ci // self.groups, *self.kernel), self.dtype, "K")
        layouts = LAYOUTS[len(self.size)]
        y = topi.nn.conv(x, k, self.stride, self.pad, self.dilation, self.groups, *layouts)
        for formula in behind:
            y = formula(y)
        return te.create_prim_func([x, k, y])

    def shapes(self, n: int | None = None, size: Sequence[int] | None = None) -> list[tuple[int, ...]]:
        """The shapes of the data, the weights and the result, for a batch and a size of the images."""
        n, size = self.n if n is None else n, size or self.size
        axes, apart = len(self.kernel), self.dilation
        dilation = (apart,) * axes if isinstance(apart, int) else apart
        spans = (d * (taps - 1) + 1 for d, taps in zip(dilation, self.kernel, strict=True))
        pads = (self.pad,) * len(self.kernel) if isinstance(self.pad, int) else self.pad
        out = (
            (extent + 2 * pad - span) // self.stride + 1 for extent, pad, span in zip(size, pads, spans, strict=True)
        )
        weights = (self.co, self.ci // self.groups, *self.kernel)
        return [(n, self.ci, *size), weights, (n, self.co, *out)]


@pytest.fixture(scope="session")
def conv() -> type[Convolution]:
    """``conv(ci, co, size, kernel, …)``: a convolution for the tests of its rules."""
    return Convolution
