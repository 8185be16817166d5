"""Run-time struct info of closures: conversion from the compiler's struct info."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from ..ir import DataType, DiagnosticError, Span, StructInfo, VDevice, children_of, target_kind
from ..ir.deep import nested_too_deeply
from ..ir.sharing import is_excessive, written_depth
from ..prim import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Cast,
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PrimExpr,
    Sub,
    sub_expressions,
)
from ..prim import Var as PrimVar
from ..runtime.devices import Device, device
from ..runtime.info import DTYPES, Dim, FuncInfo, Info, ObjectInfo, PrimInfo, ShapeInfo, TensorInfo, TupleInfo, nesting
from ..runtime.rounding import round_number
from ..struct_info import FuncStructInfo, PrimStructInfo, ShapeStructInfo, TensorStructInfo, TupleStructInfo

_ARITHMETIC: Mapping[type[PrimExpr], str] = {
    Add: "+",
    Sub: "-",
    Mul: "*",
    FloorDiv: "//",
    FloorMod: "%",
    Div: "truncdiv",
    Mod: "truncmod",
    Min: "min",
    Max: "max",
}
_CONDITIONS: Mapping[type[PrimExpr], str] = {EQ: "eq", NE: "ne", LT: "lt", LE: "le", And: "both", Or: "either"}


def _converted(dtype: DataType, dim: Dim) -> Dim:
    """Convert a value to a dtype by rounding, truncation or wrap-around."""
    return (str(dtype), dim) if str(dtype) in DTYPES else ("unknown",)


def _is_polynomial(value: PrimExpr) -> bool:
    return isinstance(value, Add | Sub | Mul) and value.dtype.is_integer


NESTED = 80
"""The depth to which an Info is written; below it any value fits. Python's parser reads texts no deeper."""
PLACES = 20_000
"""In how many places it is written out, if that is because objects are shared."""
NESTED_DIM = 30
"""The depth to which a dimension's operations are written; a deeper dimension is not known to the machine."""

Resolve = Callable[[PrimExpr], "Dim | None"]
"""A function that gives a dimension's run-time form where it is not its text (the slot that keeps it)."""


def told_levels(info: StructInfo) -> int:
    """Return the number of levels of an info that are written out."""
    if not isinstance(info, (TupleStructInfo, FuncStructInfo)) or not is_excessive(info, PLACES):
        return NESTED
    depth = written_depth(info, PLACES)
    return NESTED if depth is None else min(depth, NESTED)


def is_told(info: StructInfo) -> bool:
    """True if an info is written out completely."""
    level: list[StructInfo] = [info]
    for _ in range(told_levels(info)):
        inner: dict[int, StructInfo] = {}
        for item in level:
            inner.update((id(below), below) for below in children_of(item) if isinstance(below, StructInfo))
        level = list(inner.values())
    return not level


def _addends(value: Add) -> list[PrimExpr]:
    """The terms of a sum of sums, left to right."""
    terms: list[PrimExpr] = []
    pending: list[PrimExpr] = [value]
    while pending:
        term = pending.pop()
        if isinstance(term, Add):
            pending += (term.b, term.a)
        else:
            terms.append(term)
    return terms


