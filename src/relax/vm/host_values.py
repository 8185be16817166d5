"""Compile-time descriptions of a Relax function's values: facts and locations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias, final

from ..prim import PrimExpr


@final
@dataclass(frozen=True)
class Memory:
    """The memory of a tensor."""

    fresh: int
    """Number of the allocation of this function that it is a part of; 0 for what was there before."""
    offset: PrimExpr
    """The bytes from its start to the tensor."""


@final
@dataclass(frozen=True)
class TensorFacts:
    """Facts about a tensor that hold in every call. It is compact and in host memory."""

    dtype: str
    dims: tuple[PrimExpr | None, ...]
    """Constants and slots of the shape heap; None for a dimension that may be anything."""
    memory: Memory | None
    """None if it may overlap with any other tensor."""


@final
@dataclass(frozen=True)
class Register:
    """A value in a register."""

    index: int
    facts: TensorFacts | None = None
    """Of a tensor that the function has made. A storage is a tensor of bytes, of unknown size."""


@final
@dataclass(frozen=True)
class TableCell:
    """A value in the table of the program: a constant, a string, a device."""

    index: int


@final
@dataclass(frozen=True)
class Number:
    """A scalar: its type index, and its bits as int64; None: the expression is the argument as it stands."""

    kind: int | None
    payload: PrimExpr


@final
@dataclass(frozen=True)
class Dims:
    """A shape that is not materialised yet; its dimensions are valid sizes."""

    dims: tuple[PrimExpr, ...]


@final
@dataclass(frozen=True)
class Fields:
    """A tuple that is not materialised yet."""

    fields: tuple[HostValue, ...]


HostValue: TypeAlias = Register | TableCell | Number | Dims | Fields


def registers_in(value: HostValue) -> Iterator[int]:
    """The registers that a value keeps, each once; tuples that it has several times are looked at once."""
    pending, tuples, registers = [value], set[int](), set[int]()
    while pending:
        part = pending.pop()
        if isinstance(part, Fields) and id(part) not in tuples:
            tuples.add(id(part))
            pending.extend(part.fields)
        elif isinstance(part, Register) and part.index not in registers:
            registers.add(part.index)
            yield part.index


class Registers:
    """Register allocation of a function, with reference counts by variables.

    A register that is taken while a binding is compiled belongs to that binding until a variable holds it.
    """

    def __init__(self, first: int) -> None:
        self.count = first
        self._free: list[int] = []
        self._users: dict[int, int] = {}
        self._fresh: list[int] = []

    def begin(self) -> list[int]:
        """Start with a binding; the registers of the one around it, for `settle`."""
        outside, self._fresh = self._fresh, []
        return outside

    def take(self) -> int:
        """A register that holds nothing."""
        index = self._free.pop() if self._free else self.count
        self.count = max(self.count, index + 1)
        self._fresh.append(index)
        return index

    def hold(self, value: HostValue) -> None:
        """A variable has this value from now on."""
        for index in registers_in(value):
            self._users[index] = self._users.get(index, 0) + 1

    def settle(self, outside: list[int]) -> list[int]:
        """End a binding; the registers that no variable holds, which are to be emptied, and may be taken again."""
        unused = [index for index in self._fresh if not self._users.get(index)]
        self._free += unused
        self._fresh = outside
        return unused

    def drop(self, value: HostValue) -> list[int]:
        """A variable is not read any more; the registers to be emptied, which may be taken again."""
        emptied: list[int] = []
        for index in registers_in(value):
            self._users[index] -= 1
            if not self._users[index]:
                self._free.append(index)
                emptied.append(index)
        return emptied
