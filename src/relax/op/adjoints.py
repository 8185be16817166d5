"""Gradients of a scalar by the expressions it is computed from, collected use by use for reverse-mode differentiation.

adjoints = Adjoints()
adjoints.add(y, grad)               y is used once, with this gradient
adjoints.add(TupleGetItem(t, 0), g) only one field of t is used here
adjoints.total(t)                   (g, zeros_like(t[1])): the sum over all uses, zeros where there are none
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..expr import Tuple, TupleGetItem
from ..ir import RelaxExpr, StructInfo
from ..struct_info import TensorStructInfo, TupleStructInfo
from .gradients import apply
from .known import known_struct_info


@dataclass
class _Sum:
    """The gradients by one expression: of the whole, and of fields if it is a tuple."""

    grads: list[RelaxExpr] = field(default_factory=list[RelaxExpr])
    fields: dict[int, _Sum] = field(default_factory=dict[int, "_Sum"])


class Adjoints:
    """Gradients by expressions, which are compared as objects; one by a tuple is one by each of its fields."""

    def __init__(self) -> None:
        self._sums: dict[RelaxExpr, _Sum] = {}

    def __contains__(self, expr: RelaxExpr) -> bool:
        """True if a gradient by the expression, or by a field of it, was added."""
        return expr in self._sums

    def add(self, expr: RelaxExpr, grad: RelaxExpr | None) -> None:
        """Add the gradient of one use of an expression; None is no gradient."""
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
        """The sum of the gradients by an expression, a tuple of sums for a tuple; zeros where there are none.

        A field that is neither a tensor nor a tuple has no gradient: the empty tuple stands in its place.
        """
        if isinstance(expr, Tuple):
            return Tuple([self.total(item) for item in expr.fields])
        return _total(self._collected(expr), expr, known_struct_info(expr))

    def _collected(self, expr: RelaxExpr) -> _Sum:
        """The gradients by an expression, those by tuples that it is a field of included."""
        if not isinstance(expr, TupleGetItem):
            return self._sums.get(expr, _Sum())
        if isinstance(expr.tuple_value, Tuple):
            return self._collected(expr.tuple_value.fields[expr.index])
        return _field(self._collected(expr.tuple_value), expr.index)


def _item(grad: RelaxExpr, index: int) -> RelaxExpr:
    return grad.fields[index] if isinstance(grad, Tuple) else TupleGetItem(grad, index)


def _field(whole: _Sum, index: int) -> _Sum:
    """The gradients by a field of a tuple, those by the whole tuple included."""
    own = whole.fields.get(index, _Sum())
    return _Sum([*(_item(grad, index) for grad in whole.grads), *own.grads], own.fields)


def _total(own: _Sum, expr: RelaxExpr, info: StructInfo | None) -> RelaxExpr:
    if isinstance(info, TupleStructInfo):
        items = [
            _total(_field(own, i), TupleGetItem(expr, i), field_info)
            for i, field_info in enumerate(info.fields)
        ]
        return Tuple(items)
    if not own.grads:
        return _zeros(expr, info)
    total = own.grads[0]
    for grad in own.grads[1:]:
        total = apply("add", total, grad)
    return total


def _zeros(expr: RelaxExpr, info: StructInfo | None) -> RelaxExpr:
    """Zeros in the shape of a tensor; the empty tuple for anything else."""
    if isinstance(info, TensorStructInfo):
        return apply("zeros_like", expr)
    return Tuple(())


__all__ = ["Adjoints"]