def _balanced(terms: list[Dim]) -> Dim:
    """Sum of terms as a balanced tree: integers may be added in any order."""
    while len(terms) > 1:
        pairs = zip(terms[::2], terms[1::2], strict=False)
        terms = [*(("+", a, b) for a, b in pairs), *terms[len(terms) // 2 * 2 :]]
    return terms[0]


class InfoMaker:
    """Turns struct infos of one signature into Infos; equal shape variables keep equal, unique names."""

    def __init__(self, resolve: Resolve | None = None) -> None:
        self._resolve = resolve
        self._names: dict[PrimVar, str] = {}
        self._infos: dict[tuple[int, int], tuple[StructInfo, Info]] = {}
        self._dims: dict[int, tuple[PrimExpr, Dim]] = {}

    def info(self, info: StructInfo | None) -> Info:
        """The Info of a struct info; one object for each."""
        if info is None:
            return ObjectInfo()
        return self._info(info, told_levels(info))

    def _info(self, info: StructInfo, levels: int) -> Info:
        """The Info, so many levels deep."""
        key = id(info), levels
        if key not in self._infos:
            self._infos[key] = info, self._run_time_info(info, levels) if levels > 0 else ObjectInfo()
        return self._infos[key][1]

    def _run_time_info(self, info: StructInfo, levels: int) -> Info:
        match info:
            case TensorStructInfo():
                dims = None if info.dims is None else tuple(map(self.dim, info.dims))
                device = "" if info.vdevice is None else device_name(info.vdevice)
                return TensorInfo(dims, str(info.dtype), info.ndim, device)
            case ShapeStructInfo(values, ndim):
                return ShapeInfo(None if values is None else tuple(map(self.dim, values)), ndim)
            case PrimStructInfo(dtype, value):
                return PrimInfo(str(dtype), None if value is None else self.dim(value))
            case TupleStructInfo(fields):
                return TupleInfo(tuple([self._info(field, levels - 1) for field in fields]))
            case FuncStructInfo(params, ret) if params is not None:
                inner = tuple([self._info(param, levels - 1) for param in params])
                return FuncInfo(inner, self._info(ret, levels - 1), info.purity)
            case FuncStructInfo():
                return FuncInfo(None, ObjectInfo(), False)
            case _:
                return ObjectInfo()

    def func(self, info: FuncStructInfo) -> FuncInfo:
        """The Info of a function's struct info."""
        return cast(FuncInfo, self.info(info))

    def checked_text(self, info: FuncStructInfo, subject: str, span: Span | None) -> str:
        """The text that a closure is checked with. Raises DiagnosticError if it would not tell all of the type."""
        if not is_told(info):
            raise DiagnosticError(nested_too_deeply(subject, "checked when the program runs", span))
        return str(self.func(info))

    def dim(self, value: PrimExpr) -> Dim:
        """A dimension; ``("unknown",)`` for what the machine cannot compute."""
        if not isinstance(value, (IntImm, PrimVar)) and is_excessive(value, PLACES):
            return ("unknown",)
        dim = self._cached_dim(value)
        return dim if nesting(dim) <= NESTED_DIM else ("unknown",)

    def _cached_dim(self, value: PrimExpr) -> Dim:
        entry = self._dims.get(id(value))
        if entry is None:
            entry = self._dims[id(value)] = value, self._dim(value)
        return entry[1]

    def _dim(self, value: PrimExpr) -> Dim:
        resolved = None if self._resolve is None else self._resolve(value)
        if resolved is not None:
            return resolved
        match value:
            case IntImm(_, number):
                return number
            case FloatImm(dtype, number):
                return round_number(number, dtype)
            case PrimVar():
                return self._name(value)
            case Cast(dtype, inner) if dtype == "int64" and not (inner.dtype.is_float or inner.dtype == "uint64"):
                return self._cached_dim(inner)
            case Cast(dtype, inner):
                return _converted(dtype, self._cached_dim(inner))
            case Not(inner):
                return ("negated", self._cached_dim(inner))
            case GT(a, b):
                return ("lt", self._cached_dim(b), self._cached_dim(a))
            case GE(a, b):
                return ("le", self._cached_dim(b), self._cached_dim(a))
            case FloorDiv() | FloorMod() | Div() | Mod() if value.dtype.is_float:
                return ("unknown",)
            case _ if type(value) in _CONDITIONS:
                return (_CONDITIONS[type(value)], *map(self._cached_dim, sub_expressions(value)))
            case Add() if _is_polynomial(value):
                dim = _balanced(list(map(self._term, _addends(value))))
                return dim if value.dtype == "int64" else _converted(value.dtype, dim)
            case _ if type(value) in _ARITHMETIC:
                operand = self._term if _is_polynomial(value) else self._cached_dim
                dim = (_ARITHMETIC[type(value)], *map(operand, sub_expressions(value)))
                return dim if value.dtype == "int64" else _converted(value.dtype, dim)
            case _:
                return ("unknown",)

    def _term(self, value: PrimExpr) -> Dim:
        """An operand of a sum or product: integers wrap around once, in the end; then equal polynomials are equal."""
        dim = self._cached_dim(value)
        wrapped = _is_polynomial(value) and isinstance(dim, tuple) and dim[0] == str(value.dtype)
        return cast("Dim", cast("tuple[Any, ...]", dim)[1]) if wrapped else dim

    def _name(self, var: PrimVar) -> str:
        if var not in self._names:
            base = var.name if var.name.isidentifier() else "v"
            name, count = base, 0
            while name in self._names.values():
                count += 1
                name = f"{base}_{count}"
            self._names[var] = name
        return self._names[var]


def device_name(vdevice: VDevice) -> str:
    """The runtime's name of the device that a virtual device is, if a machine is not told otherwise: ``"cpu:1"``."""
    kind = target_kind(vdevice)
    return f"{'cpu' if kind in ('llvm', 'c', 'cpu') else kind}:{vdevice.vdevice_id}"


def runtime_device(vdevice: VDevice) -> Device:
    """Return the run-time device of a virtual device."""
    return device(device_name(vdevice))
