"""Gradients of products: of all elements, and of running ones. Elements that are 0 are not divided by.

The product without a factor is the whole product divided by it. If the factor is 0, it is the product of the others
instead, which is 0 again if there is a second 0.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir import RelaxExpr
from .base import Term
from .gradients import apply, masked, spread


def prod_gradient(x: Term, grad: Term, axis: Sequence[int] | None, keepdims: bool) -> RelaxExpr | None:
    """Gradient of the operand of `prod`; None if its shape is unknown."""
    is_zero: Term = apply("equal", x, apply("zeros_like", x))
    ones = apply("ones_like", x)
    zeros = apply("sum", apply("astype", is_zero, dtype="int64"), axis=axis, keepdims=True)
    others: Term = apply("prod", apply("where", is_zero, ones, x), axis=axis, keepdims=True)
    wide = spread(grad, x, axis, keepdims)
    if wide is None:
        return None
    at_zero: Term = apply("equal", zeros, apply("ones_like", zeros))
    elsewhere: Term = apply("equal", zeros, apply("zeros_like", zeros))
    counted = apply("where", is_zero, apply("logical_and", is_zero, at_zero), elsewhere)
    return masked(wide * (others / apply("where", is_zero, ones, x)), counted)


def cumprod_gradient(x: Term, grad: Term, axis: int, exclusive: bool) -> RelaxExpr:
    """Gradient of the operand of `cumprod` along an axis, for a result of the operand's dtype."""
    is_zero: Term = apply("equal", x, apply("zeros_like", x))
    ones = apply("ones_like", x)
    number = apply("cumsum", apply("astype", is_zero, dtype="int64"), axis=axis)
    is_first: Term = apply("logical_and", is_zero, apply("equal", number, apply("ones_like", number)))

    def later(factors: RelaxExpr) -> Term:
        """Sum, from each element on, of the products that have it as a factor, times their gradients."""
        products = apply("cumprod", factors, axis=axis, exclusive=exclusive)
        flipped = apply("flip", grad * products, axis=axis)
        return apply("flip", apply("cumsum", flipped, axis=axis, exclusive=exclusive), axis=axis)

    divided = later(x) / apply("where", is_zero, ones, x)
    at_first = later(apply("where", is_first, ones, x))
    return apply("where", is_first, at_first, masked(divided, apply("logical_not", is_zero)))


__all__: list[str] = ["cumprod_gradient", "prod_gradient"]
