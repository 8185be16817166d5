"""Gradients of operators without a rule of their own, by the formulas that they are computed by.

lv = R.nn.pad(x, (1, 1), "reflect")      lv_adjoint is passed to a kernel of adjoint loops of the formula:
                                         lv1 = R.call_tir(cls.pad_gradient, (lv_adjoint, x), …)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

from .. import te
from ..expr import Call, Tuple, TupleGetItem
from ..ir import RelaxExpr, StructInfo
from ..struct_info import TensorStructInfo, TupleStructInfo
from .base import Gradients, Operator, Term
from .errors import UnknownSizeError
from .gradients import apply
from .known import known_struct_info
from .operands import is_absent
from .te_call import call_te


def formula_gradient(operator: Operator, builder: Any, call: Call, grad: Term) -> Gradients | None:
    """Return the gradients of a call's operands, from `grad` with respect to its result, by adjoint loops.

    None if the operator has no formula, a part of it has no derivative, or ranks and dtypes are unknown.
    """
    if operator.compute is None or operator.packed is not None or not operator.can_compute(call):
        return None
    infos = [info for arg in call.args for info in _infos(known_struct_info(arg))]
    if any(info.dims is None for info in infos):
        return None
    pairs = operator.arguments(call)
    absent = [operand.optional and is_absent(arg) for operand, arg in pairs]
    given = [arg for (_, arg), left_out in zip(pairs, absent, strict=True) if not left_out]

    def formula(head: Any, *values: Any) -> list[te.Tensor]:
        rest = iter(values)
        outputs = operator.checked_formula(call, [None if left_out else next(rest) for left_out in absent])
        return te.adjoints([*_tensors(outputs)], [t for t in _tensors(values) if t.dtype.is_float], [*_tensors(head)])

    try:
        result = call_te(builder, formula, (grad, *given), {}, f"{operator.kernel_name()}_gradient", None)
    except (te.NoGradientError, UnknownSizeError):
        return None
    count = iter(range(sum(1 for arg in given for info in _infos(known_struct_info(arg)) if info.dtype.is_float)))
    fields = iter([TupleGetItem(result, i) for i in count])
    return [None if left_out else _gradient(arg, fields) for (_, arg), left_out in zip(pairs, absent, strict=True)]


def _tensors(values: Any) -> Iterator[te.Tensor]:
    """Tensors of nested lists, in order."""
    if isinstance(values, te.Tensor):
        yield values
    elif isinstance(values, (list, tuple)):
        for item in cast("Sequence[Any]", values):
            yield from _tensors(item)


def _infos(info: StructInfo | None) -> Iterator[TensorStructInfo]:
    """Struct infos of the tensors of a value, in order."""
    if isinstance(info, TensorStructInfo):
        yield info
    elif isinstance(info, TupleStructInfo):
        for field in info.fields:
            yield from _infos(field)


def _gradient(arg: RelaxExpr, fields: Iterator[RelaxExpr]) -> RelaxExpr | None:
    """Assemble the gradient of one operand from those of its float tensors; None if it has none."""
    info = known_struct_info(arg)
    if isinstance(info, TensorStructInfo):
        return next(fields) if info.dtype.is_float else None
    if not isinstance(info, TupleStructInfo):
        return None
    items = arg.fields if isinstance(arg, Tuple) else [TupleGetItem(arg, i) for i in range(len(info.fields))]
    return Tuple([_gradient(item, fields) or _nothing(item) for item in items])


def _nothing(item: RelaxExpr) -> RelaxExpr:
    """The entry, in the gradient of a tuple, of a field without gradient."""
    return apply("zeros_like", item) if isinstance(known_struct_info(item), TensorStructInfo) else Tuple(())
