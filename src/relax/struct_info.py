"""Structural information: the static type of a value (language.md §6).

StructInfo ::= Object() | Prim(dtype, value?) | Shape(values?, ndim) | Tensor(shape?, dtype, ndim, vdevice?)
             | Tuple(fields) | Func(params?, ret, purity, derive_func?)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, final

from .expr import (
    Constant,
    Expr,
    ExternFunc,
    Leaf,
    PrimValue,
    ShapeExpr,
    Tuple,
    Var,
    bind_dimensions,
    register_leaf_struct_info,
)
from .ir import DataType, RelaxExpr, StructInfo, VDevice, binder, child, node, set_slot
from .prim.expr import PrimExpr, convert, dimensions


@final
@node
class ObjectStructInfo(StructInfo):
    """Any value."""


@final
@node
class PrimStructInfo(StructInfo):
    """A scalar: ``PrimStructInfo("int64")``, or with a known value ``PrimStructInfo(value=n)``."""

    dtype: DataType = child(default=None)
    value: PrimExpr | None = child(default=None, converter=lambda v: None if v is None else convert(v))

    def __post_init__(self) -> None:
        dtype: Any = self.dtype
        if dtype is None:
            if self.value is None:
                raise ValueError("PrimStructInfo: give a dtype or a value")
            set_slot(self, "dtype", self.value.dtype)
        else:
            set_slot(self, "dtype", DataType(dtype))


@final
@node
class ShapeStructInfo(StructInfo):
    """A shape: its dimensions if known, otherwise its rank, or -1."""

    values: tuple[PrimExpr, ...] | None = child(default=None, converter=lambda v: None if v is None else dimensions(v))
    ndim: int = child(default=-1)

    def __post_init__(self) -> None:
        if self.values is not None and self.ndim == -1:
            set_slot(self, "ndim", len(self.values))


def _shape(value: Any) -> RelaxExpr | None:
    if value is None or isinstance(value, RelaxExpr):
        return value
    if isinstance(value, (int, PrimExpr)):
        return ShapeExpr((value,))
    shape: Sequence[Any] = value
    return ShapeExpr(shape)


def _vdevice(value: Any) -> VDevice | None:
    if value is not None and not isinstance(value, VDevice):
        raise TypeError(f"vdevice is a VDevice, found {type(value).__name__}")
    return value


@final
@node
class TensorStructInfo(StructInfo):
    """A tensor. `shape` is a ShapeExpr or a Var that holds a shape; dtype "" and ndim -1 mean unknown."""

    shape: RelaxExpr | None = child(default=None, converter=_shape)
    dtype: DataType = child(default="float32", converter=DataType)
    vdevice: VDevice | None = child(default=None, converter=_vdevice)
    ndim: int = child(default=-1)

    def __post_init__(self) -> None:
        if self.ndim != -1:
            return
        if isinstance(self.shape, ShapeExpr):
            set_slot(self, "ndim", len(self.shape.values))
        elif isinstance(self.shape, Var) and isinstance(self.shape.struct_info_, ShapeStructInfo):
            set_slot(self, "ndim", self.shape.struct_info_.ndim)

    @property
    def dims(self) -> tuple[PrimExpr, ...] | None:
        """Dimensions if known, also through a Var of known shape; otherwise None."""
        if isinstance(self.shape, ShapeExpr):
            return self.shape.values
        if isinstance(self.shape, Var) and isinstance(self.shape.struct_info_, ShapeStructInfo):
            return self.shape.struct_info_.values
        return None


@final
@node
class TupleStructInfo(StructInfo):
    """A tuple, with the struct info of each field."""

    fields: tuple[StructInfo, ...] = child(converter=tuple)


def _params(value: Iterable[StructInfo] | None) -> tuple[StructInfo, ...] | None:
    return None if value is None else tuple(value)


@final
@node
class FuncStructInfo(StructInfo):
    """A function: its parameters and result; or for a packed function, the derivation of a call's result.

    `derive_func` names a registered derivation; exactly one of `params` and `derive_func` is given. Shape variables
    bound by the parameters are local to the function.
    """

    __is_scope__: ClassVar[bool] = True

    params: tuple[StructInfo, ...] | None = binder(default=None, converter=_params)
    ret: StructInfo = child(default_factory=ObjectStructInfo)
    purity: bool = child(default=True)
    derive_func: str | None = child(default=None)

    def __post_init__(self) -> None:
        for param in self.params or ():
            bind_dimensions(param)

    @staticmethod
    def opaque_func(
        *, ret: StructInfo | None = None, derive_func: str | None = None, purity: bool = False
    ) -> FuncStructInfo:
        """Struct info of a packed function; by default its derivation reads the call's sinfo_args."""
        return FuncStructInfo(
            None, ret if ret is not None else ObjectStructInfo(), purity, derive_func or DEFAULT_DERIVATION
        )


DEFAULT_DERIVATION = "relax.default_derivation"
"""Default derivation: Object without sinfo_args, the only one, or a Tuple of several."""

DeriveFunc = Callable[[Any, Any], StructInfo]
"""A derivation: (call, block builder) -> struct info of the result."""

_DERIVATIONS: dict[str, DeriveFunc] = {}


def register_derivation(name: str, function: DeriveFunc) -> None:
    """Register a derivation of a packed function's result under the name used in FuncStructInfo.derive_func."""
    _DERIVATIONS[name] = function


def get_derivation(name: str) -> DeriveFunc | None:
    """Derivation registered under a name, None if there is none."""
    return _DERIVATIONS.get(name)


def _default_derivation(call: Any, _builder: Any) -> StructInfo:
    infos: tuple[StructInfo, ...] = call.sinfo_args
    if not infos:
        return ObjectStructInfo()
    return infos[0] if len(infos) == 1 else TupleStructInfo(infos)


register_derivation(DEFAULT_DERIVATION, _default_derivation)


def _leaf_struct_info(leaf: Leaf) -> StructInfo | None:
    match leaf:
        case Constant():
            return TensorStructInfo(leaf.content.shape, leaf.dtype)
        case ShapeExpr(values):
            return ShapeStructInfo(values)
        case PrimValue(value):
            return PrimStructInfo(value=value)
        case ExternFunc():
            return FuncStructInfo.opaque_func()
        case Tuple(fields):
            infos = [field.struct_info_ for field in fields]
            known_infos = [info for info in infos if info is not None]
            return TupleStructInfo(known_infos) if len(known_infos) == len(infos) else None
        case _:
            return ObjectStructInfo()


register_leaf_struct_info(_leaf_struct_info)

__all__ = [
    "DEFAULT_DERIVATION", "DeriveFunc", "Expr", "FuncStructInfo", "ObjectStructInfo", "PrimStructInfo",
    "ShapeStructInfo", "StructInfo", "TensorStructInfo", "TupleStructInfo", "get_derivation", "register_derivation",
]  # fmt: skip
