"""Operators that move elements: padding, pixel_shuffle and its inverse, batch_flatten."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import topi
from ...info.dims import simplify_dim
from ...info.text import prim_text
from ...ir import RelaxExpr, StructInfo
from ...prim import IntImm, PrimExpr, Verdict, const, prove_equal, simplify
from ...struct_info import ObjectStructInfo, PrimStructInfo, TensorStructInfo, TupleStructInfo
from ...topi.nn.padding import PadMode
from ..base import Gradients, Term
from ..dims import check_later, require_same_dim, tensor
from ..errors import OPERANDS, SHAPES, OperatorError
from ..facts import Axes, Permuted, has_rank, scalars_of, tuple_of
from ..gradients import apply, dims_of, is_float, reshaped
from ..operator import Array, operator
from ..shapes import Move, product


@operator("relax.nn.pad")
class Pad(Move):
    """The data with pad_width[2d] elements added before and pad_width[2d + 1] after it in dimension d; negative widths
    crop.

    Added elements are `pad_value` (mode "constant"), or elements of the data: mirrored at the first and last one
    ("reflect"), the first or last one ("replicate", or "edge"), or as if the data repeated ("circular", or "wrap").
    """

    pad_mode: PadMode = "constant"
    pad_value: int | float = 0.0

    def infer(self, data: TensorStructInfo, pad_width: TupleStructInfo) -> TensorStructInfo:
        widths = [self._width(field) for field in pad_width.fields]
        if data.ndim not in (-1, len(widths) / 2):
            expected = f"{2 * data.ndim} numbers, 2 per dimension of data"
            self.require(False, "pad_width", expected, code=SHAPES, found=str(len(widths)))
        self._require_value(data)
        if data.dims is None or None in widths:
            return tensor(None, data.dtype, data.ndim)
        pairs = zip(widths[::2], widths[1::2], strict=True)
        dims = [
            self._padded(d, size, low, high) for d, (size, (low, high)) in enumerate(zip(data.dims, pairs, strict=True))
        ]
        return tensor(dims, data.dtype)

    def _width(self, field: object) -> PrimExpr | None:
        if isinstance(field, PrimStructInfo) and field.dtype.is_integer:
            return None if field.value is None else simplify(field.value.astype("int64"))
        if isinstance(field, ObjectStructInfo):
            return None
        raise OperatorError(OPERANDS, "pad_width must be a tuple of integers", operand="pad_width")

    def _require_value(self, data: TensorStructInfo) -> None:
        if data.dtype.is_void or data.dtype.is_float:
            return
        limits = (0, 1) if data.dtype.is_bool else (data.dtype.min_value, data.dtype.max_value)
        value = self.pad_value
        fits = math.isfinite(value) and value == int(value) and limits[0] <= value <= limits[1]
        self.require_attribute(fits, "pad_value", f"a value of {data.dtype!s}")

    def _padded(self, d: int, size: PrimExpr, low: Any, high: Any) -> PrimExpr:
        """Size of dimension d of the result; undecided conditions are checked at run time."""
        result = simplify_dim(size + low + high)
        if isinstance(result, IntImm) and result.value < 0:
            message = f"dimension {d} of data has fewer than {prim_text(simplify(-low - high))} elements to drop"
            raise OperatorError(SHAPES, message, operand="data")
        added = not all(isinstance(width, IntImm) and width.value <= 0 for width in (low, high))
        if self.pad_mode != "constant" and added:
            answer = prove_equal(size, const(0, "int64"))
            message = f"dimension {d} of data must have an element to pad it with (pad_mode {self.pad_mode!r})"
            if answer is Verdict.YES:
                raise OperatorError(SHAPES, message, operand="data")
            if answer is Verdict.POSSIBLY:
                check_later(size >= 1, message)
        return result

    def compute(self, data: Any, pad_width: Any) -> Any:
        return topi.nn.pad_by_mode(data, pad_width, self.pad_mode, self.pad_value)

    def reference(self, data: Array, pad_width: Sequence[int]) -> Array:
        pairs = list(zip(pad_width[::2], pad_width[1::2], strict=True))
        if not pairs:
            return data
        added = np.maximum(np.reshape(np.array(pad_width, np.int64), (-1, 2)), 0)
        if self.pad_mode == "constant":
            value: Any = np.array(self.pad_value).astype(data.dtype)
            whole = np.pad(data, added, "constant", constant_values=value)
        else:
            mode: Any = {"replicate": "edge", "circular": "wrap"}.get(self.pad_mode, self.pad_mode)
            whole = np.pad(data, added, mode)
        crop = zip(pairs, whole.shape, strict=True)
        return whole[tuple(slice(max(-low, 0), size - max(-high, 0)) for (low, high), size in crop)]

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        data, widths = operands
        dims = dims_of(data)
        fields: Sequence[RelaxExpr] = getattr(widths, "fields", ())
        begins = [getattr(width, "value", None) for width in fields]
        if self.pad_mode != "constant" or dims is None or len(begins) != 2 * len(dims):
            return None
        numbers = [begin.value for begin in begins if isinstance(begin, IntImm) and begin.value >= 0]
        if len(numbers) != len(begins):
            return None
        axes = list(range(len(dims)))
        ends = [low + size for low, size in zip(numbers[::2], dims, strict=True)]
        interior = apply("strided_slice", grad, axes, numbers[::2], ends) if axes else grad
        return (interior if is_float(data) else None, None)

    def permuted(self, axes: Axes, infos: Sequence[StructInfo]) -> Permuted | None:
        widths = scalars_of(infos[1])
        if widths is None or not has_rank(infos, axes):
            return None
        moved = tuple_of(widths[2 * axis + end] for axis in axes for end in (0, 1))
        return Permuted(self, (axes, moved), (axes,))


@operator("relax.nn.batch_flatten")
class BatchFlatten(Move):
    """The elements of each sample in one dimension: (N, d1, d2, …) as (N, d1 · d2 · …)."""

    total = True
    view = True

    def infer(self, data: TensorStructInfo) -> TensorStructInfo:
        if data.ndim == 0:
            raise OperatorError(SHAPES, "data must have a dimension of samples, found 0", operand="data")
        if data.ndim == 2:
            return data
        return tensor(None if data.dims is None else [data.dims[0], product(data.dims[1:])], data.dtype, 2)

    def compute(self, data: Any) -> Any:
        return topi.reshape(data, (data.shape[0], product(data.shape[1:])))

    def reference(self, data: Array) -> Array:
        return data.reshape(data.shape[0], math.prod(data.shape[1:]))

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        gradient = reshaped(grad, operands[0])
        return None if gradient is None else (gradient,)


def _require_multiple(size: PrimExpr, factor: int, subject: str) -> PrimExpr:
    """Divide a size by a number, which must divide it."""
    message = f"{subject} must be a multiple of {factor}, found {prim_text(size)}"
    error = OperatorError(SHAPES, message, operand="data")
    require_same_dim(simplify(size % factor), const(0, "int64"), error)
    return simplify_dim(size // factor)


class PixelMove(Move):
    """Base class of pixel_shuffle and pixel_unshuffle."""

    __slots__ = ()

    def moved(self, data: TensorStructInfo, factor: str) -> tuple[int, Sequence[PrimExpr] | None]:
        """Return (factor, dimensions of data, None if unknown)."""
        by: int = getattr(self, factor)
        self.require_attribute(by >= 1, factor, "at least 1")
        if data.ndim != -1 and data.ndim < 3:
            message = f"data must have at least 3 dimensions (…, C, H, W), found {data.ndim}"
            raise OperatorError(SHAPES, message, operand="data")
        return by, data.dims


@operator("relax.nn.pixel_shuffle")
class PixelShuffle(PixelMove):
    """(…, C·r², H, W) as (…, C, H·r, W·r) with r the upscale_factor: pixels taken from channels (Shi et al. 2016)."""

    upscale_factor: int
    compute = topi.nn.pixel_shuffle

    def infer(self, data: TensorStructInfo) -> TensorStructInfo:
        r, dims = self.moved(data, "upscale_factor")
        if dims is None:
            return tensor(None, data.dtype, data.ndim)
        *outer, channels, height, width = dims
        fewer = _require_multiple(channels, r * r, "the number of channels")
        return tensor([*outer, fewer, simplify_dim(height * r), simplify_dim(width * r)], data.dtype)

    def reference(self, data: Array) -> Array:
        r = self.upscale_factor
        *outer, c, h, w = data.shape
        n = len(outer)
        blocked = data.reshape(*outer, c // (r * r), r, r, h, w)
        moved = blocked.transpose(*range(n + 1), n + 3, n + 1, n + 4, n + 2)
        return moved.reshape(*outer, c // (r * r), h * r, w * r)

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        (data,) = operands
        back = apply("nn.pixel_unshuffle", grad, downscale_factor=self.upscale_factor)
        return (back if is_float(data) else None,)


@operator("relax.nn.pixel_unshuffle")
class PixelUnshuffle(PixelMove):
    """(…, C, H·r, W·r) as (…, C·r², H, W) with r the downscale_factor: the inverse of pixel_shuffle."""

    downscale_factor: int
    compute = topi.nn.pixel_unshuffle

    def infer(self, data: TensorStructInfo) -> TensorStructInfo:
        r, dims = self.moved(data, "downscale_factor")
        if dims is None:
            return tensor(None, data.dtype, data.ndim)
        *outer, channels, height, width = dims
        fewer = [_require_multiple(height, r, "the height of data"), _require_multiple(width, r, "the width of data")]
        return tensor([*outer, simplify_dim(channels * (r * r)), *fewer], data.dtype)

    def reference(self, data: Array) -> Array:
        r = self.downscale_factor
        *outer, c, h, w = data.shape
        n = len(outer)
        blocked = data.reshape(*outer, c, h // r, r, w // r, r)
        moved = blocked.transpose(*range(n + 1), n + 2, n + 4, n + 1, n + 3)
        return moved.reshape(*outer, c * r * r, h // r, w // r)

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        (data,) = operands
        back = apply("nn.pixel_shuffle", grad, upscale_factor=self.downscale_factor)
        return (back if is_float(data) else None,)
