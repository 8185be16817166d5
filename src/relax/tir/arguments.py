"""Arguments of a PrimFunc, checked against its parameters and bound to its variables.

Used by the interpreter; `relax.tir.signature` lists the steps. Messages equal those of compiled functions
(`relax.codegen`):

    matmul: argument B: dimension 0 is 783, expected n = 784 (n was bound by A, dimension 1)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import numpy as np

from ..prim import IntImm, PrimExpr, Var
from ..runtime.messages import (
    ARGUMENT_DTYPE,
    ARGUMENT_RANK,
    KIND,
    NO_NUMBER,
    NO_ROOM,
    NOT_ALIGNED,
    NOT_COMPACT,
    Message,
)
from ..runtime.rounding import round_number
from .buffer import Buffer
from .evaluation import Env, Value
from .signature import ArgumentField, Signature, SizeMatching, Text, range_of
from .sizes import LARGEST_PRODUCT
from .written import overlap_message

Array = np.ndarray[Any, Any]

_KINDS: Final[dict[type, str]] = {
    type(None): "None", bool: "a bool", int: "an int", float: "a float", str: "a string", bytes: "bytes",
    np.ndarray: "a tensor", tuple: "a tuple", list: "a tuple", dict: "a dict",
}  # fmt: skip


class CheckedArguments(SizeMatching[Any]):
    """Match NumPy arrays and Python numbers with the parameters, and bind variables in an environment."""

    def __init__(self, signature: Signature, name: str, args: Sequence[Any], sizes: Mapping[PrimExpr, Value]) -> None:
        super().__init__(signature, f"{name}: ")
        self.name = name
        self.args = args
        self.sizes = sizes
        """Compiled forms of the compared expressions."""
        self.env: Env = {}

    def match(self) -> None:
        """Match all arguments."""
        for i, (param, buffer) in enumerate(self.known.params):
            if buffer is None:
                self.env[param] = self.scalar(param, self.args[i])
            else:
                self.tensor(i, buffer)
        self.match_sizes()
        for i, j in self.known.apart:
            if _overlap(self.args[i], self.args[j]):
                names = (self.known.buffer(k).name for k in (i, j))
                raise ValueError(self.prefix + overlap_message(*names))

    def scalar(self, param: Var, arg: Any) -> Any:
        """Convert the argument of a scalar parameter; a vector becomes a list with a number for each lane."""
        arg, context, dtype = _plain(arg), self.who(param), param.dtype
        if dtype.is_handle:
            return arg
        if dtype.lanes > 1 and isinstance(arg, (tuple, list)):
            elements = cast("Sequence[Any]", arg)
            if len(elements) != dtype.lanes:
                raise KIND(context=context, expected=f"{dtype.lanes} numbers", found=str(len(elements)))
            lane = Var(param.name, dtype.element_of)
            return [self.scalar(lane, element) for element in elements]
        kind = "an int" if dtype.is_integer else "a bool" if dtype.is_bool else "a float"
        if not isinstance(arg, (int, float) if kind == "a float" else int):
            raise KIND(context=context, expected=kind, found=_kind(arg))
        if not dtype.is_integer:
            return bool(arg) if dtype.is_bool else round_number(arg, dtype)
        low, high = range_of(dtype)
        self.require(low <= arg <= high, NO_NUMBER, context=context, found=arg, dtype=str(dtype))
        if param.nonnegative:
            self.require_size(arg, context, "the value")
        return int(arg)

    def tensor(self, i: int, buffer: Buffer) -> None:
        """Check the dtype, rank, constant dimensions and memory layout of one tensor argument."""
        who, array, dtype = self.who(buffer), self.args[i], buffer.dtype
        if not isinstance(array, np.ndarray):
            raise KIND(context=who, expected="a tensor", found=_kind(array))
        array = cast(Array, array)
        if array.dtype != dtype.element_of.numpy():
            raise ARGUMENT_DTYPE(context=who, found=array.dtype, expected=dtype)
        rank = array.ndim - (dtype.lanes > 1)
        if rank != buffer.ndim:
            raise ARGUMENT_RANK(context=who, found=rank, expected=buffer.ndim)
        if math.prod(size for size in array.shape if size) * array.itemsize > LARGEST_PRODUCT:
            raise NO_ROOM(context=who)
        if not buffer.strides and not array.flags.c_contiguous:
            self._require_compact(i, buffer)
        if not array.flags.aligned:
            raise NOT_ALIGNED(context=who, expected=array.itemsize)
        for axis, size in enumerate(buffer.shape):
            if isinstance(size, IntImm):
                self.compare(ArgumentField(i, buffer, "shape", axis), size)

    def _require_compact(self, i: int, buffer: Buffer) -> None:
        expected = 1
        for axis in reversed(range(buffer.ndim)):
            size, found = self.args[i].shape[axis], self.number(ArgumentField(i, buffer, "stride", axis))
            if size != 1 and found != expected:
                context, dimension = self.who(buffer), f"dimension {axis}"
                raise NOT_COMPACT(context=context, place=dimension, found=found, expected=expected)
            expected *= size

    def compare(self, place: ArgumentField, size: PrimExpr) -> None:
        if self.number(place) != self.value(size):
            super().compare(place, size)

    def number(self, place: ArgumentField) -> int:
        if place.what == "offset":
            return 0
        array = self.args[place.param]
        if place.what == "shape":
            return array.shape[place.axis]
        if not array.size:  # what its strides are said to be means nothing
            return math.prod(array.shape[place.axis + 1 : place.buffer.ndim])
        return array.strides[place.axis] // (array.itemsize * place.buffer.dtype.lanes)

    def value(self, size: PrimExpr) -> int:
        if isinstance(size, IntImm):
            return size.value
        try:
            return self.sizes[size](self.env)
        except OverflowError as error:
            raise OverflowError(f"{self.name}: {error}") from None

    def define(self, var: Var, value: int, is_size: bool) -> None:
        self.env[var] = value

    def equal(self, a: int, b: int) -> bool:
        return a == b

    def within(self, value: int, low: int, high: int) -> bool:
        return low <= value <= high

    def require(self, condition: bool, message: Message, **fields: Text[Any]) -> None:
        if not condition:
            raise message(**fields)


def _plain(arg: Any) -> Any:
    """Convert a NumPy scalar to a Python number."""
    return cast(Any, arg).item() if isinstance(arg, np.generic) else arg


def _kind(arg: Any) -> str:
    kind = cast("type[Any]", type(_plain(arg)))
    return _KINDS.get(kind, "a function" if callable(arg) else kind.__name__)


def _overlap(a: Array, b: Array) -> bool:
    """True if two arrays share memory; of one with gaps, only the first element counts."""
    if not a.size or not b.size:
        return False
    spans = [(x.ctypes.data, x.nbytes if x.flags.c_contiguous else x.itemsize) for x in (a, b)]
    (first, first_size), (second, second_size) = spans
    return first < second + second_size and second < first + first_size
