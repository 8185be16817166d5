"""Functions of the namespace that say something of the function or block at work, or stand as statements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....prim import Let, PrimExpr, Var, convert, is_const
from ....tir.buffer import BufferLoad
from ....tir.stmt import AssertStmt, AttrStmt, BufferStore, Evaluate, LetStmt
from ..core.diagnostics import DECLARATION, error
from .buffers import dtype_of, pointers
from .frames import BlockFrame, InitFrame, Scope
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


def block(name: str = "", no_realize: bool = False) -> BlockFrame:
    """``with T.block("B"):`` a unit of computation."""
    return BlockFrame(name)


def init() -> InitFrame:
    """``with T.init():`` what a reduction block does first."""
    parser().block("T.init()")
    return InitFrame()


def where(predicate: Any) -> None:
    """The block runs only where the predicate holds."""
    frame = parser().block("T.where")
    if not is_const(frame.predicate, 1):
        raise error(DECLARATION, f"block `{frame.name}` has two predicates", None)
    condition = convert(predicate)
    if not condition.dtype.is_bool:
        raise TypeError(f"the predicate has dtype {condition.dtype!s}, expected bool")
    frame.predicate = condition


def reads(*regions: Any) -> None:
    """What the block reads: ``T.reads(A[i, j], B[0:n])``; nothing: ``T.reads()``."""
    frame = parser().block("T.reads")
    if frame.reads is not None:
        raise error(DECLARATION, f"block `{frame.name}` says twice what it reads", None)
    frame.reads = parser().regions(regions)


def writes(*regions: Any) -> None:
    """What the block writes."""
    frame = parser().block("T.writes")
    if frame.writes is not None:
        raise error(DECLARATION, f"block `{frame.name}` says twice what it writes", None)
    frame.writes = parser().regions(regions)


def block_attr(attrs: Mapping[str, Any]) -> None:
    """Annotations of the block; outside of blocks, of the root block."""
    parser().storage_frame().annotations.update(attrs)


def Assert(condition: Any, message: Any = "") -> Scope:
    """An error with the message, unless the condition holds."""
    test = convert(condition)
    return Scope(lambda body, span: AssertStmt(test, str(message), body, span=span))


def attr(node: Any, attr_key: str, value: Any) -> Scope:
    """A remark for the compiler about the statements that follow."""
    noted = convert(value)
    return Scope(lambda body, span: AttrStmt(node, attr_key, noted, body, span=span))


def LetStmt_(value: Any, type_annotation: Any = None, *, var: Var | None = None) -> Scope:
    """``with T.LetStmt(value) as x:`` and ``with T.LetStmt(value, var=x):``."""
    expr = convert(value)
    (name,) = parser().take_names(1)
    bound = Var(name or "x", expr.dtype) if var is None else var
    return Scope(lambda body, span: LetStmt(bound, expr, body, span=span), bound)


def let(var: Var, value: Any, body: Any = None) -> Scope | PrimExpr:
    """``with T.let(x, value):``; with a body, an expression."""
    expr = stored_value(value, var.dtype, var.name)
    if body is not None:
        return Let(var, expr, convert(body))
    return Scope(lambda rest, span: LetStmt(var, expr, rest, span=span), var)


def Let_(expr: Any, where: Mapping[Var, Any]) -> PrimExpr:
    """``T.Let(body, where={x: value})``: an expression with variables bound."""
    result = convert(expr)
    for var, value in reversed(list(where.items())):
        result = Let(var, stored_value(value, var.dtype, var.name), result)
    return result


def evaluate(value: Any) -> Evaluate:
    """Compute an expression for its effect."""
    return Evaluate(convert(pointers(value)))


def buffer_store(buffer: Any, value: Any, indices: Any) -> BufferStore:
    """``buffer[indices] = value``."""
    return BufferStore(buffer, stored_value(value, buffer.dtype, buffer.name), indices)


def BufferLoad_(buffer: Any, indices: Any) -> BufferLoad:
    """``buffer[indices]``."""
    return BufferLoad(buffer, indices)


def meta_var(value: Any) -> Meta:
    """A name for a value of the parser's: ``x = T.meta_var(expr)`` makes no variable."""
    return Meta(value)


__all__ = [
    "Assert", "BufferLoad_", "LetStmt_", "Let_", "attr", "block", "block_attr", "buffer_store", "evaluate",
    "func_attr", "func_name", "func_ret", "init", "let", "meta_var", "noalias", "reads", "where", "writes",
]  # fmt: skip
