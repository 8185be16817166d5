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
from ..ir import DiagnosticError, Op, RelaxExpr, StructInfo
from ..struct_info import ObjectStructInfo, PrimStructInfo, ShapeStructInfo, TensorStructInfo, TupleStructInfo

_KNOWN: WeakKeyDictionary[RelaxExpr, StructInfo] = WeakKeyDictionary()


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
