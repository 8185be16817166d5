"""Frames: values returned by the namespace's functions for the parser: loops, blocks, scopes.

for i, j in T.grid(n, m)         Loops
with T.block("B")                BlockFrame        with T.init()    InitFrame
with T.allocate(...) as B        EnclosingStmt: a statement around the rest of the body
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from ....ir import Span
from ....prim import IntImm, PrimExpr, Var
from ....runtime.records import dataclass
from ....tir.buffer import Buffer, BufferRegion, IterVar
from ....tir.stmt import ForKind, MatchBufferRegion, Stmt

TRUE = IntImm("bool", 1)


@dataclass(eq=False)
class Loop:
    """One loop: `extent` iterations from `start`, `step` apart."""

    start: PrimExpr
    extent: PrimExpr
    kind: ForKind = ForKind.SERIAL
    annotations: Mapping[str, Any] = field(default_factory=dict[str, Any])
    thread: str = ""
    step: int = 1


@dataclass(eq=False)
class Loops:
    """Nested loops for the targets of one ``for``."""

    loops: list[Loop]


@dataclass(eq=False)
class InitFrame:
    """``with T.init():``"""


@dataclass(eq=False)
class EnclosingStmt:
    """A statement that encloses the rest of the body (or, in a ``with``, its body)."""

    wrap: Callable[[Stmt, Span | None], Stmt]
    value: Any = None
    """Value bound by ``as`` (or by an assignment)."""


@dataclass(eq=False)
class BlockFrame:
    """A block under construction. The function's own frame is that of the root block."""

    name: str = ""
    iter_vars: list[IterVar] = field(default_factory=list[IterVar])
    iter_values: list[PrimExpr] = field(default_factory=list[PrimExpr])
    predicate: PrimExpr = TRUE
    reads: tuple[BufferRegion, ...] | None = None
    writes: tuple[BufferRegion, ...] | None = None
    annotations: dict[str, Any] = field(default_factory=dict[str, Any])
    alloc_buffers: list[Buffer] = field(default_factory=list[Buffer])
    match_buffers: list[MatchBufferRegion] = field(default_factory=list[MatchBufferRegion])
    init: Stmt | None = None
    depth: int = 1
    """Nesting depth at which the block's own statements are parsed; deeper ones are in loops and branches inside it."""


@dataclass(frozen=True)
class EnvThread:
    """``T.env_thread("threadIdx.x")``: a device thread; an assignment creates its variable."""

    tag: str


@dataclass(frozen=True, eq=False)
class LocalVar:
    """``i = T.alloc_var("int64", 0)``: a variable that assignments change, an element of storage."""

    buffer: Buffer


@dataclass(eq=False)
class Body:
    """Statements under construction. An EnclosingStmt wraps all following statements."""

    items: list[Stmt | tuple[EnclosingStmt, Span | None]] = field(default_factory=list[Any])
    lets: dict[str, Var] = field(default_factory=dict[str, Var])
    """Names bound to values in this body."""


__all__ = ["TRUE", "BlockFrame", "Body", "EnclosingStmt", "EnvThread", "InitFrame", "LocalVar", "Loop", "Loops"]
