"""Dimensions of torch, which are expressions of sympy, as scalar expressions.

Symbols are shape variables. Nothing is imported from sympy: a node is known by the name of its class.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
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


def renamed_sizes(values: Mapping[str, Any], dim_names: Mapping[str, Sequence[str | int | None]]) -> dict[str, str]:
    """Return the chosen names of dynamic dimensions, by the text of torch's expressions.

    `values` are torch's examples of the inputs. Raises ValueError for names that fit no input or no dynamic dimension,
    and for one size with two names or one name of two sizes.
    """
    renamed: dict[str, str] = {}
    for of, names in dim_names.items():
        shape = getattr(values.get(of), "shape", None)
        if shape is None:
            tensors = ", ".join(name for name, value in values.items() if hasattr(value, "shape"))
            raise ValueError(f"dim_names: there is no input {of!r} that is a tensor; there are {tensors or 'none'}")
        if len(shape) != len(names):
            raise ValueError(f"dim_names: {of} has {len(shape)} dimensions, found {len(names)} names")
        for axis, (dim, name) in enumerate(zip(shape, names, strict=True)):
            if not isinstance(name, str):
                continue
            if isinstance(dim, int):
                raise ValueError(
                    f"dim_names: dimension {axis} of {of} is {dim} in the program, and cannot be named {name!r}"
                )
            own = str(dim.node.expr)
            if renamed.setdefault(own, name) != name:
                raise ValueError(f"dim_names: {renamed[own]!r} and {name!r} name one size")
            if any(other == name for size, other in renamed.items() if size != own):
                raise ValueError(
                    f"dim_names: {name!r} names two sizes, {' and '.join(k for k in renamed if renamed[k] == name)}"
                )
    return renamed


def linear_form(expr: Any) -> tuple[int, str, int] | None:
    """Return (factor, symbol, offset) of ``factor * symbol + offset`` with a positive factor, None of other forms."""
    free = list(expr.free_symbols)
    if len(free) != 1 or expr.is_Symbol or type(expr).__name__ not in ("Mul", "Add"):
        return None
    factor, offset = expr.diff(free[0]), expr.subs(free[0], 0)
    if not factor.is_Integer or not offset.is_Integer or int(factor) < 1:
        return None
    return int(factor), str(free[0]), int(offset)


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


def same_dtype(a: PrimExpr, b: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
    """Return two scalar expressions in one dtype: an integer beside a float becomes float64."""
    if a.dtype == b.dtype:
        return a, b
    return as_float(a), as_float(b)


def as_float(x: PrimExpr) -> PrimExpr:
    """Return a scalar expression as float64."""
    return x if x.dtype.is_float else cast("float64", x)


def _fold(function: Callable[[PrimExpr, PrimExpr], PrimExpr]) -> Callable[..., PrimExpr]:
    def folded(*operands: PrimExpr) -> PrimExpr:
        return reduce(lambda a, b: function(*same_dtype(a, b)), operands)

    return folded


def _floor_divided(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    return a // b


def _remainder(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    return a % b


def _ceil_divided(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    return (a + b - 1) // b


def _quotient(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    return as_float(a) / as_float(b)


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
    "ToFloat": as_float,
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

__all__ = [
    "PrimVar",
    "Symbols",
    "UnknownFunction",
    "UnknownSymbol",
    "as_float",
    "linear_form",
    "renamed_sizes",
    "same_dtype",
    "symbol_name",
    "translate",
]
