"""Struct info of an argument while a call is being built, before normalisation has derived it.

`x * 2 + 1` nests calls that no block builder has seen yet, and the literal must take the dtype of `x * 2`.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from weakref import WeakKeyDictionary

from ..expr import Call, Constant, DataTypeImm, If, PrimValue, SeqExpr, ShapeExpr, StringImm, Tuple, TupleGetItem
from ..info.relations import struct_info_lca
from ..ir import DiagnosticError, Op, RelaxExpr, Span, StructInfo
from ..prim.analyzer import has_facts_in_scope
from ..prim.expr import nonnegative_epoch
from ..struct_info import ObjectStructInfo, PrimStructInfo, ShapeStructInfo, TensorStructInfo, TupleStructInfo

_KNOWN: WeakKeyDictionary[RelaxExpr, StructInfo] = WeakKeyDictionary()

_INFERRED: WeakKeyDictionary[RelaxExpr, tuple[int, StructInfo]] = WeakKeyDictionary()
"""Calls that were inferred when they were built, without facts, and the epoch of marked variables at that time."""


DEFERRED: ContextVar[bool] = ContextVar("whether errors of operands wait for normalisation", default=False)


@contextmanager
def deferred_errors() -> Generator[None]:
    """Context manager: calls of operators leave errors of their operands to normalisation.

    The parser uses it to report all errors of a program together, each with its own span.
    """
    token = DEFERRED.set(True)
    try:
        yield
    finally:
        DEFERRED.reset(token)


def known_struct_info(expr: RelaxExpr) -> StructInfo | None:
    """Struct info of an expression: derived by normalisation, or from its leaves and operators; None if unknown."""
    if expr.struct_info_ is not None:
        return expr.struct_info_
    info = _KNOWN.get(expr)
    if info is None:
        info = _derive(expr)
        if info is not None:
            _KNOWN[expr] = info
    return info


def remember(expr: RelaxExpr, info: StructInfo) -> None:
    """Record the struct info of a variable that is already bound (the parser reads bindings in order)."""
    _KNOWN[expr] = info


def remember_inferred(call: Call, info: StructInfo) -> None:
    """Record the struct info of a call that its operator's `infer` returned, for normalisation."""
    _KNOWN[call] = info
    if not has_facts_in_scope():
        _INFERRED[call] = nonnegative_epoch(), info


def inferred(call: Call) -> StructInfo | None:
    """Struct info that was inferred when a call was built, if inference without facts would return it again."""
    epoch, info = _INFERRED.get(call, (None, None))
    return info if epoch == nonnegative_epoch() else None


def at_span(expr: RelaxExpr, span: Span | None) -> RelaxExpr:
    """Return an expression with another span, and with the struct info that was inferred for it."""
    placed = expr.replace(span=span)
    if placed is not expr:
        for table in (_KNOWN, _INFERRED):
            entry: Any = table.get(expr)
            if entry is not None:
                table[placed] = entry
    return placed


def _derive(expr: RelaxExpr) -> StructInfo | None:
    match expr:
        case Constant():
            return TensorStructInfo(expr.content.shape, expr.dtype)
        case ShapeExpr():
            return ShapeStructInfo(expr.values)
        case PrimValue():
            return PrimStructInfo(value=expr.value)
        case StringImm() | DataTypeImm():
            return ObjectStructInfo()
        case Tuple():
            fields = [known_struct_info(field) for field in expr.fields]
            return TupleStructInfo(tuple(ObjectStructInfo() if f is None else f for f in fields))
        case TupleGetItem():
            info = known_struct_info(expr.tuple_value)
            index: Any = expr.index  # not yet checked to be an int
            if not (isinstance(info, TupleStructInfo) and isinstance(index, int)):
                return None
            return info.fields[index] if 0 <= index < len(info.fields) else None
        case Call():
            infer = expr.op.get_attr("FInferStructInfo") if isinstance(expr.op, Op) else None
            try:
                return None if infer is None else infer(expr, None)
            except (DiagnosticError, TypeError, ValueError, AttributeError, LookupError):
                return None  # normalisation will report it, with its span
        case If():
            yes, no = known_struct_info(expr.true_branch), known_struct_info(expr.false_branch)
            return None if yes is None or no is None else struct_info_lca(yes, no)
        case SeqExpr():
            return known_struct_info(expr.body)
        case _:
            return None
