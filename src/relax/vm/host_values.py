"""Compile-time descriptions of a Relax function's values: facts and locations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias, final

from ..prim import PrimExpr
from ..runtime.records import dataclass


@final
@dataclass(frozen=True)
class Memory:
    """Memory location of a tensor."""

    fresh: int
    """Number of the allocation in this function that contains it; 0 for memory from outside."""
    offset: PrimExpr
    """Offset of the tensor in bytes."""


@final
@dataclass(frozen=True)
class TensorFacts:
    """Facts about a tensor that hold in every call; it is compact and in host memory."""

    dtype: str
    dims: tuple[PrimExpr | None, ...]
    """Dimensions as constants or slots of the shape heap; None for an unknown dimension."""
    memory: Memory | None
    """Memory of the tensor; None if it may overlap with any other tensor."""


@final
@dataclass(frozen=True)
class Register:
    """A value in a register."""

    index: int
    facts: TensorFacts | None = None
    """Facts about a tensor created by this function. A storage is a tensor of bytes of unknown size."""


@final
@dataclass(frozen=True)
class TableCell:
    """A value in the program's table: a constant, a string, a device."""

    index: int


@final
@dataclass(frozen=True)
class Number:
    """A scalar: its type index (None: `payload` is the argument itself), and its bits as int64."""

    kind: int | None
    payload: PrimExpr


@final
@dataclass(frozen=True)
class Dims:
    """A shape that is not materialised yet; its dimensions are valid."""

    dims: tuple[PrimExpr, ...]


@final
@dataclass(frozen=True)
class Fields:
    """A tuple that is not materialised yet."""

    fields: tuple[HostValue, ...]


HostValue: TypeAlias = Register | TableCell | Number | Dims | Fields


def registers_in(value: HostValue) -> Iterator[int]:
    """Registers referenced by a value, each once; shared tuples are visited once."""
    pending, tuples, registers = [value], set[int](), set[int]()
    while pending:
        item = pending.pop()
        if isinstance(item, Fields) and id(item) not in tuples:
            tuples.add(id(item))
            pending.extend(item.fields)
        elif isinstance(item, Register) and item.index not in registers:
            registers.add(item.index)
            yield item.index


class Registers:
    """Register allocation of a function, with reference counts by variables.

    A register taken while a binding is compiled belongs to that binding until a variable holds it.
    """

    def __init__(self, first: int) -> None:
        self.count = first
        self._free: list[int] = []
        self._users: dict[int, int] = {}
        self._fresh: list[int] = []

    def begin(self) -> list[int]:
        """Begin a binding; return the fresh registers of the enclosing one, for `settle`."""
        outside, self._fresh = self._fresh, []
        return outside

    def take(self) -> int:
        """Return an empty register."""
        index = self._free.pop() if self._free else self.count
        self.count = max(self.count, index + 1)
        self._fresh.append(index)
        return index

    def hold(self, value: HostValue) -> None:
        """Count a variable's reference to the registers of a value."""
        for index in registers_in(value):
            self._users[index] = self._users.get(index, 0) + 1

    def settle(self, outside: list[int]) -> list[int]:
        """End a binding; return registers held by no variable, which are freed and must be emptied."""
        unused = [index for index in self._fresh if not self._users.get(index)]
        self._free += unused
        self._fresh = outside
        return unused

    def drop(self, value: HostValue) -> list[int]:
        """Release a variable's reference; return registers that become free and must be emptied."""
        emptied: list[int] = []
        for index in registers_in(value):
            self._users[index] -= 1
            if not self._users[index]:
                self._free.append(index)
                emptied.append(index)
        return emptied
