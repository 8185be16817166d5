"""Access, for the namespace's functions, to the parser at work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, cast

from ....ir import DiagnosticError
from ....prim import PrimExpr, Var
from ....tir.buffer import Buffer, BufferRegion, IterVar, Range
from ..core import StatementParser
from ..core.diagnostics import PLACE, error
from .frames import BlockFrame, EnvThread, Loop


class TirState(Protocol):
    """The part of the parser that the namespace's functions use."""

    attrs: dict[str, Any]

    def take_names(self, count: int) -> list[str]:
        """The names that the statement at work assigns to, as many as asked for; empty ones if it has none."""
        ...

    def thread_variable(self, name: str, thread: EnvThread) -> Var:
        """The variable of a thread of a device."""
        ...

    def thread_of(self, var: Var) -> IterVar:
        """The thread that a variable stands for."""
        ...

    def loop_of(self, value: Any) -> Loop | None:
        """The enclosing loop of a variable."""
        ...

    def add_axis(self, kind: str, dom: Range, value: PrimExpr, name: str, dtype: str | None) -> Var:
        """A new variable of the block at work."""
        ...

    def block(self, what: str) -> BlockFrame:
        """The block at work. Raises DiagnosticError outside of blocks."""
        ...

    def storage_frame(self) -> BlockFrame:
        """The block at work, or the function's root block."""
        ...

    def in_block_body(self) -> bool:
        """True if the statement at work stands in a block (or the function) itself, not in a loop or branch of it."""
        ...

    def match_parameter(self, param: Var, buffer: Buffer) -> None:
        """A parameter is a tensor seen as `buffer`."""
        ...

    def declare(self, buffer: Buffer) -> Buffer:
        """A buffer is in scope from here on."""
        ...

    def set_return(self, dtype: str) -> None:
        """The function's return type."""
        ...

    def as_region(self, value: Any) -> BufferRegion:
        """A buffer access as a region."""
        ...

    def regions(self, values: Sequence[Any]) -> tuple[BufferRegion, ...]:
        """Buffer accesses as regions."""
        ...


def parser() -> TirState:
    """The parser at work. Raises DiagnosticError outside of a ``@T.prim_func``."""
    current = StatementParser.current()
    if current is None or not hasattr(current, "storage_frame"):
        raise outside()
    return cast(TirState, current)


def outside() -> DiagnosticError:
    """The error of a statement that stands outside of a PrimFunc."""
    return error(PLACE, "this belongs inside a function decorated with @T.prim_func", None)


__all__ = ["TirState", "outside", "parser"]
