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

`checks` is the only place that says so. The interpreter makes the checks, a lowered program calls them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from ..info.mapping import bound_in, dims_of
from ..ir import StructInfo
from ..prim import FloatImm, IntImm, PrimExpr, Var, evaluate
from ..prim.totality import scalar_never_fails
from ..runtime.match import ASSERT_IMM, ASSERT_SLOT, IGNORE, STORE, STORE_SIZE
from ..struct_info import (
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)

ValueT = TypeVar("ValueT")
SlotT = TypeVar("SlotT")
SlotT_co = TypeVar("SlotT_co", covariant=True)


class Slots(Protocol[SlotT_co]):
    """The place for the numbers that shape variables and expressions stand for."""

    def is_bound(self, var: Var) -> bool:
        """True for a variable that has a slot here."""
        ...

    def define(self, var: Var, origin: str) -> SlotT_co:
        """A slot for a variable, which the next check fills; `origin` says from where: ``x, dimension 1``."""
        ...

    def compute(self, values: Sequence[PrimExpr]) -> None:
        """Have slots filled with the values of expressions."""
        ...

    def slot_of(self, value: PrimExpr) -> SlotT_co:
        """The slot of a variable or expression."""
        ...


@dataclass(frozen=True)
class Subject(Generic[ValueT]):
    """A value, or what stands for one, and the struct info that it is matched against."""

    value: ValueT
    info: StructInfo
    context: str
    """The beginning of messages: ``main: parameter x``."""
    name: str
    """The name of the value where messages say what bound a variable: ``x``."""

    def kind(self) -> tuple[str, int, str] | None:
        """Kind of value, rank or length, and dtype, as ``vm.builtin.match`` takes them. None if they are not asked for,
        or not there: for objects and functions.
        """
        match self.info:
            case TensorStructInfo(_, dtype):
                return "tensor", self.info.ndim, str(dtype)
            case ShapeStructInfo(_, ndim):
                return "shape", ndim, ""
            case PrimStructInfo(dtype):
                return "scalar", 0, str(dtype)
            case TupleStructInfo(fields):
                return "tuple", len(fields), ""
            case _:
                return None


Code = tuple[int, SlotT | int | float]


@dataclass(frozen=True)
class Check(Generic[ValueT, SlotT]):
    """One look at a value: at its kind, then at its dimensions, or the value of a scalar."""

    subject: Subject[ValueT]
    codes: tuple[Code[SlotT], ...]
    """The treatment of each dimension, as `relax.runtime.match` has it; empty if nothing is done with any."""


def checks(
    subjects: Iterable[Subject[ValueT]], slots: Slots[SlotT], field: Callable[[ValueT, int], ValueT]
) -> Iterator[Check[ValueT, SlotT]]:
    """The checks that match some values together. Each is to be made, or written, before the next is asked for.

    `field` takes a field out of a tuple, whose length has been checked.
    """
    matches = [_Match(subject, slots, field) for subject in subjects]
    in_turn = True  # as long as nothing is left to check of the values before
    for match in matches:
        yield from match.bind(in_turn)
        in_turn = in_turn and match.is_settled()
    for match in matches:
        yield from match.check()


class _Match(Generic[ValueT, SlotT]):
    """A value on its way through both rounds."""

    def __init__(
        self, subject: Subject[ValueT], slots: Slots[SlotT], field: Callable[[ValueT, int], ValueT]
    ) -> None:
        self.subject = subject
        self.slots = slots
        self.field = field
        self.dims = dims_of(subject.info)
        self.open = set(range(len(self.dims)))
        """Dimensions that have been neither bound nor compared."""
        self._looked_at = False
        self._fields: list[_Match[ValueT, SlotT]] | None = None

    def bind(self, in_turn: bool) -> Iterator[Check[ValueT, SlotT]]:
        """The first round; `in_turn` if all before has been checked, so that constants can be compared on the way."""
        if all(map(self.slots.is_bound, bound_in(self.subject.info))):
            return
        codes: dict[int, Code[SlotT]] = {}
        for axis, dim in enumerate(self.dims):
            if isinstance(dim, Var) and not self.slots.is_bound(dim):
                codes[axis] = self._bound(axis, dim)
            elif in_turn and isinstance(dim, IntImm):
                codes[axis] = ASSERT_IMM, dim.value
            else:
                in_turn = False
        yield self._check(codes)
        for match in self._inner():
            yield from match.bind(in_turn)
            in_turn = in_turn and match.is_settled()

    def check(self) -> Iterator[Check[ValueT, SlotT]]:
        """The second round: what the first has left. What may fail is computed once all before it is found to fit."""
        axes: list[int] = []
        for axis in sorted(self.open):
            if (axes or not self._looked_at) and not scalar_never_fails(self.dims[axis]):
                yield self._compare(axes)
                axes = []
            axes.append(axis)
        if axes or not self._looked_at:
            yield self._compare(axes)
        for match in self._inner():
            yield from match.check()

    def is_settled(self) -> bool:
        """True if the first round has left nothing."""
        if not self._looked_at:
            return isinstance(self.subject.info, ObjectStructInfo)
        return not self.open and all(match.is_settled() for match in self._inner())

    def _bound(self, axis: int, var: Var) -> Code[SlotT]:
        if not isinstance(self.subject.info, PrimStructInfo):
            return STORE, self.slots.define(var, f"{self.subject.name}, dimension {axis}")
        return STORE_SIZE if var.nonnegative else STORE, self.slots.define(var, self.subject.name)

    def _compare(self, axes: Sequence[int]) -> Check[ValueT, SlotT]:
        self.slots.compute([self.dims[axis] for axis in axes])
        return self._check({axis: self._compared(self.dims[axis]) for axis in axes})

    def _compared(self, dim: PrimExpr) -> Code[SlotT]:
        if isinstance(dim, IntImm):
            return ASSERT_IMM, dim.value
        if isinstance(dim, FloatImm):
            return ASSERT_IMM, evaluate(dim)  # as a number of its dtype
        return ASSERT_SLOT, self.slots.slot_of(dim)

    def _check(self, codes: Mapping[int, Code[SlotT]]) -> Check[ValueT, SlotT]:
        self._looked_at = True
        self.open.difference_update(codes)
        every = tuple(codes.get(axis, (IGNORE, 0)) for axis in range(len(self.dims)))
        return Check(self.subject, every if codes else ())

    def _inner(self) -> list[_Match[ValueT, SlotT]]:
        """The fields of a tuple of which something is expected."""
        if self._fields is None:
            self._fields = []
            info, value = self.subject.info, self.subject.value
            for index, part in enumerate(info.fields if isinstance(info, TupleStructInfo) else ()):
                if not isinstance(part, ObjectStructInfo):
                    context, name = (f"{text}[{index}]" for text in (self.subject.context, self.subject.name))
                    subject = Subject(self.field(value, index), part, context, name)
                    self._fields.append(_Match(subject, self.slots, self.field))
        return self._fields


__all__ = ["Check", "Slots", "Subject", "checks"]
