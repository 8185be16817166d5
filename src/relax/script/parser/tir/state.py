"""Access to the active parser for the namespace's functions."""

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
    """Part of the parser's interface that the namespace's functions use."""

    attrs: dict[str, Any]

    def take_names(self, count: int) -> list[str]:
        """Take the next `count` target names of the current statement; empty strings if there are fewer."""
        ...

    def thread_variable(self, name: str, thread: EnvThread) -> Var:
        """Create the variable of a device thread."""
        ...

    def thread_of(self, var: Var) -> IterVar:
        """Thread of a variable created by T.env_thread."""
        ...

    def loop_of(self, value: Any) -> Loop | None:
        """Enclosing loop of a loop variable, or None."""
        ...

    def add_axis(self, kind: str, dom: Range, value: PrimExpr, name: str, dtype: str | None) -> Var:
        """Add an axis variable to the current block."""
        ...

    def block(self, construct: str) -> BlockFrame:
        """Current block. Raises DiagnosticError outside of blocks."""
        ...

    def storage_frame(self) -> BlockFrame:
        """Current block, or the function's root block."""
        ...

    def in_block_body(self) -> bool:
        """True if the current statement is directly in a block (or the function), not in a loop or branch of it."""
        ...

    def match_parameter(self, param: Var, buffer: Buffer) -> None:
        """Match a handle parameter to `buffer`."""
        ...

    def declare(self, buffer: Buffer) -> Buffer:
        """Add a buffer to the scope from here on."""
        ...

    def set_return(self, dtype: str) -> None:
        """Set the function's return type."""
        ...

    def as_region(self, value: Any) -> BufferRegion:
        """Convert a buffer access to a region."""
        ...

    def regions(self, values: Sequence[Any]) -> tuple[BufferRegion, ...]:
        """Convert buffer accesses to regions."""
        ...


def parser() -> TirState:
    """Active parser. Raises DiagnosticError outside of a ``@T.prim_func``."""
    current = StatementParser.current()
    if current is None or not hasattr(current, "storage_frame"):
        raise outside()
    return cast(TirState, current)


def outside() -> DiagnosticError:
    """Error for a statement outside of a PrimFunc."""
    return error(PLACE, "this belongs inside a function decorated with @T.prim_func", None)


__all__ = ["TirState", "outside", "parser"]
