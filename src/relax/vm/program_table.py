"""Table of a compiled program: cells of the constants, functions and devices its functions use."""

from __future__ import annotations

from typing import Any

from ..expr import Constant
from ..runtime import ExecBuilder
from ..runtime.bytecode import Imm, Operand
from ..runtime.compiled import FIRST_CELL


class ProgramTable:
    """Table shared by all compiled functions of a program: a cell per operand."""

    def __init__(self, builder: ExecBuilder, constants: dict[int, tuple[Constant, Operand]]) -> None:
        self.builder = builder
        self.constants = constants
        """The tensor constants of the program, by identity."""
        self._cells: dict[tuple[str, Operand], int] = {}

    @property
    def cells(self) -> tuple[Operand, ...]:
        """Operands in the order of their cells. An integer is the index of a device."""
        return tuple(operand for _, operand in self._cells)

    def constant(self, value: Any) -> int:
        """Cell of a constant."""
        operand = self.builder.convert_constant(value)
        assert not isinstance(operand, Imm)
        return self._cell("value", operand)

    def tensor(self, expr: Constant) -> int:
        """Cell of a tensor constant."""
        if id(expr) not in self.constants:
            self.constants[id(expr)] = expr, self.builder.convert_constant(expr.tensor)
        return self._cell("value", self.constants[id(expr)][1])

    def function(self, name: str) -> int:
        """Cell of a function."""
        return self._cell("value", self.builder.f(name))

    def device(self, number: int) -> int:
        """Cell of a device of the program."""
        return self._cell("device", Imm(number))

    def _cell(self, kind: str, operand: Operand) -> int:
        return self._cells.setdefault((kind, operand), FIRST_CELL + len(self._cells))
