"""Matching values against struct info, step by step (language.md §7.1): at function entry and exit, at match_cast.

    Object   anything
    Tensor   a tensor; its ndim, dtype and device; then dimension by dimension
    Shape    a shape; its ndim; then dimension by dimension
    Prim     a number of the dtype; then its value
    Tuple    a tuple; its length; then field by field
    Func     a closure whose run-time struct info fits, or, with derive_func, a packed function

A dimension that is an unbound variable standing alone is bound; anything else is evaluated and compared. A scalar may
have any value, but for one that binds a variable which is a dimension elsewhere: that is a size, too.

There are two rounds. The first goes to the binding positions, and matches what comes before them in the order above;
the second matches everything. At function entry all parameters are bound, left to right, before the first is checked.
A dimension whose turn comes in the first round already is not compared again.

`steps` is the only place that says so: the interpreter makes the steps, `VMShapeLower` writes builtins that do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Generic, TypeVar

from ..ir import StructInfo
from ..prim import IntImm, PrimExpr, Var
from ..struct_info import (
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from .mapping import bound_in, dims_of

ValueT = TypeVar("ValueT")
IsBound = Callable[[Var], bool]
"""True for a shape variable that has a value by now."""


@dataclass(frozen=True)
class Subject(Generic[ValueT]):
    """A value, or what stands for one, and the struct info that it is matched against."""

    value: ValueT
    info: StructInfo
    context: str
    """The beginning of messages: ``main: parameter x``."""
    name: str
    """The name of the value where messages say what bound a variable: ``x``."""

    def place(self, axis: int) -> str:
        """A dimension in messages, or the value of a scalar."""
        return "the value" if isinstance(self.info, PrimStructInfo) else f"dimension {axis}"

    def origin(self, axis: int) -> str:
        """A dimension, or a scalar, as what bound a variable."""
        return self.name if isinstance(self.info, PrimStructInfo) else f"{self.name}, dimension {axis}"

    def kind_check(self) -> tuple[str, tuple[int | str, ...]] | None:
        """The builtin that checks kind, rank, length and dtype, and its arguments behind the value."""
        match self.info:
            case TensorStructInfo(_, dtype):
                return "vm.builtin.check_tensor_info", (self.info.ndim, str(dtype))
            case ShapeStructInfo(_, ndim):
                return "vm.builtin.check_shape_info", (ndim,)
            case PrimStructInfo(dtype):
                return "vm.builtin.check_prim_value_info", (str(dtype),)
            case TupleStructInfo(fields):
                return "vm.builtin.check_tuple_info", (len(fields),)
            case _:
                return None


class Act(Enum):
    """What a step does with a dimension of tensors and shapes, or with the value of a scalar."""

    SKIP = auto()
    BIND = auto()
    BIND_SIZE = auto()
    """Bind a variable that is a dimension elsewhere to a scalar."""
    COMPARE = auto()


@dataclass(frozen=True)
class Step(Generic[ValueT]):
    """One look at a value: at its kind, if it is the first one, then at its dimensions."""

    subject: Subject[ValueT]
    first: bool
    dims: tuple[tuple[Act, PrimExpr], ...]
    """All dimensions of the struct info, and what is done with them now."""


def steps(
    subjects: Iterable[Subject[ValueT]], is_bound: IsBound, field: Callable[[ValueT, int], ValueT]
) -> Iterator[Step[ValueT]]:
    """The steps of matching some values together. Each is to be made before the next is asked for: `is_bound` then
    knows its variables. `field` takes a field out of a tuple, whose length has been checked.
    """
    matches = [_Match(subject, field) for subject in subjects]
    in_turn = True  # as long as nothing is left to check of the values before
    for match in matches:
        yield from match.bind(is_bound, in_turn)
        in_turn = in_turn and match.is_settled()
    for match in matches:
        yield from match.check()


class _Match(Generic[ValueT]):
    """A value on its way through both rounds."""

    def __init__(self, subject: Subject[ValueT], field: Callable[[ValueT, int], ValueT]) -> None:
        self.subject = subject
        self.dims = dims_of(subject.info)
        self.settled: set[int] = set()
        """Dimensions that have been bound or compared."""
        self._looked_at = False
        self._field = field
        self._fields: list[_Match[ValueT]] | None = None

    def bind(self, is_bound: IsBound, in_turn: bool) -> Iterator[Step[ValueT]]:
        """The first round; `in_turn` if all before has been checked, so that constants can be compared on the way."""
        if all(map(is_bound, bound_in(self.subject.info))):
            return
        acts: list[Act] = []
        new: set[Var] = set()
        for dim in self.dims:
            if isinstance(dim, Var) and dim not in new and not is_bound(dim):
                new.add(dim)
                scalar_size = isinstance(self.subject.info, PrimStructInfo) and dim.nonnegative
                acts.append(Act.BIND_SIZE if scalar_size else Act.BIND)
            else:
                in_turn = in_turn and isinstance(dim, IntImm)
                acts.append(Act.COMPARE if in_turn else Act.SKIP)
        yield self._step(acts)
        for match in self._inner():
            yield from match.bind(is_bound, in_turn)
            in_turn = in_turn and match.is_settled()

    def check(self) -> Iterator[Step[ValueT]]:
        """The second round: what the first has left."""
        acts = [Act.SKIP if axis in self.settled else Act.COMPARE for axis in range(len(self.dims))]
        if not self._looked_at or Act.COMPARE in acts:
            yield self._step(acts)
        for match in self._inner():
            yield from match.check()

    def is_settled(self) -> bool:
        """True if the first round has left nothing."""
        looked_at = self._looked_at or isinstance(self.subject.info, ObjectStructInfo)
        inner = looked_at and all(match.is_settled() for match in self._inner())
        return inner and len(self.settled) == len(self.dims)

    def _step(self, acts: Sequence[Act]) -> Step[ValueT]:
        first, self._looked_at = not self._looked_at, True
        self.settled.update(axis for axis, act in enumerate(acts) if act is not Act.SKIP)
        return Step(self.subject, first, tuple(zip(acts, self.dims, strict=True)))

    def _inner(self) -> list[_Match[ValueT]]:
        """The fields of a tuple of which something is expected."""
        if self._fields is None:
            self._fields = []
            info, value = self.subject.info, self.subject.value
            for index, part in enumerate(info.fields if isinstance(info, TupleStructInfo) else ()):
                if not isinstance(part, ObjectStructInfo):
                    context, name = (f"{text}[{index}]" for text in (self.subject.context, self.subject.name))
                    subject = Subject(self._field(value, index), part, context, name)
                    self._fields.append(_Match(subject, self._field))
        return self._fields


__all__ = ["Act", "IsBound", "Step", "Subject", "steps"]
