"""Erasure (language.md §6): struct info that remains valid where some variables are out of scope."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ..expr import Var
from ..ir import RelaxExpr, StructInfo
from ..prim import uses
from ..prim.expr import PrimExpr
from ..prim.expr import Var as PrimVar
from ..struct_info import FuncStructInfo, TupleStructInfo
from .dims import define_dim
from .mapping import bound_in, map_struct_info


def erase(info: StructInfo, shape_vars: Collection[PrimVar] = (), variables: Collection[Var] = ()) -> StructInfo:
    """Struct info of a value where some variables are out of scope.

    A shape that mentions one of them is dropped (its rank and dtype stay), through tuples and functions.
    """
    if not shape_vars and not variables:
        return info

    def dim(value: PrimExpr) -> PrimExpr | None:
        if isinstance(value, PrimVar):
            return None if value in shape_vars else value
        return None if any(uses(value, var) for var in shape_vars) else value

    def shape(value: RelaxExpr) -> RelaxExpr | None:
        return None if value in variables else value

    return map_struct_info(info, dim, shape)


def erase_to_well_defined(
    struct_info: StructInfo,
    shape_var_map: Mapping[PrimVar, PrimExpr] | None = None,
    var_map: Mapping[Var, RelaxExpr] | None = None,
) -> StructInfo:
    """Keep only what is said in the variables of two maps, and substitute these as the maps say.

    Any other variable is taken to be undefined, and shapes that mention it are dropped. A function type's own parameter
    variables count as defined inside it.
    """
    return _Definer(shape_var_map or {}, var_map or {})(struct_info)


class _Definer:
    def __init__(self, shape_vars: Mapping[PrimVar, PrimExpr], variables: Mapping[Var, RelaxExpr]) -> None:
        self.shape_vars = shape_vars
        self.variables = variables
        self.done: dict[int, StructInfo] = {}

    def __call__(self, info: StructInfo) -> StructInfo:
        cached = self.done.get(id(info))
        if cached is None:
            cached = self.done[id(info)] = self.defined(info)
        return cached

    def defined(self, info: StructInfo) -> StructInfo:
        """The erased form of an info met for the first time."""
        match info:
            case TupleStructInfo(fields):
                new = tuple(self(item) for item in fields)
                return info if all(a is b for a, b in zip(new, fields, strict=True)) else TupleStructInfo(new)
            case FuncStructInfo(params, ret) if params is not None:
                own: dict[PrimVar, Any] = {var: var for var in bound_in(*params)}
                inner = _Definer({**own, **self.shape_vars}, self.variables)
                return info.replace(params=inner.all(params), ret=inner(ret))
            case FuncStructInfo():
                return info
            case _:
                return map_struct_info(info, self.dim, self.shape)

    def all(self, infos: tuple[StructInfo, ...]) -> tuple[StructInfo, ...]:
        new = tuple(self(item) for item in infos)
        return infos if all(a is b for a, b in zip(new, infos, strict=True)) else new

    def dim(self, value: PrimExpr) -> PrimExpr | None:
        return define_dim(value, self.shape_vars)

    def shape(self, value: RelaxExpr) -> RelaxExpr | None:
        return self.variables.get(value) if isinstance(value, Var) else None
