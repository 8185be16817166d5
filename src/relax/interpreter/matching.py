"""Matching a value against struct info (language.md §7.1): at match_cast, at function entry and exit.

    Object   anything
    Tensor   a tensor; its ndim, dtype and device; then dimension by dimension
    Shape    a shape; its ndim; then dimension by dimension
    Prim     a number of the dtype; then its value
    Tuple    a tuple; its length; then field by field
    Func     a closure whose run-time struct info fits, or, with derive_func, a packed function

A dimension that is an unbound variable standing alone is bound; anything else is evaluated and compared. A scalar may
have any value, but for one that binds a variable which is a dimension elsewhere: that is a size, too.

There are two rounds. `bind` goes to the binding positions, and matches what comes before them in the order above;
`check` matches everything. At function entry all parameters are bound, left to right, before the first is checked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from ..expr import Var
from ..info.mapping import bound_in
from ..info.runtime import InfoMaker, runtime_device
from ..ir import RelaxExpr, StructInfo
from ..prim import IntImm, PrimExpr, free_vars
from ..prim import Var as ShapeVar
from ..runtime import match as values
from ..runtime.heap import ShapeHeap
from ..runtime.info import FuncInfo
from ..runtime.messages import IS
from ..struct_info import (
    FuncStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from .scope import Environment, Number


@dataclass(frozen=True)
class Origin:
    """The value being matched, as messages name it."""

    context: str
    """The beginning of messages: ``main: parameter x``."""
    name: str
    """The binder of shape variables in messages: ``x``."""

    def field(self, index: int) -> Origin:
        """A field of the tuple that stands here."""
        return replace(self, context=f"{self.context}[{index}]", name=f"{self.name}[{index}]")


def enter(params: Sequence[Var], args: Sequence[Any], scope: Environment) -> None:
    """Match the arguments of a function, and bind its parameters and shape variables in `scope`.

    The annotation of a parameter may name another one that holds its shape.
    """
    for param, value in zip(params, args, strict=True):
        scope.define(param, value)
    matches = [
        (value, param.struct_info, Origin(f"{scope.function}: parameter {param.name_hint}", param.name_hint))
        for param, value in zip(params, args, strict=True)
    ]
    for value, info, place in matches:
        bind(value, info, scope, place)
    for value, info, place in matches:
        check(value, info, scope, place)


def match(value: Any, info: StructInfo, scope: Environment, place: Origin) -> None:
    """Match one value: bind, then check."""
    bind(value, info, scope, place)
    check(value, info, scope, place)


# ------------------------------------------------------------------------------------------- the rounds


def bind(value: Any, info: StructInfo, scope: Environment, place: Origin) -> None:
    """Bind the shape variables that stand alone in `info` and have no value yet."""
    if all(map(scope.knows, bound_in(info))):
        return
    check_kind(value, info, place)
    if isinstance(info, TupleStructInfo):
        for index, field in enumerate(info.fields):
            bind(value[index], field, scope, place.field(index))
        return
    for where, dim, found in dimensions(value, info):
        if isinstance(dim, ShapeVar) and not scope.knows(dim):
            if isinstance(info, PrimStructInfo) and dim.nonnegative:
                values.check_size(cast(int, found), place.context)
            scope.define_size(dim, found, f"{place.name}, {where}" if where else place.name)


def check(value: Any, info: StructInfo, scope: Environment, place: Origin) -> None:
    """Compare a value with struct info whose shape variables are bound.

    The shape heap of a lowered program is the tensor of its slots.
    """
    value = value.tensor if isinstance(value, ShapeHeap) else value
    check_kind(value, info, place)
    match info:
        case TupleStructInfo(fields):
            for index, field in enumerate(fields):
                check(value[index], field, scope, place.field(index))
        case FuncStructInfo():
            expected = InfoMaker(lambda dim: _value(dim, scope)).func(info)
            values.check_function(value, expected, place.context)
        case TensorStructInfo(Var() as shape):
            values.match_shape_value(value, scope[shape], place.context)
        case _:
            for where, dim, found in dimensions(value, info):
                if not values.same_scalar(found, scope.evaluate(dim)):
                    expected = str(dim.value) if isinstance(dim, IntImm) else scope.explain(dim)
                    raise IS(
                        context=place.context, place=where or "the value", found=found, expected=expected
                    )


def check_kind(value: Any, info: StructInfo, place: Origin) -> None:
    """Kind, rank, length, dtype and device; TypeError or ValueError if they differ."""
    match info:
        case TensorStructInfo(_, dtype, vdevice):
            device = None if vdevice is None else runtime_device(vdevice)
            values.check_tensor_info(value, info.ndim, str(dtype), place.context, device)
        case ShapeStructInfo(_, ndim):
            values.check_shape_info(value, ndim, place.context)
        case PrimStructInfo(dtype):
            values.check_prim_value_info(value, str(dtype), place.context)
        case TupleStructInfo(fields):
            values.check_tuple_info(value, len(fields), place.context)
        case _:
            pass


def dimensions(value: Any, info: StructInfo) -> list[tuple[str, PrimExpr, Number]]:
    """The dimensions (or the scalar) of `info` beside those of the value: (place, expected, found)."""
    match info:
        case TensorStructInfo() if info.dims is not None:
            expected, found = info.dims, value.shape
        case ShapeStructInfo(dims) if dims is not None:
            expected, found = dims, tuple(value)
        case PrimStructInfo(_, expr) if expr is not None:
            return [("", expr, value)]
        case _:
            return []
    axes = range(len(expected))
    return [(f"dimension {axis}", expected[axis], found[axis]) for axis in axes]


# -------------------------------------------------------------------------------------------- functions


def function_info(info: FuncStructInfo, scope: Environment) -> FuncInfo:
    """The run-time struct info of a function made here: shape variables of the scope have their values.

    A dimension that has none (a division by zero) is left as it is written: nobody has asked for it yet.
    """

    def resolve(dim: PrimExpr) -> int | None:
        try:
            return _value(dim, scope)
        except ArithmeticError:
            return None

    return InfoMaker(resolve).func(info)


def _value(dim: PrimExpr, scope: Environment) -> int | None:
    if isinstance(dim, IntImm) or not all(map(scope.knows, free_vars(dim))):
        return None
    return cast(int, scope.evaluate(dim))


def name_of(value: RelaxExpr) -> str:
    """The name of a value in messages: that of its variable, if it has one."""
    return getattr(value, "name_hint", "a value")
