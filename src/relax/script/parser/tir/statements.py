"""Functions of the namespace that annotate the current function or block, or are used as statements."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from ....prim import IntImm, Let, PrimExpr, Var, convert, is_const
from ....tir.buffer import BufferLoad, to_indices
from ....tir.stmt import AllocBuffer, AssertStmt, AttrStmt, BufferStore, Evaluate, LetStmt, Precondition, SeqStmt
from ..core.diagnostics import DECLARATION, error
from .buffers import dtype_of, make_buffer, pointers
from .frames import BlockFrame, EnclosingStmt, EnvThread, InitFrame
from .state import parser
from .values import Meta, stored_value


def func_attr(attrs: Mapping[str, Any]) -> None:
    """Attributes of the function."""
    parser().attrs.update(attrs)


def func_name(name: str) -> None:
    """Set the function's global symbol."""
    parser().attrs["global_symbol"] = name


def func_ret(dtype: Any) -> None:
    """Set the function's return type."""
    parser().set_return(dtype_of(dtype))


def noalias() -> None:
    """Declare that the function's parameters do not alias."""
    parser().attrs["tir.noalias"] = True


def precondition(condition: Any, message: Any = "") -> Precondition:
    """A condition on sizes and scalar parameters required of calls of the function.

    Raises TypeError unless it is a bool.
    """
    test = convert(condition)
    if not test.dtype.is_bool:
        raise TypeError(f"the precondition has dtype {test.dtype!s}, expected bool")
    return Precondition(test, str(message))


def block(name: str = "", no_realize: bool = False) -> BlockFrame:
    """``with T.block("B"):`` a unit of computation."""
    return BlockFrame(name)


def init() -> InitFrame:
    """``with T.init():`` the initialisation of a reduction block."""
    parser().block("T.init()")
    return InitFrame()


def where(predicate: Any) -> None:
    """Run the block only where the predicate holds. Raises TypeError unless it is a bool."""
    frame = parser().block("T.where")
    if not is_const(frame.predicate, 1):
        raise error(DECLARATION, f"block `{frame.name}` has two predicates", None)
    condition = convert(predicate)
    if not condition.dtype.is_bool:
        raise TypeError(f"the predicate has dtype {condition.dtype!s}, expected bool")
    frame.predicate = condition


def reads(*regions: Any) -> None:
    """Declare the regions a block reads: ``T.reads(A[i, j], B[0:n])``; ``T.reads()`` for none."""
    frame = parser().block("T.reads")
    if frame.reads is not None:
        raise error(DECLARATION, f"block `{frame.name}` says twice what it reads", None)
    frame.reads = parser().regions(regions)


def writes(*regions: Any) -> None:
    """Declare the regions a block writes."""
    frame = parser().block("T.writes")
    if frame.writes is not None:
        raise error(DECLARATION, f"block `{frame.name}` says twice what it writes", None)
    frame.writes = parser().regions(regions)


def block_attr(attrs: Mapping[str, Any]) -> None:
    """Annotations of the block; outside of blocks, of the root block."""
    parser().storage_frame().annotations.update(attrs)


def Assert(condition: Any, message: Any = "") -> EnclosingStmt:
    """Raise an error with the message unless the condition holds."""
    test = convert(condition)
    return EnclosingStmt(lambda body, span: AssertStmt(test, str(message), body, span=span))


def attr(node: Any, attr_key: str, value: Any) -> EnclosingStmt:
    """A compiler annotation of the following statements."""
    noted = convert(value)
    return EnclosingStmt(lambda body, span: AttrStmt(node, attr_key, noted, body, span=span))


def env_thread(thread_tag: str, dtype: str = "int32") -> EnvThread:
    """``tx = T.env_thread("threadIdx.x")``: the index of a device thread."""
    return EnvThread(thread_tag)


def launch_thread(thread: Any, extent: Any) -> EnclosingStmt:
    """Run the rest once for each of `extent` threads; `thread` is a thread tag or a variable of T.env_thread.

    Raises TypeError for any other value.
    """
    state = parser()
    if isinstance(thread, str):
        (name,) = state.take_names(1)
        thread = state.thread_variable(name, EnvThread(thread))
    if not isinstance(thread, Var):
        raise TypeError("launch_thread takes a thread's tag, or a variable made by T.env_thread")
    iter_var, size = state.thread_of(thread), convert(extent)
    return EnclosingStmt(lambda body, span: AttrStmt(iter_var, "thread_extent", size, body, span=span), iter_var.var)


