"""Random numbers: ``relax.op.random.uniform``, ….

Tensors are pure functions of a seed. `random.seed` returns a different seed at each call, which is an effect.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from .. import topi
from ..expr import Call
from ..ir import DataType
from ..runtime.rounding import convert_array
from ..struct_info import PrimStructInfo, ShapeStructInfo, TensorStructInfo
from ..topi.random import GOLDEN, MIXERS, digits
from .errors import DTYPES, OperatorError
from .operator import Array, Operator, namespace, operator
from .shapes import require_sizes, shaped


class Random(Operator):
    """Base class of random tensors: element i, in row-major order, is a function of the seed and i."""

    __slots__ = ()

    dtype: DataType = DataType("float32")

    def infer_from_call(
        self, call: Call, builder: Any, shape: ShapeStructInfo, seed: PrimStructInfo
    ) -> TensorStructInfo:
        plain = self.dtype.is_float and self.dtype.bits >= 16
        self.require_attribute(plain, "dtype", "a floating-point dtype of at least 16 bits")
        if not seed.dtype.is_integer:
            raise OperatorError(DTYPES, f"seed must be an integer, found {seed.dtype!s}", operand="seed")
        require_sizes(shape)
        return shaped(call.args[0], shape, self.dtype)


def _mixed(bits: Array) -> Array:
    for shift, factor in zip((30, 27), MIXERS, strict=True):
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    return bits ^ (bits >> np.uint64(31))


def _numbers(seed: int, steps: Array) -> Array:
    """Return a float64 in [0, 1) for each step."""
    start = _mixed(np.array([(seed + GOLDEN) % 2**64], np.uint64))
    bits: Array = _mixed(start + steps * np.uint64(GOLDEN))
    bits = bits.reshape(steps.shape)
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _steps(shape: Sequence[int]) -> Array:
    steps: Array = np.arange(1, 1 + math.prod(shape), dtype=np.uint64)
    return steps.reshape(tuple(shape))


@operator("relax.random.uniform")
class Uniform(Random):
    """Uniform random numbers in [0, 1), determined by the seed.

    Each is a multiple of 2⁻²⁴ (of float64 2⁻⁵³, float16 2⁻¹¹, bfloat16 2⁻⁸).
    """

    compute = topi.uniform

    def reference(self, shape: Sequence[int], seed: int) -> Array:
        scale = 2.0 ** digits(self.dtype)
        return np.asarray(np.floor(_numbers(seed, _steps(shape)) * scale) / scale, self.dtype.numpy())


@operator("relax.random.normal")
class Normal(Random):
    """Random numbers of the standard normal distribution (mean 0, variance 1), determined by the seed."""

    compute = topi.normal

    def reference(self, shape: Sequence[int], seed: int) -> Array:
        steps = _steps(shape) * np.uint64(2)
        radius, turn = _numbers(seed, steps), _numbers(seed, steps + np.uint64(1))
        result = np.sqrt(-2 * np.log(1 - radius)) * np.cos(2 * np.pi * turn)
        return convert_array(np.asarray(result), self.dtype.numpy())


@operator("relax.random.seed")
class Seed(Operator):
    """An unpredictable int64 seed, different at each call, which is an effect."""

    pure: ClassVar[bool] = False
    packed: ClassVar[str | None] = "relax.run.random_seed"

    def infer(self) -> PrimStructInfo:
        return PrimStructInfo(DataType("int64"))


__all__: list[str] = []

if TYPE_CHECKING:
    from ._signatures.random import *  # noqa: F403  # pyright: ignore[reportMissingModuleSource]
else:
    __getattr__, __dir__ = namespace("relax.random.")
