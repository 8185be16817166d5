"""Gradients of kernels without a registered gradient: PrimFuncs that can be read as tensor expressions.

lv = R.call_tir(cls.scale, (x,), …)      lv_adjoint is passed to a kernel of adjoint loops of the kernel's formula:
                                         lv1 = R.call_tir(cls.scale_gradient, (lv_adjoint, x), …)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from .. import te
from ..expr import Call, ShapeExpr, Tuple, TupleGetItem
from ..ir import BaseFunc, GlobalVar, RelaxExpr
from ..struct_info import TensorStructInfo, TupleStructInfo
from ..te.from_prim_func import NoFormulaError, from_prim_func
from ..tir.stmt import PrimFunc
from .base import Gradients, Term
from .errors import ATTRIBUTES, OperatorError
from .gradients import apply
from .known import known_struct_info
from .te_call import call_te


def kernel_gradient(builder: Any, call: Call, grad: Term) -> Gradients | None:
    """Return the gradients of a call_tir's arguments, from `grad` with respect to its result, by adjoint loops.

    None if shapes are unknown. Raises OperatorError with the reason if the kernel cannot be read as tensor expressions
    (`relax.te.from_prim_func`) or a part of it has no derivative.
    """
    callee, operands, *rest = call.args
    if not isinstance(callee, GlobalVar):
        return None
    func: BaseFunc | None = builder.get_context_module().get(callee.name_hint)
    integers = rest[0].values if rest and isinstance(rest[0], ShapeExpr) else ()
    if not isinstance(func, PrimFunc) or not isinstance(operands, Tuple) or (rest and not integers):
        return None
    infos = [known_struct_info(field) for field in operands.fields]
    if not all(isinstance(info, TensorStructInfo) and info.dims is not None for info in infos):
        return None
    (out,) = call.sinfo_args
    count = len(out.fields) if isinstance(out, TupleStructInfo) else 1

    def formula(head: Any, *values: Any) -> list[te.Tensor]:
        heads = cast("Sequence[te.Tensor]", head if isinstance(head, (list, tuple)) else [head])
        outputs = from_prim_func(func, values, count)
        floats = [value for value in values if isinstance(value, te.Tensor) and value.dtype.is_float]
        return te.adjoints(outputs, floats, heads)

    try:
        name = f"{callee.name_hint}_gradient"
        result = call_te(builder, formula, (grad, *operands.fields, *integers), {}, name, None)
    except (te.NoGradientError, NoFormulaError) as error:
        hint = "R.grad.no_grad makes a constant of its operand"
        raise OperatorError(
            ATTRIBUTES, f"call_tir of {callee.name_hint} has no gradient: {error}", hint=hint
        ) from error
    count_of_floats = 0
    parts: list[RelaxExpr] = []
    for field, info in zip(operands.fields, infos, strict=True):
        if isinstance(info, TensorStructInfo) and info.dtype.is_float:
            parts.append(TupleGetItem(result, count_of_floats))
            count_of_floats += 1
        else:
            parts.append(apply("zeros_like", field))
    return (None, Tuple(parts), *[None] * len(rest))


__all__ = ["kernel_gradient"]
