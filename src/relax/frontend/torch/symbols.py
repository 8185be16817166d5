"""Dimensions of torch, which are expressions of sympy, as scalar expressions.

Symbols are shape variables. Nothing is imported from sympy: a node is known by the name of its class.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import reduce
from typing import Any

from ...prim import IntImm, PrimExpr, Select, cast, const, intrin, simplify
from ...prim.expr import Var as PrimVar

Symbols = dict[str, PrimExpr]
"""Scalar expressions by the names of symbols: variables, but for numbers that were read from data."""


class UnknownSymbol(LookupError):
    """An expression with a symbol that nothing has bound yet; `name` is the symbol."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class UnknownFunction(ValueError):
    """An expression with a function that has no form here."""


def translate(expr: Any, symbols: Symbols) -> PrimExpr:
    """An expression of sympy as a scalar expression.

    Raises UnknownSymbol, or UnknownFunction.
    """
    return simplify(_translate(expr, symbols))


def symbol_name(expr: Any) -> str | None:
    """The name of an expression that is one symbol, else None."""
    return str(expr) if type(expr).__name__ == "Symbol" else None


def _translate(expr: Any, symbols: Symbols) -> PrimExpr:
    if expr.is_Integer:
        return const(int(expr), "int64")
    if expr.is_Float:
        return const(float(expr), "float64")
    if expr.is_Symbol:
        name = str(expr)
        if name not in symbols:
            raise UnknownSymbol(name)
        return symbols[name]
    if expr.is_Rational:
        return const(float(expr), "float64")
    kind = type(expr).__name__
    if kind not in _FUNCTIONS:
        raise UnknownFunction(f"the expression {expr}: {kind}")
    return _FUNCTIONS[kind](*(_translate(arg, symbols) for arg in expr.args))


def _matched(a: PrimExpr, b: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
    """Two operands of one dtype: an integer beside a float becomes one."""
    if a.dtype == b.dtype:
        return a, b
    return _float(a), _float(b)


def _float(x: PrimExpr) -> PrimExpr:
    return x if x.dtype.is_float else cast("float64", x)


def _fold(function: Callable[[PrimExpr, PrimExpr], PrimExpr]) -> Callable[..., PrimExpr]:
    def folded(*operands: PrimExpr) -> PrimExpr:
        return reduce(lambda a, b: function(*_matched(a, b)), operands)

    return folded


def _floor_divided(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    return a // b


def _remainder(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    return a % b


def _ceil_divided(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    return (a + b - 1) // b


def _quotient(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    return _float(a) / _float(b)


def _equal(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    return a.equal(b)


def _same(x: PrimExpr) -> PrimExpr:
    return x


def _power(base: PrimExpr, exponent: PrimExpr) -> PrimExpr:
    if not isinstance(exponent, IntImm) or not 0 <= exponent.value <= 8:
        raise UnknownFunction("a power that is not a small whole number")
    return reduce(lambda a, b: a * b, [base] * exponent.value, const(1, "int64"))


def _integer(round_: Callable[[PrimExpr], PrimExpr]) -> Callable[[PrimExpr], PrimExpr]:
    return lambda x: cast("int64", round_(x)) if x.dtype.is_float else x


def _modular(base: PrimExpr, divisor: PrimExpr, modulus: PrimExpr) -> PrimExpr:
    return (base // divisor) % modulus


_FUNCTIONS: dict[str, Callable[..., PrimExpr]] = {
    "Add": _fold(operator.add),
    "Mul": _fold(operator.mul),
    "Pow": _power,
    "PowByNatural": _power,
    "Max": _fold(intrin.max),
    "Min": _fold(intrin.min),
    "FloorDiv": _floor_divided,
    "CleanDiv": _floor_divided,
    "CeilDiv": _ceil_divided,
    "ModularIndexing": _modular,
    "Mod": _remainder,
    "PythonMod": _remainder,
    "Identity": _same,
    "Where": Select,
    "ToFloat": _float,
    "FloatTrueDiv": _quotient,
    "IntTrueDiv": _quotient,
    "FloorToInt": _integer(intrin.floor),
    "CeilToInt": _integer(intrin.ceil),
    "TruncToInt": _integer(intrin.trunc),
    "Equality": _fold(_equal),
    "Unequality": _fold(operator.ne),
    "StrictLessThan": _fold(operator.lt),
    "LessThan": _fold(operator.le),
    "StrictGreaterThan": _fold(operator.gt),
    "GreaterThan": _fold(operator.ge),
}
"""Scalar expressions by the names of sympy's and torch's classes."""

__all__ = ["PrimVar", "Symbols", "UnknownFunction", "UnknownSymbol", "symbol_name", "translate"]
