"""Children of an expression: the expressions and types directly below it, and reconstruction with other children.

All Relay traversals build on these functions, which list the children of each kind of node in evaluation order; no
other module does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from ..ir import GlobalVar, Op
from .adt import Constructor, Match, Pattern, PatternConstructor, PatternTuple, PatternVar, PatternWildcard
from .expr import (
    Call,
    Constant,
    Expr,
    Function,
    If,
    Let,
    RefCreate,
    RefRead,
    RefWrite,
    TempExpr,
    Tuple,
    TupleGetItem,
    Var,
)
from .types import Type

LEAVES: Final = (Constant, Var, GlobalVar, Op, Constructor, TempExpr)
"""Kinds of expression without child expressions."""

_PARTS: Final[dict[type, Callable[[Any], tuple[Expr, ...]]]] = {
    Tuple: lambda e: e.fields,
    TupleGetItem: lambda e: (e.tuple_value,),
    Function: lambda e: (*e.params, e.body),
    Call: lambda e: (e.op, *e.args),
    Let: lambda e: (e.var, e.value, e.body),
    If: lambda e: (e.cond, e.true_branch, e.false_branch),
    RefCreate: lambda e: (e.value,),
    RefRead: lambda e: (e.ref,),
    RefWrite: lambda e: (e.ref, e.value),
    Match: lambda e: (e.data, *(part for c in e.clauses for part in (*pattern_vars(c.lhs), c.rhs))),
}


def parts_of(expr: Expr) -> tuple[Expr, ...]:
    """Child expressions in evaluation order, including the variables that the expression binds."""
    get_parts = _PARTS.get(type(expr))
    return () if get_parts is None else get_parts(expr)


def pattern_vars(pattern: Pattern) -> list[Var]:
    """Variables that a pattern binds, from left to right."""
    if isinstance(pattern, PatternWildcard):
        return []
    bound: list[Var] = []
    stack = [pattern]
    while stack:
        subpattern = stack.pop()
        if isinstance(subpattern, PatternVar):
            bound.append(subpattern.var)
        elif isinstance(subpattern, (PatternConstructor, PatternTuple)):
            stack.extend(reversed(subpattern.patterns))
    return bound


def bound_by(expr: Expr) -> tuple[Var, ...]:
    """Variables bound directly by this expression."""
    if isinstance(expr, Function):
        return expr.params
    if isinstance(expr, Let):
        return (expr.var,)
    if isinstance(expr, Match):
        return tuple(var for clause in expr.clauses for var in pattern_vars(clause.lhs))
    return ()


def with_parts(expr: Expr, parts: Iterable[Expr]) -> Expr:
    """Rebuild the expression with other children, in the order of `parts_of`; itself if they are the same objects."""
    parts = tuple(parts)
    if all(a is b for a, b in zip(parts, parts_of(expr), strict=True)):
        return expr
    return _WITH_PARTS[type(expr)](expr, parts)


def _match_with(expr: Match, parts: tuple[Expr, ...]) -> Match:
    rest = iter(parts)
    data = next(rest)
    clauses = tuple(c.replace(lhs=with_pattern_vars(c.lhs, rest), rhs=next(rest)) for c in expr.clauses)
    return expr.replace(data=data, clauses=clauses)


def with_pattern_vars(pattern: Pattern, variables: Iterator[Expr]) -> Pattern:
    """Rebuild a pattern with other variables, in the order of `pattern_vars`; itself if they are the same objects.

    Raises TypeError if one is not a variable.
    """
    match pattern:
        case PatternVar():
            return pattern.replace(var=as_var(next(variables)))
        case PatternConstructor() | PatternTuple():
            patterns = tuple(with_pattern_vars(subpattern, variables) for subpattern in pattern.patterns)
            if all(a is b for a, b in zip(patterns, pattern.patterns, strict=True)):
                return pattern
            return pattern.replace(patterns=patterns)
        case _:
            return pattern


def as_var(expr: Expr) -> Var:
    """Return the expression, which must be a variable as it is bound. Raises TypeError."""
    if isinstance(expr, Var):
        return expr
    raise TypeError(f"a place that binds a variable cannot hold a {type(expr).__name__}")


_WITH_PARTS: Final[dict[type, Callable[[Any, tuple[Any, ...]], Expr]]] = {
    Tuple: lambda e, p: e.replace(fields=p),
    TupleGetItem: lambda e, p: e.replace(tuple_value=p[0]),
    Function: lambda e, p: e.replace(params=tuple(map(as_var, p[:-1])), body=p[-1]),
    Call: lambda e, p: e.replace(op=p[0], args=p[1:]),
    Let: lambda e, p: e.replace(var=as_var(p[0]), value=p[1], body=p[2]),
    If: lambda e, p: e.replace(cond=p[0], true_branch=p[1], false_branch=p[2]),
    RefCreate: lambda e, p: e.replace(value=p[0]),
    RefRead: lambda e, p: e.replace(ref=p[0]),
    RefWrite: lambda e, p: e.replace(ref=p[0], value=p[1]),
    Match: _match_with,
}


def types_of(expr: Expr) -> tuple[Type, ...]:
    """Types written directly in this expression; parameter types belong to the parameters."""
    match expr:
        case Var():
            return () if expr.type_annotation is None else (expr.type_annotation,)
        case Function():
            result = () if expr.ret_type is None else (expr.ret_type,)
            return (*result, *expr.type_constraints)
        case Call():
            return expr.type_args
        case _:
            return ()


def with_types(expr: Expr, change: Callable[[Type], Type]) -> Expr:
    """Rebuild the expression with its own types (`types_of`) changed; itself if all are the same objects."""
    match expr:
        case Var() if expr.type_annotation is not None:
            return expr.replace(type_annotation=change(expr.type_annotation))
        case Function():
            ret_type = None if expr.ret_type is None else change(expr.ret_type)
            return expr.replace(ret_type=ret_type, type_constraints=_each(expr.type_constraints, change))
        case Call() if expr.type_args:
            return expr.replace(type_args=_each(expr.type_args, change))
        case _:
            return expr


def _each(types: tuple[Any, ...], change: Callable[[Type], Type]) -> tuple[Any, ...]:
    changed = tuple(change(item) for item in types)
    return types if all(a is b for a, b in zip(types, changed, strict=True)) else changed
