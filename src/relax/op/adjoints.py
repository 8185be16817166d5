"""Gradients of a scalar by the expressions it is computed from, collected use by use for reverse-mode differentiation.

adjoints = Adjoints()
adjoints.add(y, grad)               y is used once, with this gradient
adjoints.add(TupleGetItem(t, 0), g) only one field of t is used here
adjoints.total(t)                   (g, zeros_like(t[1])): the sum over all uses, zeros where there are none
"""

from __future__ import annotations

from dataclasses import field

from ..expr import Tuple, TupleGetItem
from ..ir import RelaxExpr, StructInfo
from ..runtime.records import dataclass
from ..struct_info import FuncStructInfo, PrimStructInfo, ShapeStructInfo, TensorStructInfo, TupleStructInfo
from .gradients import apply
from .known import known_struct_info


@dataclass
class _Sum:
    """Accumulated gradients with respect to one expression: of the whole, and per field if it is a tuple."""

    grads: list[RelaxExpr] = field(default_factory=list[RelaxExpr])
    fields: dict[int, _Sum] = field(default_factory=dict[int, "_Sum"])


class Adjoints:
    """Gradients with respect to expressions, keyed by object identity. A tuple's gradient is its fields' gradients."""

    def __init__(self) -> None:
        self._sums: dict[RelaxExpr, _Sum] = {}

    def __contains__(self, expr: RelaxExpr) -> bool:
        """True if a gradient with respect to `expr`, or to a field of it, was added."""
        return expr in self._sums

    def add(self, expr: RelaxExpr, grad: RelaxExpr | None) -> None:
        """Accumulate `grad`, the gradient through one use of `expr`; None adds nothing."""
        if grad is None:
            return
        if isinstance(expr, Tuple):
            for i, item in enumerate(expr.fields):
                self.add(item, _item(grad, i))
        elif isinstance(expr, TupleGetItem) and isinstance(expr.tuple_value, Tuple):
            self.add(expr.tuple_value.fields[expr.index], grad)
        else:
            self._sum(expr).grads.append(grad)

    def _sum(self, expr: RelaxExpr) -> _Sum:
        if isinstance(expr, TupleGetItem):
            return self._sum(expr.tuple_value).fields.setdefault(expr.index, _Sum())
        return self._sums.setdefault(expr, _Sum())

    def total(self, expr: RelaxExpr) -> RelaxExpr:
        """Return the sum of the gradients with respect to `expr`: a tuple of sums for a tuple, zeros if none were
        added.

        A field that is neither a tensor nor a tuple has no gradient; its entry is the empty tuple.
        """
        if isinstance(expr, Tuple):
            return Tuple([self.total(item) for item in expr.fields])
        return _total(self._collected(expr), expr, known_struct_info(expr))

    def _collected(self, expr: RelaxExpr) -> _Sum:
        """Return the gradients with respect to `expr`, including those of tuples of which it is a field."""
        if not isinstance(expr, TupleGetItem):
            return self._sums.get(expr, _Sum())
        if isinstance(expr.tuple_value, Tuple):
            return self._collected(expr.tuple_value.fields[expr.index])
        return _field(self._collected(expr.tuple_value), expr.index)


def _item(grad: RelaxExpr, index: int) -> RelaxExpr:
    return grad.fields[index] if isinstance(grad, Tuple) else TupleGetItem(grad, index)


def _field(whole: _Sum, index: int) -> _Sum:
    """Return the gradients with respect to field `index`, including those of the whole tuple."""
    own = whole.fields.get(index, _Sum())
    return _Sum([*(_item(grad, index) for grad in whole.grads), *own.grads], own.fields)


def _total(own: _Sum, expr: RelaxExpr, info: StructInfo | None) -> RelaxExpr:
    if isinstance(info, TupleStructInfo):
        items = [_total(_field(own, i), TupleGetItem(expr, i), field_info) for i, field_info in enumerate(info.fields)]
        return Tuple(items)
    if not own.grads or isinstance(info, (ShapeStructInfo, PrimStructInfo, FuncStructInfo)):
        return _zeros(expr, info)
    total = own.grads[0]
    for grad in own.grads[1:]:
        total = apply("add", total, grad)
    return total


def _zeros(expr: RelaxExpr, info: StructInfo | None) -> RelaxExpr:
    """Return zeros of a tensor's shape; the empty tuple for any other value."""
    if isinstance(info, TensorStructInfo):
        return apply("zeros_like", expr)
    return Tuple(())
