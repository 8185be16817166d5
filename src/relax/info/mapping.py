"""Walking struct info: rebuilding it under a substitution, and the variables it mentions.

A shape variable is *bound* by an annotation where it stands alone in a dimension (or is the value of a Prim);
anywhere else it is *used*. What a function type's own parameters bind is visible only inside that type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import is_
from typing import Final

from ..expr import SeqExpr, ShapeExpr, Var, bind_dimensions
from ..ir import BaseFunc, Node, RelaxExpr, StructInfo, walk
from ..prim import free_vars, substitute
from ..prim.expr import PrimExpr, cast
from ..prim.expr import Var as PrimVar
from ..struct_info import FuncStructInfo, PrimStructInfo, ShapeStructInfo, TensorStructInfo, TupleStructInfo

MapDim = Callable[[PrimExpr], "PrimExpr | None"]
MapShape = Callable[[RelaxExpr], "RelaxExpr | None"]


def map_struct_info(info: StructInfo, dim: MapDim, shape: MapShape | None = None) -> StructInfo:
    """Rebuild struct info with `dim` applied to every dimension and `shape` to every shape that is a variable.

    Either may answer None: what it stands in is then not known (a shape becomes its number of dimensions).
    Returns the very object it got when nothing changed.
    """
    return _Mapper(dim, shape).mapped(info) if type(info) in _WITH_PARTS else info


_WITH_PARTS: Final = frozenset((TensorStructInfo, ShapeStructInfo, PrimStructInfo, TupleStructInfo, FuncStructInfo))


class _Mapper:
    def __init__(self, dim: MapDim, shape: MapShape | None) -> None:
        self.dim = dim
        self.shape = shape
        self.done: dict[int, StructInfo] = {}
        """Results for the infos met, by id: an info may occur in many places."""

    def __call__(self, info: StructInfo) -> StructInfo:
        cached = self.done.get(id(info))
        if cached is None:
            cached = self.done[id(info)] = self.mapped(info)
        return cached

    def mapped(self, info: StructInfo) -> StructInfo:
        """The result for an info met for the first time."""
        if type(info) is TensorStructInfo:
            return self.tensor(info)
        match info:
            case ShapeStructInfo(values):
                if values is None:
                    return info
                mapped = self.dims(values)
                if mapped is None:
                    return ShapeStructInfo(ndim=info.ndim, span=info.span)
                return info if mapped is values else ShapeStructInfo(mapped, span=info.span)
            case PrimStructInfo(dtype, value):
                if value is None:
                    return info
                new = self.dim(value)
                return info if new is value else PrimStructInfo(dtype, new, span=info.span)
            case TupleStructInfo(fields):
                new_fields = self.infos(fields)
                return info if new_fields is fields else TupleStructInfo(new_fields, span=info.span)
            case FuncStructInfo(params, ret):
                new_params = None if params is None else self.infos(params)
                new_ret = self(ret)
                if new_params is params and new_ret is ret:
                    return info
                return info.replace(params=new_params, ret=new_ret)
            case _:
                return info

    def infos(self, infos: tuple[StructInfo, ...]) -> tuple[StructInfo, ...]:
        mapped = tuple([self(item) for item in infos])
        return infos if all(map(is_, infos, mapped)) else mapped

    def dims(self, values: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...] | None:
        """The mapped dimensions, the same tuple if none changed, None if one is not known."""
        mapped: list[PrimExpr] = []
        for value in values:
            new = self.dim(value)
            if new is None:
                return None
            mapped.append(new)
        return values if all(map(is_, mapped, values)) else tuple(mapped)

    def tensor(self, info: TensorStructInfo) -> StructInfo:
        shape = info.shape
        new_shape: RelaxExpr | None = shape
        if isinstance(shape, ShapeExpr):
            mapped = self.dims(shape.values)
            if mapped is None:
                new_shape = None
            elif mapped is not shape.values:
                new_shape = ShapeExpr(mapped, span=shape.span)
        elif shape is not None and self.shape is not None:
            new_shape = self.shape(shape)
            if not isinstance(new_shape, (ShapeExpr, Var)):
                new_shape = None
        if new_shape is shape:
            return info
        return TensorStructInfo(new_shape, info.dtype, info.vdevice, info.ndim, span=info.span)


def substitute_struct_info(
    info: StructInfo,
    shape_vars: Mapping[PrimVar, PrimExpr],
    variables: Mapping[Var, RelaxExpr] | None = None,
    simplify: Callable[[PrimExpr], PrimExpr] | None = None,
) -> StructInfo:
    """Replace shape variables, and variables that stand for shapes; what changed is simplified, if asked for."""
    table = {var: cast(var.dtype, value) for var, value in shape_vars.items()}

    def dim(value: PrimExpr) -> PrimExpr:
        if isinstance(value, PrimVar):
            return table.get(value, value)
        new = substitute(value, table)
        return simplify(new) if simplify is not None and new is not value else new

    def shape(value: RelaxExpr) -> RelaxExpr | None:
        return variables.get(value, value) if variables and isinstance(value, Var) else value

    return map_struct_info(info, dim if table else _same_dim, shape)


def _same_dim(value: PrimExpr) -> PrimExpr:
    return value


def dims_of(info: StructInfo) -> tuple[PrimExpr, ...]:
    """The dimensions a tensor or shape annotation writes out; a Prim's value counts as one."""
    match info:
        case TensorStructInfo(ShapeExpr(values)):
            return values
        case ShapeStructInfo(values) if values is not None:
            return values
        case PrimStructInfo(_, value) if value is not None:
            return (value,)
        case _:
            return ()


