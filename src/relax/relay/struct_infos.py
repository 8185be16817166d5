"""Struct info of Relay types: tensors and tuples, for operands of operators and for translated programs.

Sizes are int64 in Relax. A symbolic size of Relay may be int32, as in TVM: `SizeTable` has an int64 variable for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias, cast

from ..expr import bind_dimensions
from ..ir import DataType, StructInfo
from ..prim import Cast, IntImm, PrimExpr, Var, const, free_vars, post_order, rewrite, substitute
from ..prim.expr import INT64, SizeVar
from ..struct_info import TensorStructInfo, TupleStructInfo
from .attrs import Attrs
from .types import Any as AnyDim
from .types import Dim, TensorType, TupleType, Type, TypeVar

Sizes: TypeAlias = Callable[[Dim], "PrimExpr | None"]
"""Maps a dimension to a size; None leaves the whole shape unknown."""

_LARGEST: Final = 2**31 - 1


def struct_info_of(type_: Type, sizes: Sizes, other: Callable[[Type], StructInfo]) -> StructInfo:
    """Struct info of a type; `other` converts types other than tensors and tuples."""
    match type_:
        case TensorType(shape, dtype) if not isinstance(shape, TypeVar) and not isinstance(dtype, TypeVar):
            dims = [sizes(dim) for dim in shape]
            static = [dim for dim in dims if dim is not None]
            if len(static) < len(dims):
                return TensorStructInfo(ndim=len(dims), dtype=str(dtype))
            info = TensorStructInfo(static, str(dtype))
            bind_dimensions(info)
            return info
        case TupleType(fields):
            return TupleStructInfo([struct_info_of(field, sizes, other) for field in fields])
        case _:
            return other(type_)


class SizeTable:
    """Int64 variables that stand for the symbolic sizes of other dtypes in some types, and the way back."""

    def __init__(self) -> None:
        self._wide: dict[Var, Var] = {}
        self._own: dict[Var, Var] = {}

    def size(self, dim: Dim) -> PrimExpr | None:
        """Convert a dimension to a Relax size; None for `Any`."""
        return None if isinstance(dim, AnyDim) else rewrite(dim, self._widened)

    def _widened(self, part: PrimExpr) -> PrimExpr | None:
        """Int64 form of an expression whose operands have it already; None if it needs no change."""
        match part:
            case Var() if part.dtype.is_integer and part.dtype != INT64:
                if part not in self._wide:
                    self._wide[part] = SizeVar(part.name, "int64")
                    self._own[self._wide[part]] = part
                return self._wide[part]
            case IntImm() if part.dtype.is_integer and part.dtype != INT64:
                return const(part.value, "int64")
            case Cast(value=value) if part.dtype.is_integer and value.dtype == INT64:
                return value
            case _:
                return None

    def dim(self, size: PrimExpr) -> PrimExpr:
        """Convert a Relax size to a dimension over the types' own variables, of their dtype if they share one."""
        variables = free_vars(size)
        own = {var: self._own[var] for var in variables if var in self._own}
        if not own:
            return size
        dtypes = {own[var].dtype if var in own else var.dtype for var in variables}
        if len(dtypes) == 1 and all(abs(number) <= _LARGEST for number in _numbers(size)):
            (dtype,) = dtypes
            return rewrite(size, lambda part: _narrowed(part, own, dtype))
        return substitute(size, {var: other.astype("int64") for var, other in own.items()})

    def attrs(self, attrs: Attrs | None) -> Attrs | None:
        """Attributes whose sizes are converted; the same object if none is."""
        if attrs is None:
            return None
        items = dict(attrs.items())
        converted = {name: self._attr(value) for name, value in items.items()}
        unchanged = all(converted[name] is value for name, value in items.items())
        return attrs if unchanged else Attrs(converted, span=attrs.span)

    def _attr(self, value: Any) -> Any:
        if isinstance(value, PrimExpr):
            return self.size(value)
        if not isinstance(value, tuple):
            return value
        items = cast("tuple[Any, ...]", value)
        converted = tuple(self._attr(item) for item in items)
        return items if all(a is b for a, b in zip(converted, items, strict=True)) else converted


def _numbers(size: PrimExpr) -> list[int]:
    numbers: list[int] = []

    def visit(part: PrimExpr) -> None:
        if isinstance(part, IntImm):
            numbers.append(part.value)

    post_order(size, visit)
    return numbers


def _narrowed(part: PrimExpr, own: dict[Var, Var], dtype: DataType) -> PrimExpr | None:
    if isinstance(part, Var):
        return own[part]
    return const(part.value, dtype) if isinstance(part, IntImm) and part.dtype == INT64 else None
