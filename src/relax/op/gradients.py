"""Building blocks of gradients. Operators of other families are called by name, as their modules import this one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..expr import PrimValue, ShapeExpr
from ..ir import RelaxExpr
from ..prim import PrimExpr, Verdict, cast, is_const, prove_equal
from ..struct_info import TensorStructInfo
from .base import Gradients, Term, class_named, make_operator
from .dims import normalize_axes
from .known import known_struct_info


def apply(name: str, *operands: Any, **attributes: Any) -> Term:
    """Build a call of the operator ``relax.<name>``."""
    cls = class_named(f"relax.{name}")
    assert cls is not None, name
    return make_operator(cls, attributes).call(*operands)


def tensor_info(expr: RelaxExpr) -> TensorStructInfo:
    """Struct info of a tensor; that of an unknown tensor for any other value."""
    info = known_struct_info(expr)
    return info if isinstance(info, TensorStructInfo) else TensorStructInfo(None, "")


def dims_of(expr: RelaxExpr) -> Sequence[PrimExpr] | None:
    """Dimensions of a tensor, None if unknown."""
    return tensor_info(expr).dims


def is_float(expr: RelaxExpr) -> bool:
    """True if an expression is known to be a float tensor."""
    return tensor_info(expr).dtype.is_float


def masked(value: RelaxExpr, condition: RelaxExpr) -> Term:
    """Elements of a tensor where a condition holds, 0 elsewhere."""
    return apply("where", condition, value, apply("zeros_like", value))


def reshaped(grad: RelaxExpr, like: RelaxExpr) -> RelaxExpr | None:
    """Reshape a gradient to an operand's shape; None if that is unknown."""
    dims = dims_of(like)
    if dims is None:
        return None
    return grad if _has_dims(grad, dims) else apply("reshape", grad, ShapeExpr(tuple(dims)))


def _has_dims(expr: RelaxExpr, dims: Sequence[PrimExpr]) -> bool:
    """True if a tensor is proved to have these dimensions."""
    sizes = dims_of(expr)
    if sizes is None or len(sizes) != len(dims):
        return False
    return all(prove_equal(a, b) is Verdict.YES for a, b in zip(sizes, dims, strict=True))


def collapsed(grad: RelaxExpr, operand: RelaxExpr) -> RelaxExpr | None:
    """Gradient of a broadcast operand: `grad` summed over the dimensions along which it was repeated.

    If it is undecided whether a dimension was repeated, this is determined at run time. None if the dimensions are
    unknown.
    """
    wide, narrow = dims_of(grad), dims_of(operand)
    if narrow is None:
        return None
    if wide is None:
        return apply("collapse_sum_to", grad, ShapeExpr(tuple(narrow)))
    new = len(wide) - len(narrow)
    axes: list[int] = list(range(new))
    for d, size in enumerate(narrow):
        answer = prove_equal(size, wide[new + d])
        if answer is Verdict.NO:
            axes.append(new + d)
        elif answer is Verdict.POSSIBLY:
            if not is_const(size, 1):
                return apply("collapse_sum_to", grad, ShapeExpr(tuple(narrow)))
            axes.append(new + d)
    if not axes:
        return grad
    return reshaped(apply("sum", grad, axis=axes), operand)


def unfolded(value: RelaxExpr, like: RelaxExpr, axis: Sequence[int] | None, keepdims: bool) -> RelaxExpr | None:
    """Result of a reduction of `like` along `axis`, with the reduced dimensions restored as size 1."""
    ndim = tensor_info(like).ndim
    if ndim == -1:
        return None
    axes = range(ndim) if axis is None else normalize_axes(axis, ndim)
    return apply("expand_dims", value, axis=sorted(axes)) if axes and not keepdims else value


def spread(grad: RelaxExpr, operand: RelaxExpr, axis: Sequence[int] | None, keepdims: bool) -> RelaxExpr | None:
    """Gradient of the operand of a sum: `grad` broadcast to the operand's shape."""
    dims = dims_of(operand)
    if dims is None:
        return None
    axes = range(len(dims)) if axis is None else normalize_axes(axis, len(dims))
    if not keepdims and 0 < len(axes) < len(dims):  # one number needs no dimensions to be broadcast
        grad = apply("expand_dims", grad, axis=sorted(axes))
    return apply("broadcast_to", grad, ShapeExpr(tuple(dims)))


def number_of(dims: Sequence[PrimExpr], dtype: str) -> RelaxExpr:
    """Product of dimensions, as a scalar of a float dtype."""
    count: PrimExpr | None = None
    for size in dims:
        count = size if count is None else count * size
    return PrimValue(cast(dtype, 1 if count is None else count))


def chained(grad: RelaxExpr, x: RelaxExpr, slope: Callable[[], RelaxExpr | None]) -> Gradients | None:
    """Gradient of an element-wise function, given its derivative; None for an integer operand."""
    if not is_float(x):
        return (None,)
    derivative = slope()
    return None if derivative is None else (apply("multiply", grad, derivative),)
