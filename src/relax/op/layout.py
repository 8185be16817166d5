"""The operator that transforms a tensor's layout by an index map."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from .. import topi
from ..ir import child
from ..ir.node import set_slot
from ..prim import const, evaluate
from ..struct_info import TensorStructInfo
from ..tir.index_map import IndexMap
from .attributes import AttributeValueError
from .base import Gradients, Term
from .dims import tensor
from .errors import ATTRIBUTES, SHAPES, OperatorError
from .gradients import dims_of
from .literals import number_as
from .operator import Array, operator
from .shapes import Move


def _index_map(value: Any) -> IndexMap:
    if isinstance(value, IndexMap):
        return value
    if not callable(value):
        raise AttributeValueError(f"index_map: expected an index map or a function, found {type(value).__name__}")
    try:
        return IndexMap.from_func(cast("Callable[..., Any]", value))
    except (ValueError, TypeError) as error:
        raise AttributeValueError(f"index_map: {error}") from None


@operator("relax.layout_transform")
class LayoutTransform(Move):
    """The tensor that holds x's element at i at ``index_map(i)``: ``lambda n, c: (n, c // 4, c % 4)``.

    Final indices are initial ones, their quotients and remainders by constants, and injective sums of these. Elements
    without a source are pad_value, by default 0. Axis separators apply to multi-dimensional memory, which is not
    supported: they must be empty.
    """

    index_map: IndexMap = child(converter=_index_map)
    pad_value: int | float | None = None
    axis_separators: tuple[int, ...] | None = None
    input_axis_separators: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        for name in ("axis_separators", "input_axis_separators"):
            set_slot(self, name, getattr(self, name) or None)

    def infer(self, x: TensorStructInfo) -> TensorStructInfo:
        self.require_attribute(not self.axis_separators, "axis_separators", "empty")
        self.require_attribute(not self.input_axis_separators, "input_axis_separators", "empty")
        if self.pad_value is not None and not x.dtype.is_void:
            number_as(self.pad_value, x.dtype, "pad_value", "x")
        ndim = len(self.index_map.initial_indices)
        if x.ndim not in (-1, ndim):
            message = f"index_map takes {ndim} indices, but x has {x.ndim} dimensions"
            raise OperatorError(SHAPES, message, operand="x")
        final = len(self.index_map.final_indices)
        if x.dims is None:
            return tensor(None, x.dtype, final)
        try:
            return tensor(self.index_map.map_shape(x.dims), x.dtype)
        except ValueError as error:
            raise OperatorError(ATTRIBUTES, str(error)) from None

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        dims = dims_of(operands[0])
        if dims is None:
            return None
        try:
            inverse = self.index_map.inverse(dims)
        except ValueError:  # padded: not each element of the gradient has a place in x
            return None
        return (LayoutTransform(inverse).call(grad),)

    def compute(self, x: Any) -> Any:
        padding = None if self.pad_value is None else const(self.pad_value, x.dtype)
        return topi.layout_transform(x, self.index_map, padding)

    def reference(self, x: Array) -> Array:
        shape = [int(evaluate(size, {})) for size in self.index_map.map_shape(x.shape)]
        result: Array = np.array(np.full(shape, 0 if self.pad_value is None else self.pad_value), x.dtype)
        initial, sizes = self.index_map.initial_indices, [range(size) for size in x.shape]
        for position in itertools.product(*sizes):
            values = dict(zip(initial, position, strict=True))
            result[tuple(evaluate(index, values) for index in self.index_map.final_indices)] = x[position]
        return result
