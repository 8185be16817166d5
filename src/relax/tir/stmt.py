"""Statements and functions of TIR.

    Stmt ::= BufferStore(buffer, value, indices, predicate?)
           | For(loop_var, min, extent, kind, body, annotations)        While(condition, body)
           | IfThenElse(condition, then_case, else_case?)               SeqStmt(seq)
           | LetStmt(var, value, body)      AssertStmt(condition, message, body)      Evaluate(value)
           | AttrStmt(node, attr_key, value, body)
           | AllocBuffer(buffer, body)      storage with the lifetime of the body
           | DeclBuffer(buffer, body)       another view of existing storage
           | BlockRealize(iter_values, predicate, block)

    Block(iter_vars, reads, writes, name_hint, body, init?, alloc_buffers, match_buffers, annotations)
    Precondition(condition, message)
    PrimFunc(params, body, ret_type?, buffer_map, preconditions, attrs)

A Block is a unit of computation with an explicit iteration space; schedules move blocks, and lowering turns them into
loops and branches for code generation.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast, final

from ..ir import BaseFunc, DataType, Node, binder, child, label, node, set_slot
from ..prim import FloatImm, IntImm, PrimExpr, StringImm, Var, convert, mark_nonnegative
from ..prim.expr import bind_value
from .buffer import STORE, Buffer, BufferRegion, IterVar, check_indices, optional, to_indices
from .functor import substitute
from .specialization import specialized_values


class Stmt(Node):
    """Base class of statements."""

    __slots__ = ()


class ForKind(enum.IntEnum):
    """Execution order of a loop's iterations. The numbers are TVM's; ``ForKind("serial")`` finds one by its name."""

    SERIAL = 0
    PARALLEL = 1
    VECTORIZED = 2
    UNROLLED = 3
    THREAD_BINDING = 4

    @classmethod
    def _missing_(cls, value: object) -> ForKind | None:
        return cls.__members__.get(value.upper()) if isinstance(value, str) else None


def _dict(value: Mapping[str, Any] | None) -> dict[str, Any]:
    """Convert annotation values to plain Python values: constants are unwrapped, so that ``T.bool(True)``
    equals True.
    """
    return {key: _plain(item) for key, item in (value or {}).items()}


def _plain(value: Any) -> Any:
    if isinstance(value, IntImm):
        return bool(value.value) if value.dtype.is_bool else value.value
    if isinstance(value, (FloatImm, StringImm)):
        return value.value
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in cast("dict[Any, Any]", value).items()}
    if isinstance(value, list):
        value = tuple(cast("list[Any]", value))
    return tuple(_plain(item) for item in cast("tuple[Any, ...]", value)) if isinstance(value, tuple) else value


@final
@node
class BufferStore(Stmt):
    """``buffer[indices] = value``. Raises TypeError if the value's dtype is not the buffer's.

    `predicate`, a vector of bool, selects the lanes of a vector that are written.
    """

    buffer: Buffer
    value: PrimExpr = child(converter=convert)
    indices: tuple[PrimExpr, ...] = child(converter=to_indices)
    predicate: PrimExpr | None = child(default=None, converter=optional)

    def __post_init__(self) -> None:
        check_indices("BufferStore", self.buffer, self.indices, self.predicate)
        lanes = self.indices[-1].dtype.lanes if self.indices else 1
        expected = self.buffer.dtype.with_lanes(lanes * self.buffer.dtype.lanes)
        if self.value.dtype != expected:
            raise TypeError(
                f"BufferStore: buffer {self.buffer.name} holds {expected!s}, the value is {self.value.dtype!s}"
            )


STORE.append(BufferStore)


OWN_FUNCTION: Final = "tir.own_function"
"""Annotation of a serial loop: code generation outlines the loop into a function of its own.

Registers that the loop needs, for constants for example, are then not taken from the enclosing loops.
"""

STAYS_ROLLED: Final = "tir.stays_rolled"
"""Annotation of a serial loop: LLVM does not unroll it.

Its iterations are long, and LLVM would mix those of a static number, which read memory in an order of its own.
"""

STAYS_PARALLEL: Final = "tir.stays_parallel"
"""Annotation of a parallel loop inside another parallel loop: it stays parallel instead of becoming serial.

Its iterations run on several threads; the outer loop runs serially, and may have a single iteration.
"""


LINKAGE: Final = "tir.linkage"
"""Attribute of a plain function, which has a C signature: "internal", "hidden", "weak" or "external" linkage.

It takes and returns scalars and pointers, and has no packed form. Its memory accesses are not checked; it raises no
errors of its own (`relax.codegen.plain`).
"""

C_ATTRIBUTES: Final = "tir.c_attributes"
"""Attribute of a plain function: LLVM's attributes, such as "cold noinline"."""


@final
@node
class For(Stmt):
    """A loop: `loop_var` takes the values of [min, min + extent), executed as `kind` defines."""

    loop_var: Var = binder()
    min: PrimExpr = child(converter=convert)
    extent: PrimExpr = child(converter=convert)
    kind: ForKind = child(converter=ForKind)
    body: Stmt
    annotations: dict[str, Any] = child(default=None, converter=_dict)
    thread_binding: str = child(default="")

    def __post_init__(self) -> None:
        # Constant bounds take the loop variable's dtype, so that a loop has one form.
        for name in ("min", "extent"):
            bound: PrimExpr = getattr(self, name)
            if isinstance(bound, IntImm) and bound.dtype != self.loop_var.dtype:
                set_slot(self, name, IntImm(self.loop_var.dtype, bound.value))


