"""Programs in float64, for finite differences: `widened` replaces every narrower float dtype.

fn (%x: Tensor[(2), float32]) { cast(%x, dtype="float16") + 1f16 }

becomes

fn (%x: Tensor[(2), float64]) { cast(%x, dtype="float64") + 1f64 }
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ...ir import DataType, IRModule, Op
from ..attrs import Attrs
from ..expr import Call, Constant, Expr, Function
from ..functor import MixedModeMutator
from ..operators import operator_spec
from ..type_walk import rewritten
from ..types import TensorType, Type

WIDE: Final = DataType("float64")


def widened(function: Function, mod: IRModule | None) -> tuple[Function, IRModule | None]:
    """Return a function, and the module whose functions it calls, with float64 in the place of narrower floats."""
    widen = _Widen()
    result = widen.visit(function)
    assert isinstance(result, Function)
    if mod is None:
        return result, None
    functions: dict[Any, Any] = {
        var: widen.visit(item) if isinstance(item, Function) else item for var, item in mod.functions.items()
    }
    return result, mod.with_functions(functions)


class _Widen(MixedModeMutator):
    def visit_type(self, type_: Type) -> Type:
        return rewritten(type_, _wide_type)

    def rewrite_constant(self, pre: Constant, post: Constant) -> Expr:
        dtype = DataType(post.data.dtype.name)
        return post.replace(data=np.asarray(post.data).astype("float64")) if _is_narrow(dtype) else post

    def rewrite_call(self, pre: Call, post: Call) -> Expr:
        spec = operator_spec(post.op) if isinstance(post.op, Op) else None
        if spec is None or post.attrs is None:
            return post
        narrow: dict[str, Any] = {
            field.name: WIDE
            for field in spec.attrs
            if field.type.startswith("dtype") and _is_narrow(dict(post.attrs.items()).get(field.name))
        }
        return post.replace(attrs=Attrs({**dict(post.attrs.items()), **narrow})) if narrow else post


def _wide_type(type_: Type) -> Type:
    narrow = isinstance(type_, TensorType) and _is_narrow(type_.dtype)
    return TensorType(type_.shape, WIDE) if narrow else type_  # type: ignore[union-attr]


def _is_narrow(dtype: Any) -> bool:
    return isinstance(dtype, DataType) and dtype.is_float and dtype.bits < WIDE.bits
