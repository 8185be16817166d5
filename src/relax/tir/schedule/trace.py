"""Traces: the primitives that a schedule has applied, with their arguments, results and decisions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, eq=False)
class Instruction:
    """One primitive applied: its name, its arguments by their names, and the random variables it gave."""

    kind: str
    arguments: Mapping[str, Any]
    outputs: tuple[Any, ...]
    decision: Any = None
    """The choice that a sampling primitive made; None for other primitives."""


class Trace:
    """The instructions of a schedule, oldest first. Copies share them."""

    def __init__(self, instructions: list[Instruction] | None = None) -> None:
        self._list: list[Instruction] = [] if instructions is None else instructions
        self._length = len(self._list)

    @property
    def insts(self) -> list[Instruction]:
        """The instructions, oldest first."""
        return self._list[: self._length]

    def __iter__(self) -> Iterator[Instruction]:
        return iter(self.insts)

    def __len__(self) -> int:
        return self._length

    def append(self, instruction: Instruction) -> None:
        """Add an instruction."""
        if len(self._list) != self._length:  # a copy has appended to the list that both share
            self._list = self._list[: self._length]
        self._list.append(instruction)
        self._length += 1

    def copy(self) -> Trace:
        """A trace of its own, in constant time."""
        return Trace(self._list) if len(self._list) == self._length else Trace(self.insts)


__all__ = ["Instruction", "Trace"]