def bound_in(*infos: StructInfo) -> dict[PrimVar, None]:
    """The shape variables that annotations can bind: those that stand alone, also inside tuples."""
    variables: dict[PrimVar, None] = {}
    alone = len(infos) == 1 and not isinstance(infos[0], TupleStructInfo)
    for info in infos if alone else fields_in(*infos):
        for value in dims_of(info):
            if isinstance(value, PrimVar):
                variables[value] = None
    return variables


def map_fields(info: StructInfo, function: Callable[[StructInfo], StructInfo]) -> StructInfo:
    """Struct info with `function` applied to all that is no tuple, also inside tuples; each object once."""
    done: dict[int, StructInfo] = {}

    def mapped(item: StructInfo) -> StructInfo:
        result = done.get(id(item))
        if result is None:
            if isinstance(item, TupleStructInfo):
                new = tuple([mapped(field) for field in item.fields])
                same = all(a is b for a, b in zip(new, item.fields, strict=True))
                result = item if same else TupleStructInfo(new, span=item.span)
            else:
                result = function(item)
            done[id(item)] = result
        return result

    return mapped(info)


def fields_in(*infos: StructInfo) -> Iterator[StructInfo]:
    """The infos that are no tuples, also those inside tuples; each object once."""
    seen: set[int] = set()
    pending = list(infos)[::-1]
    while pending:
        info = pending.pop()
        if id(info) in seen:
            continue
        seen.add(id(info))
        if isinstance(info, TupleStructInfo):
            pending.extend(reversed(info.fields))
        else:
            yield info


def used_in(*infos: StructInfo) -> dict[PrimVar, None]:
    """Every shape variable that occurs free in struct infos, standing alone or not.

    What a function type's own parameters bind is not free in it.
    """
    return _used(infos, {})


def _used(infos: Iterable[StructInfo], functions: dict[int, dict[PrimVar, None]]) -> dict[PrimVar, None]:
    """Shape variables that struct infos use; `functions` caches those of function types, by id."""
    variables: dict[PrimVar, None] = {}
    for info in fields_in(*infos):
        if not isinstance(info, FuncStructInfo):
            for value in dims_of(info):
                variables.update([(value, None)] if isinstance(value, PrimVar) else dict.fromkeys(free_vars(value)))
            continue
        free = functions.get(id(info))
        if free is None:
            inner = info.params or ()
            own = bound_in(*inner)
            used = _used((*inner, info.ret), functions)
            free = functions[id(info)] = {var: None for var in used if var not in own}
        variables.update(free)
    return variables


def shape_expressions(info: StructInfo) -> Iterator[RelaxExpr]:
    """The Relax expressions in struct info that stand for shapes and are not written out dimension by dimension."""
    seen: set[int] = set()
    pending = [info]
    while pending:
        current = pending.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        match current:
            case TensorStructInfo(shape):
                if shape is not None and not isinstance(shape, ShapeExpr):
                    yield shape
            case TupleStructInfo(fields):
                pending.extend(reversed(fields))
            case FuncStructInfo(params, ret):
                pending.extend(reversed((*(params or ()), ret)))
            case _:
                pass


def bind_dimensions_of_operands(expr: RelaxExpr) -> None:
    """Record that dimensions of an expression's variables are sizes, except in functions and branches inside it."""

    def visit(item: Node) -> bool:
        if isinstance(item, Var) and item.annotation is not None:
            bind_dimensions(item.annotation)
        return not isinstance(item, (SeqExpr, BaseFunc))

    walk(expr, visit)
