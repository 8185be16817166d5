"""Run-time structural information: what closures carry about themselves, and what they are compared with.

The same six kinds the language has, cut down to what can be compared without a compiler:

    Info ::= ObjectInfo | PrimInfo(dtype, value?) | ShapeInfo(dims?, ndim)
           | TensorInfo(dims?, dtype, ndim, device) | TupleInfo(fields) | FuncInfo(params?, ret, pure)
    Dim  ::= int | float | a shape variable's name | (operator, Dim, ...) | (dtype, Dim)
           | ("slot", index in the shape heap)

``-1`` and ``""`` mean not known. A FuncInfo without params is a packed function's. Shape variables are
names within one signature; two signatures are compared up to renaming. ``(dtype, Dim)`` is a value rounded, or wrapped
around, to a dtype: integers are int64 and exact where nothing else is said.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias, cast

from .dtypes import DLPACK_CODES, INTEGER_BITS, is_float
from .records import dataclass
from .rounding import round_number

Dim: TypeAlias = "int | float | str | tuple[Any, ...]"
Env: TypeAlias = "dict[str, Dim]"


@dataclass(frozen=True)
class ObjectInfo:
    """Any value."""

    def __str__(self) -> str:
        return "R.Object"


@dataclass(frozen=True)
class PrimInfo:
    """A scalar."""

    dtype: str
    value: Dim | None = None

    def __str__(self) -> str:
        value = "" if self.value is None else f", value={dim_text(self.value)}"
        return f'R.Prim("{self.dtype}"{value})'


@dataclass(frozen=True)
class ShapeInfo:
    """A shape value."""

    dims: tuple[Dim, ...] | None = None
    ndim: int = -1

    def __str__(self) -> str:
        if self.dims is not None:
            return f"R.Shape([{', '.join(map(dim_text, self.dims))}])"
        return "R.Shape" if self.ndim < 0 else f"R.Shape(ndim={self.ndim})"


@dataclass(frozen=True)
class TensorInfo:
    """A tensor."""

    dims: tuple[Dim, ...] | None = None
    dtype: str = ""
    ndim: int = -1
    device: str = ""

    def __str__(self) -> str:
        arguments: list[str] = []
        if self.dims is not None:
            arguments.append(f"({', '.join(map(dim_text, self.dims))}{',' if len(self.dims) == 1 else ''})")
        if self.dtype:
            arguments.append(f'dtype="{self.dtype}"')
        if self.dims is None and self.ndim >= 0:
            arguments.append(f"ndim={self.ndim}")
        if self.device:
            arguments.append(f'device="{self.device}"')
        return f"R.Tensor({', '.join(arguments)})"


@dataclass(frozen=True)
class TupleInfo:
    """A tuple, field by field."""

    fields: tuple[Info, ...]

    def __str__(self) -> str:
        return f"R.Tuple({', '.join(map(str, self.fields))})"


@dataclass(frozen=True)
class FuncInfo:
    """A function; a packed one if `params` is None."""

    params: tuple[Info, ...] | None
    ret: Info
    pure: bool

    def __str__(self) -> str:
        if self.params is None:
            return "R.Callable()"
        params = f"({', '.join(map(str, self.params))}{',' if len(self.params) == 1 else ''})"
        return f"R.Callable({params}, {self.ret}, {self.pure})"


Info: TypeAlias = "ObjectInfo | PrimInfo | ShapeInfo | TensorInfo | TupleInfo | FuncInfo"

# ----------------------------------------------------------------------------------------- dimensions


Number: TypeAlias = "int | float"


def _floor_div(a: Number, b: Number) -> Number:
    return a // b


def _least(a: Number, b: Number) -> Number:
    return math.nan if a != a or b != b else min(a, b)


def _greatest(a: Number, b: Number) -> Number:
    return math.nan if a != a or b != b else max(a, b)


def _either(a: Number, b: Number) -> bool:
    return bool(a or b)


def _both(a: Number, b: Number) -> bool:
    return bool(a and b)


def _truncated_div(a: Number, b: Number) -> Number:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _truncated_mod(a: Number, b: Number) -> Number:
    return a - b * _truncated_div(a, b)


def _wrapped(bits: int, signed: bool) -> Callable[[Number], Number]:
    half = 1 << (bits - 1) if signed else 0
    low, high = -half, (1 << bits) - half - 1

    def wrapped(value: Number) -> Number:
        if isinstance(value, float):
            return 0 if value != value else int(min(max(value, low), high))
        return (value + half) % (1 << bits) - half

    return wrapped


def _rounded(dtype: str) -> Callable[[Number], Number]:
    return lambda value: round_number(value, dtype)


DTYPES: Final[dict[str, Callable[[Number], Number]]] = {
    "bool": bool,
    **{f"int{bits}": _wrapped(bits, signed=True) for bits in INTEGER_BITS},
    **{f"uint{bits}": _wrapped(bits, signed=False) for bits in INTEGER_BITS},
    **{dtype: _rounded(dtype) for dtype in DLPACK_CODES if is_float(dtype)},
}
"""Rounding by dtype. Sums, differences and products of float64, rounded again, are those of a shorter type."""

OPERATORS: Final[dict[str, Callable[..., Number]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": _floor_div,
    "%": operator.mod,
    "min": _least,
    "max": _greatest,
    "truncdiv": _truncated_div,
    "truncmod": _truncated_mod,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "either": _either,
    "both": _both,
    "negated": operator.not_,
    **DTYPES,
}
"""The operators of a Dim, by sign. A dimension made in any other way is ``("unknown",)`` at run time."""


def dim_text(dim: Dim) -> str:
    """A dimension as users write it."""
    if isinstance(dim, float) and not math.isfinite(dim):
        return f'float64("{dim}")'
    if not isinstance(dim, tuple):
        return str(dim)
    if dim[0] == "slot":
        return f"slot({dim[1]})"
    operands: tuple[Dim, ...] = dim[1:]
    if dim[0][0].isalpha():
        return f"{dim[0]}({', '.join(map(dim_text, operands))})"
    return f" {dim[0]} ".join(f"({dim_text(d)})" if _is_infix(d) else dim_text(d) for d in operands)


def _is_infix(dim: Dim) -> bool:
    return isinstance(dim, tuple) and not dim[0][0].isalpha()


def nesting(dim: Dim) -> int:
    """The depth of a dimension's operations."""
    depth = 0
    level: list[Any] = [dim]
    while level := [operand for item in level if isinstance(item, tuple) for operand in cast("Any", item)[1:]]:
        depth += 1
    return depth


