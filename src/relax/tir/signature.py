"""The signature of a PrimFunc: what its parameters bind, and what arguments must be.

    1. Each argument is a scalar that its parameter's dtype has, or a tensor of its buffer's dtype and rank, whose
       constant dimensions are as they should be, and whose elements are where the buffer has them.
    2. Every variable is bound where it first stands alone as a dimension, a stride or an offset, in the order of the
       parameters. Scalar parameters bind themselves.
    3. All else is an expression over those, and is compared.
    4. What the function writes overlaps nothing, where it promises to be right only then.

`SizeMatching` has the second and the third step. The interpreter (`relax.tir.arguments`) makes these checks; code
generation writes them, for calls from outside and for calls between PrimFuncs. The first step, which looks at each
argument by itself, is a function of the support code of kernels (`relax.native.argument_checks`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeAlias, TypeVar

from ..ir import DataType
from ..prim import Add, BinaryExpr, FloorDiv, FloorMod, IntImm, Max, Min, Mul, PrimExpr, Sub, Var, free_vars
from ..runtime.limits import DIMENSION_LIMIT
from ..runtime.messages import IS, NO_SIZE, TOO_NARROW, Message
from .buffer import Buffer
from .stmt import PrimFunc
from .written import promised_apart


@dataclass(frozen=True)
class ArgumentField:
    """A number that a tensor argument has: a dimension, a stride, or the offset of its first element."""

    param: int
    buffer: Buffer
    what: str
    """``shape``, ``stride`` or ``offset``."""
    axis: int

    @property
    def words(self) -> str:
        """The place as messages name it, after the argument."""
        if self.what == "offset":
            return "offset"
        return f"dimension {self.axis}" if self.what == "shape" else f"stride of dimension {self.axis}"


@dataclass(frozen=True)
class Signature:
    """The parameters of a function, the variables they bind, and the numbers to compare."""

    params: tuple[tuple[Var, Buffer | None], ...]
    bound: dict[Var, ArgumentField]
    """Variables beside the parameters, in the order in which they are passed."""
    compared: tuple[tuple[ArgumentField, PrimExpr], ...]
    apart: tuple[tuple[int, int], ...] = ()
    """Pairs of parameters that must not overlap: the first is written."""

    def buffer(self, i: int) -> Buffer:
        """The buffer of a tensor parameter."""
        buffer = self.params[i][1]
        assert buffer is not None
        return buffer

    def origin(self, expr: PrimExpr) -> str:
        """The origins of the variables of an expression, for messages."""
        parts: list[str] = []
        for var in free_vars(expr):
            place = self.bound.get(var)
            origin = "is an argument" if place is None else f"was bound by {place.buffer.name}, {place.words}"
            parts.append(f"{var.name} {origin}")
        return "; ".join(parts)


def signature_of(func: PrimFunc) -> Signature:
    """The signature of a function, whether or not its parameters bind all variables."""
    params = tuple((param, func.buffer_map.get(param)) for param in func.params)
    scalars = {param for param, buffer in params if buffer is None}
    bound: dict[Var, ArgumentField] = {}
    compared: list[tuple[ArgumentField, PrimExpr]] = []
    for place, expr in _places(params):
        if isinstance(expr, Var) and expr not in bound and expr not in scalars:
            bound[expr] = place
        else:
            compared.append((place, expr))
    return Signature(params, bound, tuple(compared), tuple(promised_apart(func)))


def _places(params: tuple[tuple[Var, Buffer | None], ...]) -> Iterator[tuple[ArgumentField, PrimExpr]]:
    for i, (_, buffer) in enumerate(params):
        if buffer is None:
            continue
        for axis, size in enumerate(buffer.shape):
            yield ArgumentField(i, buffer, "shape", axis), size
        for axis, stride in enumerate(buffer.strides):
            yield ArgumentField(i, buffer, "stride", axis), stride
        if buffer.elem_offset is not None:
            yield ArgumentField(i, buffer, "offset", 0), buffer.elem_offset


# -------------------------------------------------------------------------------------------- matching

ValueT = TypeVar("ValueT")
Text: TypeAlias = "str | ValueT | Sequence[str | ValueT]"
"""A part of a message: words, a number, or several of them one after the other."""


class SizeMatching(ABC, Generic[ValueT]):
    """The matching of one call's sizes. A subclass makes the checks, on numbers, or writes them, as code."""

    def __init__(self, known: Signature, prefix: str = "") -> None:
        self.known = known
        self.prefix = prefix
        """The beginning of messages, before the argument."""

    @abstractmethod
    def number(self, place: ArgumentField) -> ValueT:
        """A number of a tensor argument."""

    @abstractmethod
    def value(self, size: PrimExpr) -> ValueT:
        """The value of a dimension, a stride or an offset; what leaves 64 bits on the way is an error."""

    @abstractmethod
    def define(self, var: Var, value: ValueT, is_size: bool) -> None:
        """Bind a variable."""

    @abstractmethod
    def equal(self, a: ValueT, b: ValueT) -> ValueT:
        """The condition that two numbers are equal."""

    @abstractmethod
    def within(self, value: ValueT, low: int, high: int) -> ValueT:
        """The condition that a number is at least `low` and at most `high`."""

    @abstractmethod
    def require(self, condition: ValueT, message: Message, **fields: Text[ValueT]) -> None:
        """Refuse the arguments unless a condition holds."""

    def match_sizes(self) -> None:
        """Bind variables to numbers of tensors, and compare the others."""
        for var, place in self.known.bound.items():
            shown, found = {"context": self.who(place.buffer), "place": place.words}, self.number(place)
            fits, dtype = self.within(found, *range_of(var.dtype)), str(var.dtype)
            self.require(fits, TOO_NARROW, **shown, found=found, variable=var.name, dtype=dtype)
            if place.what == "shape":
                self.require_size(found, **shown)
            self.define(var, found, place.what == "shape")
        for place, size in self.known.compared:
            self.compare(place, size)

    def compare(self, place: ArgumentField, size: PrimExpr) -> None:
        """Compare a number of a tensor with what it should be."""
        context, found, expected = self.who(place.buffer), self.number(place), self.value(size)
        shown: Text[ValueT] = expected
        if not isinstance(size, IntImm):
            shown = [f"{size_text(size)} = ", expected, f" ({self.known.origin(size)})"]
        fits = self.equal(found, expected)
        self.require(fits, IS, context=context, place=place.words, found=found, expected=shown)

    def require_size(self, value: ValueT, context: str, place: str) -> None:
        """Refuse a number that no dimension can be."""
        fits = self.within(value, 0, DIMENSION_LIMIT - 1)
        self.require(fits, NO_SIZE, context=context, place=place, found=value)

    def who(self, param: Var | Buffer) -> str:
        """An argument, as messages begin."""
        return f"{self.prefix}argument {param.name}"


def range_of(dtype: DataType) -> tuple[int, int]:
    """The least and the greatest number of an integer dtype."""
    return int(dtype.min_value), int(dtype.max_value)


_SYMBOLS: Final[dict[type, str]] = {Add: " + ", Sub: " - ", Mul: " * ", FloorDiv: " // ", FloorMod: " % "}


def size_text(expr: PrimExpr) -> str:
    """A size as messages at run time write it."""
    if isinstance(expr, Var):
        return expr.name
    if isinstance(expr, IntImm):
        return str(expr.value)
    if isinstance(expr, (Min, Max)):
        return f"{type(expr).__name__.lower()}({size_text(expr.a)}, {size_text(expr.b)})"
    if isinstance(expr, BinaryExpr) and type(expr) in _SYMBOLS:
        sides = (f"({size_text(e)})" if type(e) in _SYMBOLS else size_text(e) for e in (expr.a, expr.b))
        return _SYMBOLS[type(expr)].join(sides)
    return f"{type(expr).__name__}(…)"


__all__ = [
    "ArgumentField", "Signature", "SizeMatching", "Text", "range_of", "signature_of", "size_text",
]  # fmt: skip
