"""Matching the tree rules of `rules`: patterns are expressions whose variables stand for anything.

A pattern is of int64 and bool; what it matches may be of any dtype its rule holds for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from ..ir import DataType
from .expr import Call, FloatImm, IntImm, PrimExpr, Var, const
from .functor import sub_expressions
from .rules import ANY, FLOAT, TREE_RULES, Rule

Bindings: TypeAlias = "dict[str, PrimExpr]"
Same: TypeAlias = "Callable[[PrimExpr, PrimExpr], bool]"


def _by_root() -> dict[type[PrimExpr], tuple[Rule, ...]]:
    table: dict[type[PrimExpr], list[Rule]] = {}
    for line in TREE_RULES:
        table.setdefault(type(line.left), []).append(line)
    return {root: tuple(lines) for root, lines in table.items()}


RULES_BY_ROOT = _by_root()


def applies(rule: Rule, expr: PrimExpr) -> bool:
    """True if a rule applies to the dtype of an expression's operands."""
    if rule.holds is ANY:
        return True
    operand = next(iter(sub_expressions(expr)), expr)
    while operand.dtype.is_bool and (below := next(iter(sub_expressions(operand)), None)) is not None:
        operand = below  # the comparison below a Not says what kind of numbers are compared
    return operand.dtype.is_float if rule.holds is FLOAT else operand.dtype.is_integer


def match(pattern: PrimExpr, expr: PrimExpr, found: Bindings, same: Same) -> bool:
    """True if an expression matches a pattern; `found` receives the values of the pattern's variables."""
    if isinstance(pattern, Var):
        if pattern.dtype.is_bool and not expr.dtype.is_bool:
            return False
        known = found.setdefault(pattern.name, expr)
        return known is expr or same(known, expr)
    if type(pattern) is not type(expr):
        return False
    if isinstance(pattern, (IntImm, FloatImm)):
        return _same_constant(pattern, expr)
    if isinstance(pattern, Call) and pattern.op is not expr.op:  # type: ignore[attr-defined]
        return False
    parts, patterns = sub_expressions(expr), sub_expressions(pattern)
    return len(parts) == len(patterns) and all(
        match(inner, part, found, same) for inner, part in zip(patterns, parts, strict=True)
    )


def _same_constant(pattern: IntImm | FloatImm, expr: PrimExpr) -> bool:
    if isinstance(pattern, IntImm):
        return isinstance(expr, IntImm) and expr.value == pattern.value and _same_kind(pattern.dtype, expr.dtype)
    return isinstance(expr, FloatImm) and expr.value.hex() == pattern.value.hex()


def _same_kind(a: DataType, b: DataType) -> bool:
    return a.is_bool == b.is_bool


def instantiate(pattern: PrimExpr, values: Bindings, dtype: DataType) -> PrimExpr:
    """A pattern with its variables replaced; its integer and float constants take `dtype`."""
    if isinstance(pattern, Var):
        return values[pattern.name]
    if isinstance(pattern, (IntImm, FloatImm)):
        return pattern if pattern.dtype.is_bool else const(pattern.value, dtype)
    parts = [instantiate(part, values, dtype) for part in sub_expressions(pattern)]
    if isinstance(pattern, Call):
        return Call(parts[-1].dtype, pattern.op, tuple(parts))
    return type(pattern)(*parts)