def substitute_dim(dim: Dim, env: Mapping[str, Dim], slots: Callable[[int], Dim] | None = None) -> Dim:
    """Put values for variables, and for slots if those are given, computing what becomes known."""
    if isinstance(dim, str):
        return env.get(dim, dim)
    if not isinstance(dim, tuple):
        return dim
    if dim[0] == "slot":
        return dim if slots is None else slots(dim[1])
    operands = [substitute_dim(d, env, slots) for d in dim[1:]]
    function = OPERATORS.get(dim[0])
    if function is not None and all(isinstance(p, (int, float)) for p in operands):
        with contextlib.suppress(ArithmeticError, TypeError, ValueError):
            return function(*operands)
    return (dim[0], *operands)


def same_dim(a: Dim | None, b: Dim | None) -> bool:
    """True if two dimensions are known to be equal: they are the same polynomial."""
    if a is None or b is None:
        return False
    return (a == b and not isinstance(b, tuple)) or _polynomial(a) == _polynomial(b)


MULTIPLIED: Final = 1_000
"""Products of more terms than this are not multiplied out."""

_Polynomial: TypeAlias = "dict[tuple[str, ...], int]"
"""Monomial (its atoms, sorted) → coefficient."""


def _polynomial(dim: Dim) -> _Polynomial | object:
    """A dimension multiplied out; what is no sum or product is an atom. What is not known equals nothing."""
    match dim:
        case int():
            return {(): dim} if dim else {}
        case float():
            return {(repr(dim),): 1}
        case str():
            return {(dim,): 1}
        case ("unknown", *_):
            return object()
        case _:
            operands = [_polynomial(operand) for operand in dim[1:]]
            if not all(isinstance(operand, dict) for operand in operands):
                return object()
            polynomials = cast("list[_Polynomial]", operands)
            if dim[0] in ("+", "-") or (dim[0] == "*" and math.prod(map(len, polynomials)) <= MULTIPLIED):
                return _combine(dim[0], *polynomials)
            texts = [str(sorted(cast("_Polynomial", operand).items())) for operand in operands]
            return {(f"{dim[0]}({', '.join(texts)})",): 1}


