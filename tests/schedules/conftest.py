"""Helpers of the tests of schedule rules: a rule's result computes what the function computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from relax import tir
from relax.codegen import build_module, resolve
from relax.schedules import ScheduleRule, schedule
from relax.target import Target
from relax.tir import PrimFunc

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

    It is well-formed, is taken by the interpreter, and by the compiler for the machine that the tests run on.
    """

    def run(
        func: PrimFunc, rule: ScheduleRule, *shapes: Sequence[tuple[int, ...]], dtype: str = "float32"
    ) -> None:
        arranged = schedule(func, target, [rule])
        assert arranged is not func
        assert schedule(arranged, target, [rule]) is arranged
        tir.verify_well_formed(arranged)
        here = schedule(func, resolve("llvm"), [rule])
        compiled, plain = build_module(here)["main"], build_module(func)["main"]
        for given in shapes:
            expected, interpreted, native = (_arguments(given, dtype) for _ in range(3))
            plain(*expected)
            tir.interpret(arranged, *interpreted, reverse_parallel=True)
            compiled(*native)
            np.testing.assert_array_equal(interpreted[-1], expected[-1])
            np.testing.assert_array_equal(native[-1], expected[-1])

    return run