def allocate_const(data: Any, dtype: Any, extents: Any, annotations: Mapping[str, Any] | None = None) -> EnclosingStmt:
    """Storage for the following statements, initialised with `data`.

    Raises ValueError unless `data` has one number per element, and above a limit of elements.
    """
    (name,) = parser().take_names(1)
    buffer = parser().declare(make_buffer(name, extents, dtype))
    shape = [size.value if isinstance(size, IntImm) else -1 for size in buffer.shape]
    values: Any = np.asarray(data)
    if min(shape, default=1) < 0 or values.size != math.prod(shape):
        raise ValueError(f"allocate_const: found {values.size} numbers for the shape {buffer.shape}")
    if values.size > MAX_CONSTANTS:
        raise ValueError(f"allocate_const: more than {MAX_CONSTANTS} numbers; pass them as a parameter")
    numbers = [stored_value(value.item(), buffer.dtype, buffer.name) for value in values.reshape(-1)]
    positions: Any = np.ndindex(*shape)
    stores = [BufferStore(buffer, number, position) for number, position in zip(numbers, positions, strict=True)]
    notes = dict(annotations or {})
    return EnclosingStmt(lambda body, span: AllocBuffer(buffer, SeqStmt([*stores, body]), notes, span=span), buffer)


MAX_CONSTANTS = 4096
"""Maximum number of elements of T.allocate_const, as each becomes a store."""


def target(config: Any, host: Any = None) -> Any:
    """A target, for a function's attributes, from a text or table.

    Raises TypeError for another description.
    """
    if not isinstance(config, (str, Mapping)):
        raise TypeError("a target is described by text or by a table")
    described = config if isinstance(config, str) else dict(cast("Mapping[str, Any]", config))
    if host is None:
        return described
    return {**({"kind": described} if isinstance(described, str) else described), "host": host}


def LetStmt_(value: Any, type_annotation: Any = None, *, var: Var | None = None) -> EnclosingStmt:
    """``with T.LetStmt(value) as x:`` and ``with T.LetStmt(value, var=x):``."""
    expr = convert(value)
    (name,) = parser().take_names(1)
    bound = Var(name or "x", expr.dtype) if var is None else var
    return EnclosingStmt(lambda body, span: LetStmt(bound, expr, body, span=span), bound)


def let(var: Var, value: Any, body: Any = None) -> EnclosingStmt | PrimExpr:
    """``with T.let(x, value):``; with a body, an expression."""
    expr = stored_value(value, var.dtype, var.name)
    if body is not None:
        return Let(var, expr, convert(body))
    return EnclosingStmt(lambda rest, span: LetStmt(var, expr, rest, span=span), var)


def Let_(expr: Any, where: Mapping[Var, Any]) -> PrimExpr:
    """``T.Let(body, where={x: value})``: an expression with variables bound."""
    result = convert(expr)
    for var, value in reversed(list(where.items())):
        result = Let(var, stored_value(value, var.dtype, var.name), result)
    return result


def evaluate(value: Any) -> Evaluate:
    """Evaluate an expression for its side effects."""
    return Evaluate(convert(pointers(value)))


def buffer_store(buffer: Any, value: Any, indices: Any, predicate: Any = None) -> BufferStore:
    """``buffer[indices] = value``, in the lanes in which the predicate holds."""
    positions = to_indices(indices)
    lanes = positions[-1].dtype.lanes * buffer.dtype.lanes if positions else buffer.dtype.lanes
    stored = stored_value(value, buffer.dtype.with_lanes(lanes), buffer.name)
    return BufferStore(buffer, stored, positions, predicate)


def BufferLoad_(buffer: Any, indices: Any, predicate: Any = None) -> BufferLoad:
    """``buffer[indices]``."""
    return BufferLoad(buffer, indices, predicate)


def meta_var(value: Any) -> Meta:
    """A name for a parse-time value: ``x = T.meta_var(expr)`` creates no variable."""
    return Meta(value)


__all__ = [
    "Assert", "BufferLoad_", "LetStmt_", "Let_", "allocate_const", "attr", "block", "block_attr", "buffer_store",
    "env_thread", "evaluate", "func_attr", "func_name", "func_ret", "init", "launch_thread", "let", "meta_var",
    "noalias", "precondition", "reads", "target", "where", "writes",
]  # fmt: skip