def _combine(operation: str, a: _Polynomial, b: _Polynomial) -> _Polynomial:
    result: _Polynomial = {}
    if operation == "*":
        for m, x in a.items():
            for n, y in b.items():
                key = tuple(sorted(m + n))
                result[key] = result.get(key, 0) + x * y
    else:
        result = dict(a)
        for n, y in b.items():
            result[n] = result.get(n, 0) + (y if operation == "+" else -y)
    return {monomial: factor for monomial, factor in result.items() if factor}


def substitute(info: Info, env: Mapping[str, Dim], slots: Callable[[int], Dim] | None = None) -> Info:
    """The info with values put for shape variables and slots."""
    match info:
        case PrimInfo(value=value) if value is not None:
            return replace(info, value=substitute_dim(value, env, slots))
        case ShapeInfo(dims=dims) | TensorInfo(dims=dims) if dims is not None:
            return replace(info, dims=tuple(substitute_dim(d, env, slots) for d in dims))
        case TupleInfo(fields):
            return TupleInfo(tuple(substitute(f, env, slots) for f in fields))
        case FuncInfo(params, ret, pure):
            new = None if params is None else tuple(substitute(p, env, slots) for p in params)
            return FuncInfo(new, substitute(ret, env, slots), pure)
        case _:
            return info


def bind(info: Info, other: Info, env: Env) -> None:
    """Bind unbound variables that are whole dimensions of `info` to the corresponding dimensions of `other`."""
    match info, other:
        case (PrimInfo(value=str(name)), PrimInfo(value=value)) if value is not None:
            env.setdefault(name, value)
        case (TensorInfo(dims=mine), TensorInfo(dims=theirs)) | (ShapeInfo(dims=mine), ShapeInfo(dims=theirs)):
            if mine is not None and theirs is not None and len(mine) == len(theirs):
                for name, dim in zip(mine, theirs, strict=True):
                    if isinstance(name, str):
                        env.setdefault(name, dim)
        case (TupleInfo(mine), TupleInfo(theirs)):
            for field, their in zip(mine, theirs, strict=False):
                bind(field, their, env)
        case _:
            pass


# ----------------------------------------------------------------------------------------- comparison

_fresh = itertools.count()


def mismatch(actual: FuncInfo, expected: FuncInfo) -> str | None:
    """Reason for which a function described by `actual` cannot serve as `expected`; None if it can.

    Parameters are compared contravariantly and the result covariantly, after the shape variables of `actual`
    have been identified, position by position, with the dimensions of `expected`. What the info of the
    function leaves open counts as a mismatch: nothing later would check it.
    """
    if actual.params is None or expected.params is None:
        return None if expected.params is None else "it is a packed function"
    if len(actual.params) != len(expected.params):
        return f"it takes {_count(len(actual.params))}, expected {_count(len(expected.params))}"
    if expected.pure and not actual.pure:
        return "it is impure, expected a pure function"
    # Variables of the two signatures are different ones, also where they have one name.
    own: Env = {name: f"{name}#{next(_fresh)}" for name in variables((actual,))}
    names: Env = {str(new): name for name, new in own.items()}
    env: Env = {}
    params = [substitute(param, own) for param in actual.params]
    for mine, theirs in zip(params, expected.params, strict=True):
        bind(mine, theirs, env)
    free = _free_sizes(params, env)
    params = [_without(param, free) for param in params]
    for index, (mine, theirs) in enumerate(zip(params, expected.params, strict=True)):
        takes = substitute(mine, env)
        if not is_subtype(theirs, takes):
            return f"its parameter {index} is {substitute(takes, names)}, expected {theirs}"
    returns = substitute(substitute(actual.ret, own), env)
    if not is_subtype(returns, expected.ret):
        return f"its result is {substitute(returns, names)}, expected {expected.ret}"
    return None


