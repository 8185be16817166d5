"""Algebraic data types: constructors, `Match`, and the patterns. Their types are in `types` (TypeData, TypeCall)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast, final

from ..ir import binder, child, label, node
from .expr import Call, Expr, ExprWithOp, RelayExpr, Var
from .printing import RelayNode
from .types import GlobalTypeVar, Type


@final
@node
class Constructor(RelayExpr):
    """Constructor of a type definition: ``Cons(a, List[a])``. It is called like a function, ``Cons(%x, Nil)``.

    `inputs` are the types of its arguments, over the type variables of the definition; `belong_to` names the
    definition; `tag` is its position there.
    """

    name_hint: str
    inputs: tuple[Type, ...] = child(converter=tuple)
    belong_to: GlobalTypeVar = child()
    tag: int = label(default=-1)

    def __call__(self, *args: Expr) -> Call:
        """Return a call of this constructor."""
        return Call(self, args)


class Pattern(RelayNode):
    """Base class of patterns."""

    __slots__ = ()


def _patterns(values: Iterable[Any] | None) -> tuple[Pattern, ...]:
    return tuple(cast("Iterable[Pattern]", values or ()))


@final
@node
class PatternWildcard(Pattern):
    """``_``: matches every value."""


@final
@node
class PatternVar(Pattern):
    """``%x``: matches every value and binds it to the variable within the clause."""

    var: Var = binder()


@final
@node
class PatternConstructor(Pattern):
    """``Cons(%x, _)``: matches values of this constructor whose fields match."""

    constructor: Constructor
    patterns: tuple[Pattern, ...] = child(default=(), converter=_patterns)


@final
@node
class PatternTuple(Pattern):
    """``(%x, _)``: matches tuples whose fields match."""

    patterns: tuple[Pattern, ...] = child(default=(), converter=_patterns)


@final
@node
class Clause(RelayNode):
    """``pattern => expression``; the variables of the pattern are in scope in the expression."""

    lhs: Pattern = binder()
    rhs: Expr


@final
@node
class Match(ExprWithOp):
    """``match (%x) { Cons(%h, _) => %h, Nil => 0 }``: evaluates the first clause whose pattern matches.

    A `complete` match covers every value of its type, as type inference checks; a partial one is written ``match?`` and
    fails at run time if no clause matches.
    """

    data: Expr
    clauses: tuple[Clause, ...] = child(converter=tuple)
    complete: bool = child(default=True)
