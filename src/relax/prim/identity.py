"""One object for all scalar expressions that are structurally equal.

    identity(n * 4 + 1) is identity(n * 4 + 1)          whoever made them, as long as one of them lives

Programs make the same dimensions again and again. A table by identity finds them without a walk: each expression keeps
the object, so that those made of it are found by their operands'.
"""

from __future__ import annotations

from typing import Any, Final
from weakref import WeakValueDictionary

from ..ir import set_slot, structural_equal, structural_hash
from ..ir.deep import run_deep
from .expr import BinaryExpr, Call, Cast, FloatImm, IntImm, Not, PrimExpr, Select, Var
from .functor import sub_expressions

_OPERATIONS: Final = (BinaryExpr, Not, Select, Cast, Call)
"""Expressions that are described by their class, dtype, callee and operands."""


class Identity:
    """Token that equal expressions share; compared and hashed as an object."""

    __slots__ = ("__weakref__", "_kept")

    def __init__(self, kept: object = None) -> None:
        self._kept = kept
        """Objects whose addresses are in the key under which this one is found."""


_identities: Final[WeakValueDictionary[tuple[Any, ...], Identity]] = WeakValueDictionary()


class _Alike:
    """Expressions of other kinds with one structural hash, and their identities."""

    def __init__(self) -> None:
        self.pairs: list[tuple[PrimExpr, Identity]] = []

    def identity(self, expr: PrimExpr) -> Identity:
        for other, known in self.pairs:
            if structural_equal(other, expr):
                return known
        made = Identity(self)
        self.pairs.append((expr, made))
        return made


_others: Final[WeakValueDictionary[int, _Alike]] = WeakValueDictionary()


def identity(expr: PrimExpr) -> Identity:
    """The same object for two expressions if and only if they are structurally equal, over the same free variables.

    Expressions made by several threads at once may have different ones nevertheless.
    """
    try:
        return expr._identity  # type: ignore[reportPrivateUsage]
    except AttributeError:
        return run_deep("an expression", "compared", lambda: _made(expr))


def _made(expr: PrimExpr) -> Identity:
    known: Identity | None = getattr(expr, "_identity", None)
    if known is not None:
        return known
    if isinstance(expr, Var):
        made = Identity()
    elif isinstance(expr, IntImm):
        made = _found((IntImm, expr.dtype, expr.value))
    elif isinstance(expr, FloatImm):
        made = _found((FloatImm, expr.dtype, expr.value.hex()))
    elif isinstance(expr, _OPERATIONS):
        callee = expr.op if isinstance(expr, Call) else None
        parts = [_made(part) for part in sub_expressions(expr)]
        made = _found((type(expr), expr.dtype, id(callee), *parts), callee)
    else:
        number = structural_hash(expr)
        alike = _others.get(number)
        if alike is None:
            alike = _others[number] = _Alike()
        made = alike.identity(expr)
    set_slot(expr, "_identity", made)
    return made


def _found(key: tuple[Any, ...], kept: object = None) -> Identity:
    found = _identities.get(key)
    return _identities.setdefault(key, Identity(kept)) if found is None else found