def _free_sizes(params: Iterable[Info], env: Mapping[str, Dim]) -> set[str]:
    """Return the variables that are one whole dimension each and unconstrained by `expected`: any size fits."""
    count: dict[str, int] = {}

    def visit(info: Info) -> None:
        match info:
            case ShapeInfo(dims=dims) | TensorInfo(dims=dims) if dims is not None:
                for dim in dims:
                    for name in _names(dim):
                        count[name] = count.get(name, 0) + (1 if name == dim else 2)
            case PrimInfo(value=value) if value is not None:
                for name in _names(value):
                    count[name] = count.get(name, 0) + (1 if name == value else 2)
            case TupleInfo(fields):
                for field in fields:
                    visit(field)
            case _:
                for name in variables((info,)):
                    count[name] = count.get(name, 0) + 2

    for param in params:
        visit(param)
    return {name for name, uses in count.items() if uses == 1 and name not in env}


def _without(info: Info, free: set[str]) -> Info:
    """Return the info without shapes whose dimensions are all unconstrained."""
    match info:
        case ShapeInfo(dims=dims) | TensorInfo(dims=dims) if dims and free.issuperset(dims):
            return replace(info, dims=None, ndim=len(dims))
        case PrimInfo(value=str(name)) if name in free:
            return replace(info, value=None)
        case TupleInfo(fields):
            return TupleInfo(tuple(_without(field, free) for field in fields))
        case _:
            return info


def is_subtype(a: Info, b: Info) -> bool:
    """True if every value described by `a` is known to be described by `b`."""
    match a, b:
        case (_, ObjectInfo()):
            return True
        case (PrimInfo(), PrimInfo()):
            return a.dtype == b.dtype and (b.value is None or same_dim(a.value, b.value))
        case (ShapeInfo(), ShapeInfo()):
            return _dims_fit(a.dims, a.ndim, b.dims, b.ndim)
        case (TensorInfo(), TensorInfo()):
            if (b.dtype and a.dtype != b.dtype) or (b.device and a.device != b.device):
                return False
            return _dims_fit(a.dims, a.ndim, b.dims, b.ndim)
        case (TupleInfo(), TupleInfo()):
            return len(a.fields) == len(b.fields) and all(map(is_subtype, a.fields, b.fields))
        case (FuncInfo(), FuncInfo()):
            return (a.params is None) == (b.params is None) and mismatch(a, b) is None
        case _:
            return False


def _dims_fit(a: tuple[Dim, ...] | None, a_ndim: int, b: tuple[Dim, ...] | None, b_ndim: int) -> bool:
    if b is not None:
        return a is not None and len(a) == len(b) and all(map(same_dim, a, b))
    return b_ndim < 0 or a_ndim == b_ndim


def _count(n: int) -> str:
    return f"{n} argument" if n == 1 else f"{n} arguments"


def variables(infos: Iterable[Info]) -> set[str]:
    """Names of the shape variables that occur."""
    names: set[str] = set()

    def walk(info: Info) -> None:
        match info:
            case PrimInfo(value=value) if value is not None:
                names.update(_names(value))
            case ShapeInfo(dims=dims) | TensorInfo(dims=dims) if dims is not None:
                for dim in dims:
                    names.update(_names(dim))
            case TupleInfo(fields):
                for field in fields:
                    walk(field)
            case FuncInfo(params, ret, _):
                for param in params or ():
                    walk(param)
                walk(ret)
            case _:
                pass

    for info in infos:
        walk(info)
    return names


def _names(dim: Dim) -> list[str]:
    """Return the shape variables of a dimension, with repetitions."""
    if isinstance(dim, str):
        return [dim]
    if not isinstance(dim, tuple) or dim[0] == "slot":
        return []
    return [name for operand in dim[1:] for name in _names(operand)]
