"""The signature of a PrimFunc: the variables its parameters bind, and the requirements on arguments.

    1. Each argument is a scalar representable in its parameter's dtype, or a tensor with its buffer's dtype, rank,
       static dimensions and memory layout.
    2. Every variable is bound at its first occurrence as a whole dimension, stride or offset, in the order of the
       parameters. Scalar parameters bind themselves.
    3. Every other dimension, stride and offset is compared with its expression over these variables.
    4. Written tensors overlap no other argument, if the function requires it (``tir.noalias``).

`SizeMatching` implements the second and the third step. The interpreter (`relax.tir.arguments`) performs these checks;
code generation emits them, for calls from outside and for calls between PrimFuncs. The first step, which checks each
argument on its own, is a function of the kernels' support code (`relax.codegen.support.arguments`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Final, Generic, TypeAlias, TypeVar

from ..ir import DataType
from ..prim import Add, BinaryExpr, FloorDiv, FloorMod, IntImm, Max, Min, Mul, PrimExpr, Sub, Var, free_vars
from ..runtime.limits import DIMENSION_LIMIT
from ..runtime.messages import IS, NO_SIZE, TOO_NARROW, Message
from ..runtime.records import dataclass
from .buffer import Buffer
from .stmt import PrimFunc
from .written import promised_apart


@dataclass(frozen=True)
class ArgumentField:
    """An integer property of a tensor argument: a dimension, a stride, or the offset of its first element."""

    param: int
    buffer: Buffer
    what: str
    """``shape``, ``stride`` or ``offset``."""
    axis: int

    @property
    def words(self) -> str:
        """Name of the property in messages, after the argument's name."""
        if self.what == "offset":
            return "offset"
        return f"dimension {self.axis}" if self.what == "shape" else f"stride of dimension {self.axis}"


@dataclass(frozen=True)
class Signature:
    """The parameters of a function, the variables they bind, and the expressions to compare."""

    params: tuple[tuple[Var, Buffer | None], ...]
    bound: dict[Var, ArgumentField]
    """Variables bound by tensor parameters, in the order in which they are passed."""
    compared: tuple[tuple[ArgumentField, PrimExpr], ...]
    apart: tuple[tuple[int, int], ...] = ()
    """Pairs of parameters that must not overlap; the first one is written."""

    def buffer(self, i: int) -> Buffer:
        """Return the buffer of a tensor parameter."""
        buffer = self.params[i][1]
        assert buffer is not None
        return buffer

    def origin(self, expr: PrimExpr) -> str:
        """Describe for messages where the variables of an expression are bound."""
        origins: list[str] = []
        for var in free_vars(expr):
            place = self.bound.get(var)
            origin = "is an argument" if place is None else f"was bound by {place.buffer.name}, {place.words}"
            origins.append(f"{var.name} {origin}")
        return "; ".join(origins)


def signature_of(func: PrimFunc) -> Signature:
    """Return the signature of a function; its parameters need not bind all variables."""
    params = tuple((param, func.buffer_map.get(param)) for param in func.params)
    scalars = {param for param, buffer in params if buffer is None}
    bound: dict[Var, ArgumentField] = {}
    compared: list[tuple[ArgumentField, PrimExpr]] = []
    for place, expr in _argument_fields(params):
        if isinstance(expr, Var) and expr not in bound and expr not in scalars:
            bound[expr] = place
        else:
            compared.append((place, expr))
    return Signature(params, bound, tuple(compared), tuple(promised_apart(func)))


def _argument_fields(params: tuple[tuple[Var, Buffer | None], ...]) -> Iterator[tuple[ArgumentField, PrimExpr]]:
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
"""Value of a message field: text, a number, or a sequence of both."""


class SizeMatching(ABC, Generic[ValueT]):
    """Matching of the sizes of one call. A subclass performs the checks on numbers, or generates code for them."""

    def __init__(self, signature: Signature, prefix: str = "") -> None:
        self.known = signature
        self.prefix = prefix
        """Text that begins all messages."""

    @abstractmethod
    def number(self, place: ArgumentField) -> ValueT:
        """Return a property of a tensor argument."""

    @abstractmethod
    def value(self, size: PrimExpr) -> ValueT:
        """Return the value of a dimension, a stride or an offset; overflow of 64 bits is an error."""

    @abstractmethod
    def define(self, var: Var, value: ValueT, is_size: bool) -> None:
        """Bind a variable."""

    @abstractmethod
    def equal(self, a: ValueT, b: ValueT) -> ValueT:
        """Return the condition that two numbers are equal."""

    @abstractmethod
    def within(self, value: ValueT, low: int, high: int) -> ValueT:
        """Return the condition that `low` ≤ `value` ≤ `high`."""

    @abstractmethod
    def require(self, condition: ValueT, message: Message, **fields: Text[ValueT]) -> None:
        """Reject the arguments unless `condition` holds."""

    def match_sizes(self) -> None:
        """Bind variables to properties of tensors, and compare the other properties."""
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
        """Compare a property of a tensor with the expected `size`."""
        context, found, expected = self.who(place.buffer), self.number(place), self.value(size)
        shown: Text[ValueT] = expected
        if not isinstance(size, IntImm):
            shown = [f"{size_text(size)} = ", expected, f" ({self.known.origin(size)})"]
        fits = self.equal(found, expected)
        self.require(fits, IS, context=context, place=place.words, found=found, expected=shown)

    def require_size(self, value: ValueT, context: str, place: str) -> None:
        """Reject a number that is not a valid dimension."""
        fits = self.within(value, 0, DIMENSION_LIMIT - 1)
        self.require(fits, NO_SIZE, context=context, place=place, found=value)

    def who(self, param: Var | Buffer) -> str:
        """Return the name of an argument at the beginning of a message."""
        return f"{self.prefix}argument {param.name}"


def range_of(dtype: DataType) -> tuple[int, int]:
    """Return the least and the greatest value of an integer dtype."""
    return int(dtype.min_value), int(dtype.max_value)


_SYMBOLS: Final[dict[type, str]] = {Add: " + ", Sub: " - ", Mul: " * ", FloorDiv: " // ", FloorMod: " % "}


def size_text(expr: PrimExpr) -> str:
    """Return the text of a size in messages at run time."""
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
