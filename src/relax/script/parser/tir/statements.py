"""Functions of the namespace that say something of the function or block at work, or stand as statements."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from ....prim import IntImm, Let, PrimExpr, Var, convert, is_const
from ....tir.buffer import BufferLoad, to_indices
from ....tir.stmt import (
    AllocBuffer,
    AssertStmt,
    AttrStmt,
    BufferStore,
    Evaluate,
    LetStmt,
    Precondition,
    SeqStmt,
)
from ..core.diagnostics import DECLARATION, error
from .buffers import dtype_of, make_buffer, pointers
from .frames import BlockFrame, EnclosingStmt, EnvThread, InitFrame
from .state import parser
from .values import Meta, stored_value


def func_attr(attrs: Mapping[str, Any]) -> None:
    """Attributes of the function."""
    parser().attrs.update(attrs)


def func_name(name: str) -> None:
    """The function's global symbol."""
    parser().attrs["global_symbol"] = name


def func_ret(dtype: Any) -> None:
    """The function's return type."""
    parser().set_return(dtype_of(dtype))


def noalias() -> None:
    """The function's parameters do not overlap."""
    parser().attrs["tir.noalias"] = True


def precondition(condition: Any, message: Any = "") -> Precondition:
    """A condition on sizes and scalar parameters that a call of the function must fulfil.

    Raises TypeError if it is no bool.
    """
    test = convert(condition)
    if not test.dtype.is_bool:
        raise TypeError(f"the precondition has dtype {test.dtype!s}, expected bool")
    return Precondition(test, str(message))


def block(name: str = "", no_realize: bool = False) -> BlockFrame:
    """``with T.block("B"):`` a unit of computation."""
    return BlockFrame(name)


def init() -> InitFrame:
    """``with T.init():`` what a reduction block does first."""
    parser().block("T.init()")
    return InitFrame()


def where(predicate: Any) -> None:
    """The block runs only where the predicate holds. Raises TypeError for a predicate that is no bool."""
    frame = parser().block("T.where")
    if not is_const(frame.predicate, 1):
        raise error(DECLARATION, f"block `{frame.name}` has two predicates", None)
    condition = convert(predicate)
    if not condition.dtype.is_bool:
        raise TypeError(f"the predicate has dtype {condition.dtype!s}, expected bool")
    frame.predicate = condition


def reads(*regions: Any) -> None:
    """The regions a block reads: ``T.reads(A[i, j], B[0:n])``; nothing: ``T.reads()``."""
    frame = parser().block("T.reads")
    if frame.reads is not None:
        raise error(DECLARATION, f"block `{frame.name}` says twice what it reads", None)
    frame.reads = parser().regions(regions)


def writes(*regions: Any) -> None:
    """The regions a block writes."""
    frame = parser().block("T.writes")
    if frame.writes is not None:
        raise error(DECLARATION, f"block `{frame.name}` says twice what it writes", None)
    frame.writes = parser().regions(regions)


def block_attr(attrs: Mapping[str, Any]) -> None:
    """Annotations of the block; outside of blocks, of the root block."""
    parser().storage_frame().annotations.update(attrs)


def Assert(condition: Any, message: Any = "") -> EnclosingStmt:
    """An error with the message, unless the condition holds."""
    test = convert(condition)
    return EnclosingStmt(lambda body, span: AssertStmt(test, str(message), body, span=span))


def attr(node: Any, attr_key: str, value: Any) -> EnclosingStmt:
    """A remark for the compiler about the statements that follow."""
    noted = convert(value)
    return EnclosingStmt(lambda body, span: AttrStmt(node, attr_key, noted, body, span=span))


def env_thread(thread_tag: str, dtype: str = "int32") -> EnvThread:
    """``tx = T.env_thread("threadIdx.x")``: the number of a thread of a device."""
    return EnvThread(thread_tag)


def launch_thread(thread: Any, extent: Any) -> EnclosingStmt:
    """Run the rest once for each of `extent` threads; `thread` is a thread's tag, or made by T.env_thread.

    Raises TypeError for another thread.
    """
    state = parser()
    if isinstance(thread, str):
        (name,) = state.take_names(1)
        thread = state.thread_variable(name, EnvThread(thread))
    if not isinstance(thread, Var):
        raise TypeError("launch_thread takes a thread's tag, or a variable made by T.env_thread")
    iter_var, size = state.thread_of(thread), convert(extent)
    return EnclosingStmt(
        lambda body, span: AttrStmt(iter_var, "thread_extent", size, body, span=span), iter_var.var
    )


def allocate_const(
    data: Any, dtype: Any, extents: Any, annotations: Mapping[str, Any] | None = None
) -> EnclosingStmt:
    """Storage for the statements that follow, filled with the numbers of `data`.

    Raises ValueError unless there is a number for each element, and for very many of them.
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
    places: Any = np.ndindex(*shape)
    stores = [BufferStore(buffer, number, place) for number, place in zip(numbers, places, strict=True)]
    notes = dict(annotations or {})
    return EnclosingStmt(
        lambda body, span: AllocBuffer(buffer, SeqStmt([*stores, body]), notes, span=span), buffer
    )


MAX_CONSTANTS = 4096
"""The most numbers a T.allocate_const may have: each becomes a store."""


def target(config: Any, host: Any = None) -> Any:
    """The target of a function, for its attributes: the text or table that describes it.

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
    """Compute an expression for its effect."""
    return Evaluate(convert(pointers(value)))


def buffer_store(buffer: Any, value: Any, indices: Any, predicate: Any = None) -> BufferStore:
    """``buffer[indices] = value``, in the lanes in which the predicate holds."""
    places = to_indices(indices)
    lanes = places[-1].dtype.lanes * buffer.dtype.lanes if places else buffer.dtype.lanes
    stored = stored_value(value, buffer.dtype.with_lanes(lanes), buffer.name)
    return BufferStore(buffer, stored, places, predicate)


def BufferLoad_(buffer: Any, indices: Any, predicate: Any = None) -> BufferLoad:
    """``buffer[indices]``."""
    return BufferLoad(buffer, indices, predicate)


def meta_var(value: Any) -> Meta:
    """A name for a value of the parser's: ``x = T.meta_var(expr)`` makes no variable."""
    return Meta(value)


__all__ = [
    "Assert", "BufferLoad_", "LetStmt_", "Let_", "allocate_const", "attr", "block", "block_attr", "buffer_store",
    "env_thread", "evaluate", "func_attr", "func_name", "func_ret", "init", "launch_thread", "let", "meta_var",
    "noalias", "precondition", "reads", "target", "where", "writes",
]  # fmt: skip
