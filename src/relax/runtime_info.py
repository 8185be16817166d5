"""Struct info as the machine carries it: what closures say about themselves, and are compared with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from .ir import DataType, StructInfo, VDevice, target_kind
from .prim import (
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
from .prim import Var as PrimVar
from .runtime.devices import Device, device
from .runtime.info import (
    DTYPES,
    Dim,
    FuncInfo,
    Info,
    ObjectInfo,
    PrimInfo,
    ShapeInfo,
    TensorInfo,
    TupleInfo,
)
from .runtime.rounding import round_number
from .struct_info import (
    FuncStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)

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
_CONDITIONS: Mapping[type[PrimExpr], str] = {
    EQ: "eq",
    NE: "ne",
    LT: "lt",
    LE: "le",
    And: "both",
    Or: "either",
}


def _converted(dtype: DataType, dim: Dim) -> Dim:
    """A value rounded, truncated or wrapped around to a dtype."""
    return (str(dtype), dim) if str(dtype) in DTYPES else ("unknown",)


def _is_polynomial(value: PrimExpr) -> bool:
    return isinstance(value, Add | Sub | Mul) and value.dtype.is_integer


Resolve = Callable[[PrimExpr], "Dim | None"]
"""What a dimension is, if the caller knows better than its text (the slot it is kept in)."""


class InfoMaker:
    """Turns struct infos of one signature into Infos; equal shape variables keep equal, unique names."""

    def __init__(self, resolve: Resolve | None = None) -> None:
        self._resolve = resolve
        self._names: dict[PrimVar, str] = {}
        self._infos: dict[int, tuple[StructInfo, Info]] = {}
        self._dims: dict[int, tuple[PrimExpr, Dim]] = {}

    def info(self, info: StructInfo | None) -> Info:
        """The Info of a struct info; one object for each."""
        if info is None:
            return ObjectInfo()
        known = self._infos.get(id(info))
        if known is None:
            known = self._infos[id(info)] = info, self._info(info)
        return known[1]

    def _info(self, info: StructInfo) -> Info:
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
                return TupleInfo(tuple(map(self.info, fields)))
            case FuncStructInfo():
                return self.func(info)
            case _:
                return ObjectInfo()

    def func(self, info: FuncStructInfo) -> FuncInfo:
        """The Info of a function's struct info."""
        if info.params is None:
            return FuncInfo(None, ObjectInfo(), False)
        return FuncInfo(tuple(map(self.info, info.params)), self.info(info.ret), info.purity)

    def dim(self, value: PrimExpr) -> Dim:
        """A dimension; ``("unknown",)`` for what the machine cannot compute."""
        made = self._dims.get(id(value))
        if made is None:
            made = self._dims[id(value)] = value, self._dim(value)
        return made[1]

    def _dim(self, value: PrimExpr) -> Dim:
        known = None if self._resolve is None else self._resolve(value)
        if known is not None:
            return known
        match value:
            case IntImm(_, number):
                return number
            case FloatImm(dtype, number):
                return round_number(number, dtype)
            case PrimVar():
                return self._name(value)
            case Cast(dtype, inner) if dtype == "int64" and not (
                inner.dtype.is_float or inner.dtype == "uint64"
            ):
                return self.dim(inner)
            case Cast(dtype, inner):
                return _converted(dtype, self.dim(inner))
            case Not(inner):
                return ("negated", self.dim(inner))
            case GT(a, b):
                return ("lt", self.dim(b), self.dim(a))
            case GE(a, b):
                return ("le", self.dim(b), self.dim(a))
            case FloorDiv() | FloorMod() | Div() | Mod() if value.dtype.is_float:
                return ("unknown",)
            case _ if type(value) in _CONDITIONS:
                return (_CONDITIONS[type(value)], *map(self.dim, sub_expressions(value)))
            case _ if type(value) in _ARITHMETIC:
                operand = self._term if _is_polynomial(value) else self.dim
                dim = (_ARITHMETIC[type(value)], *map(operand, sub_expressions(value)))
                return dim if value.dtype == "int64" else _converted(value.dtype, dim)
            case _:
                return ("unknown",)

    def _term(self, value: PrimExpr) -> Dim:
        """An operand of a sum or product: integers wrap around once, in the end; then equal polynomials are equal."""
        dim = self.dim(value)
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
    """That device itself."""
    return device(device_name(vdevice))
