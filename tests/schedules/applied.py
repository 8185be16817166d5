"""Schedule rules applied: what they make of a function, run on the function's own arguments and compared with NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np

from relax import tir
from relax.codegen import build_module, resolve
from relax.schedules import ScheduleRule, schedule
from relax.target import Target
from relax.tir import PrimFunc
from support import numbers

X86 = "llvm -mtriple=x86_64-unknown-linux-gnu"
DOTS = f"{X86} -mcpu=cooperlake"
"""A machine with dot products of bytes and of bfloat16."""
TILES = f"{X86} -mcpu=sapphirerapids -mattr=+amx-tile,+amx-int8,+amx-bf16"


LARGEST_INTERPRETED: Final = 10_000
"""Multiplications up to which a function is interpreted: beyond it, compiling it takes less time."""


class Applied:
    """A rule's result for a function, called like the function itself: parameters that are `known` are packed.

    A function scheduled for another target than the host's is interpreted if it computes little or the host cannot run
    it, and compiled for the host otherwise: instructions that the host lacks are expanded to others.
    """

    def __init__(
        self, rule: ScheduleRule, func: PrimFunc, target: str | Target = "llvm", known: Sequence[int] = ()
    ) -> None:
        self.is_for_host = not isinstance(target, Target) and "-m" not in target
        resolved = resolve(target) if isinstance(target, str) else target
        self.packings: dict[int, Any] = {}
        if known:
            packed = rule.pack(func, resolved, known)
            assert packed
            self.func, self.packings = packed.func, packed.packings
            assert self.packings.keys() <= set(known)
        else:
            self.func = schedule(func, resolved, [rule])
            assert self.func is not func
            assert schedule(self.func, resolved, [rule]) is self.func
        tir.verify_well_formed(self.func)

    @cached_property
    def kernel(self) -> Any:
        """The result, compiled for the machine that the tests run on."""
        return build_module(self.func)["main"]

    @cached_property
    def multiplies_tiles(self) -> bool:
        """True if the function has products of tiles, which code generation does not expand."""
        return "T.tile_dot_" in self.func.script()

    def is_interpreted(self, args: Sequence[Any]) -> bool:
        """True if a call is interpreted; its multiplications are estimated as those of a product of its arguments."""
        largest = sorted(map(np.size, args))[-3:]
        return not self.is_for_host and (
            self.multiplies_tiles or float(np.prod(largest, dtype="float64")) <= LARGEST_INTERPRETED**2
        )

    def __call__(self, *args: Any) -> Any:
        """Run it; return the last argument, which holds what it computed."""
        given = [
            np.ascontiguousarray(self.packings[i](arg)) if i in self.packings else arg for i, arg in enumerate(args)
        ]
        if self.is_interpreted(args):
            tir.interpret(self.func, *given, reverse_parallel=True)
        else:
            self.kernel(*given)
        return args[-1]

    def computes(self, expected: np.ndarray, *args: Any) -> None:
        """Assert that it computes just what is expected of these arguments."""
        result = np.full(expected.shape, 77, expected.dtype)
        np.testing.assert_array_equal(self(*args, result), expected)


def whole(*shape: int, dtype: Any = "float32", seed: int = 0) -> np.ndarray:
    """Small whole numbers, whose sums are exact in any order."""
    return numbers(*shape, dtype="int8", low=-3, high=4, seed=seed).astype(dtype)


def anything(*shape: int, dtype: str, seed: int = 0) -> np.ndarray:
    """Whole numbers from all that an integer dtype has."""
    info = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(info.min, info.max, shape, dtype, endpoint=True)


def whole_or_anything(shape: Sequence[int], dtype: str, seed: int = 0) -> np.ndarray:
    """Small whole numbers of a floating dtype; any numbers of an integer one."""
    return anything(*shape, dtype=dtype, seed=seed) if "int" in dtype else whole(*shape, dtype=dtype, seed=seed)


def convolved(
    x: np.ndarray, w: np.ndarray, stride: Any = 1, pad: Any = 0, dilation: int = 1, groups: int = 1
) -> np.ndarray:
    """A convolution by its definition, in int32, float32 or float64: a product of matrices for each tap."""
    axes = x.ndim - 2
    strides, pads = ((of,) * axes if isinstance(of, int) else of for of in (stride, pad))
    wide = "int32" if x.dtype.kind in "iu" else "float64" if x.dtype == np.float64 else "float32"
    x = np.pad(x.astype(wide), [(0, 0), (0, 0), *((p, p) for p in pads)])
    spans = [(taps - 1) * dilation + 1 for taps in w.shape[2:]]
    sizes = [max((s - span) // by + 1, 0) for s, span, by in zip(x.shape[2:], spans, strides, strict=True)]
    result = np.zeros((len(x), len(w), *sizes), wide)
    for tap in np.ndindex(*w.shape[2:] if result.size else (0,)):
        places = (
            slice(t * dilation, t * dilation + (size - 1) * by + 1, by)
            for t, size, by in zip(tap, sizes, strides, strict=True)
        )
        pixels = np.split(x[(slice(None), slice(None), *places)], groups, axis=1)
        weights = np.split(w[(..., *tap)].astype(wide), groups)
        for part, weight, data in zip(np.split(result, groups, axis=1), weights, pixels, strict=True):
            part += np.matmul(weight, data.reshape(*data.shape[:2], -1)).reshape(part.shape)
    return result


def same_on_threads(monkeypatch: Any, run: Any, *shapes: Sequence[int]) -> None:
    """Assert that one and two threads compute the same bits of seeded data and weights; the last shape is the result's."""
    *operands, result = (numbers(*shape, seed=i) for i, shape in enumerate(shapes))
    results = []
    for threads in ("1", "2"):
        monkeypatch.setenv("RELAX_NUM_THREADS", threads)
        results.append(run(*operands, result).copy())
    np.testing.assert_array_equal(*results)