@final
@node
class While(Stmt):
    """Run the body while the condition holds."""

    condition: PrimExpr = child(converter=convert)
    body: Stmt


@final
@node
class IfThenElse(Stmt):
    """A branch; does nothing if the condition does not hold and there is no `else_case`."""

    condition: PrimExpr = child(converter=convert)
    then_case: Stmt
    else_case: Stmt | None = child(default=None)


def _flat(stmts: Iterable[Stmt]) -> tuple[Stmt, ...]:
    flat: list[Stmt] = []
    for stmt in stmts:
        flat.extend(stmt.seq if isinstance(stmt, SeqStmt) else (stmt,))
    return tuple(flat)


@final
@node
class SeqStmt(Stmt):
    """Statements in sequence; nested sequences are flattened. An empty sequence does nothing."""

    seq: tuple[Stmt, ...] = child(converter=_flat)

    def __len__(self) -> int:
        return len(self.seq)

    def __getitem__(self, index: int) -> Stmt:
        return self.seq[index]

    def __bool__(self) -> bool:
        """Return True: an empty sequence is a statement too."""
        return True


@final
@node
class LetStmt(Stmt):
    """`body`, in which `var` is bound to `value`."""

    var: Var = binder()
    value: PrimExpr
    body: Stmt

    def __post_init__(self) -> None:
        bind_value(self)


@final
@node
class AssertStmt(Stmt):
    """Raise an error with the message unless the condition holds, then run the body."""

    condition: PrimExpr = child(converter=convert)
    message: str
    body: Stmt


@final
@node
class AttrStmt(Stmt):
    """`body`, with an attribute for the compiler."""

    node: Any
    attr_key: str
    value: PrimExpr = child(converter=convert)
    body: Stmt


@final
@node
class Evaluate(Stmt):
    """Evaluate an expression for its effect."""

    value: PrimExpr = child(converter=convert)


@final
@node
class AllocBuffer(Stmt):
    """Storage for `buffer` with the lifetime of the body."""

    buffer: Buffer = binder()
    body: Stmt
    annotations: dict[str, Any] = child(default=None, converter=_dict)


@final
@node
class DeclBuffer(Stmt):
    """Declare `buffer` as another view of existing storage: its data variable is already bound."""

    buffer: Buffer = binder()
    body: Stmt


@final
@node
class MatchBufferRegion(Node):
    """Declare `buffer` as a view of the region `source` inside a block."""

    buffer: Buffer = binder()
    source: BufferRegion


@final
@node
class Block(Stmt):
    """A unit of computation over `iter_vars`; `init` runs first where every reduce variable is at its
    start.
    """

    iter_vars: tuple[IterVar, ...] = binder(converter=tuple)
    alloc_buffers: tuple[Buffer, ...] = binder(default=(), converter=tuple, kw_only=True)
    match_buffers: tuple[MatchBufferRegion, ...] = child(default=(), converter=tuple, kw_only=True)
    reads: tuple[BufferRegion, ...] = child(converter=tuple)
    writes: tuple[BufferRegion, ...] = child(converter=tuple)
    name_hint: str = label()
    body: Stmt
    init: Stmt | None = child(default=None)
    annotations: dict[str, Any] = child(default=None, converter=_dict, kw_only=True)


@final
@node
class BlockRealize(Stmt):
    """Run the block for the given values of its variables, where the predicate holds."""

    iter_values: tuple[PrimExpr, ...] = child(converter=to_indices)
    predicate: PrimExpr = child(converter=convert)
    block: Block


@final
@node
class Precondition(Node):
    """A condition on sizes and scalar parameters of a call; a call that violates it raises the message."""

    condition: PrimExpr = child(converter=convert)
    message: str


def _dtype_or_none(value: Any) -> DataType | None:
    return None if value is None else DataType(value)


def _table(value: Mapping[Var, Buffer] | None) -> dict[Var, Buffer]:
    return dict(value or {})


@final
@node
class PrimFunc(BaseFunc):
    """A function over buffers and scalars, in destination-passing style.

    A parameter in `buffer_map` is a tensor; the shape of its buffer may bind shape variables. `preconditions` are
    checked in order before the body runs; a rewrite of the body leaves them alone.
    """

    params: tuple[Var, ...] = binder(converter=tuple)
    buffer_map: dict[Var, Buffer] = binder(default=None, converter=_table, kw_only=True)
    preconditions: tuple[Precondition, ...] = child(default=(), converter=tuple, kw_only=True)
    body: Stmt
    ret_type: DataType | None = child(default=None, converter=_dtype_or_none)
    attrs: dict[str, Any] = child(default=None, converter=_dict, kw_only=True)

    def specialize(self, param_map: Mapping[Var, Any]) -> PrimFunc:
        """Return the function for static sizes, scalars and buffers: see `relax.tir.specialize`."""
        values = specialized_values(self.params, self.buffer_map, param_map)
        params = tuple(param for param in self.params if param not in values)
        return cast("PrimFunc", substitute(self.replace(params=params), values))

    def __post_init__(self) -> None:
        for buffer in self.buffer_map.values():
            for size in buffer.shape:
                if isinstance(size, Var):
                    mark_nonnegative(size)
