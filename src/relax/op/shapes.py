"""Operators that change a tensor's shape: permute, reshape, broadcast.

Dimensions not proved to agree are checked at run time by the kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, cast

import numpy as np

from .. import te, topi
from ..expr import Call, ShapeExpr, Var
from ..info.dims import simplify_dim
from ..info.text import prim_text
from ..ir import RelaxExpr, StructInfo
from ..prim import IntImm, PrimExpr, Verdict, const, is_const, prove_equal
from ..struct_info import ShapeStructInfo, TensorStructInfo
from .base import Gradients, Term
from .dims import normalize_axes, require_same_dim, require_stretch, tensor
from .errors import AXES, SHAPES, OperatorError
from .facts import Axes, Exactness, MixedPrecision, Permuted, has_rank, moved_axis, with_new, without
from .gradients import collapsed, reshaped
from .known import known_struct_info
from .operator import Array, Operator, operator


def product(dims: Sequence[PrimExpr]) -> PrimExpr:
    """Product of dimensions: the number of elements."""
    result: PrimExpr = const(1, "int64")
    for size in dims:
        result = result * size
    return simplify_dim(result)


def shaped(shape: RelaxExpr, info: ShapeStructInfo, dtype: str) -> TensorStructInfo:
    """Struct info of a tensor whose shape is an operand: its values if known, or the variable that holds it."""
    if isinstance(shape, ShapeExpr):
        return TensorStructInfo(shape, dtype)
    if isinstance(shape, Var) and isinstance(shape.struct_info_, ShapeStructInfo):
        return TensorStructInfo(shape, dtype, None, info.ndim)
    return TensorStructInfo(None if info.values is None else ShapeExpr(info.values), dtype, None, info.ndim)


def require_sizes(shape: ShapeStructInfo, hint: str = "") -> None:
    """Raise OperatorError for a dimension proved to be negative."""
    for size in shape.values or ():
        if isinstance(size, IntImm) and size.value < 0:
            message = f"a size must be ≥ 0, found {size.value}"
            raise OperatorError(SHAPES, message, operand="shape", hint=hint)


class Move(Operator):
    """Base class of operators that move elements without computing."""

    __slots__ = ()

    exactness: ClassVar[Exactness] = Exactness.ALWAYS
    mixed_precision: ClassVar[MixedPrecision] = MixedPrecision.FOLLOW


# ------------------------------------------------------------------------------- the order of dimensions


@operator("relax.permute_dims")
class PermuteDims(Move):
    """Dimension d of the result is dimension axes[d] of x; axes default to reversed order."""

    total = True

    axes: tuple[int, ...] | None = None

    def order(self, ndim: int) -> Axes:
        """`axes` for an x of rank `ndim`: complete and non-negative."""
        axes = range(ndim)[::-1] if self.axes is None else self.axes
        return tuple(axis % ndim for axis in axes)

    def infer(self, x: TensorStructInfo) -> TensorStructInfo:
        if self.axes is None:
            return tensor(None if x.dims is None else x.dims[::-1], x.dtype, x.ndim)
        if x.ndim not in (-1, len(self.axes)):
            raise OperatorError(
                AXES, f"axes must name all {x.ndim} dimensions of x, found {len(self.axes)}", operand="x"
            )
        axes = normalize_axes(self.axes, len(self.axes), "axes", "x")
        dims = x.dims
        return tensor(None if dims is None else [dims[a] for a in axes], x.dtype, len(axes))

    compute = topi.transpose

    def reference(self, x: Array) -> Array:
        return np.transpose(x, self.axes)

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        inverse = None
        if self.axes is not None:
            axes = normalize_axes(self.axes, len(self.axes))
            inverse = tuple(axes.index(axis) for axis in range(len(axes)))
        return (PermuteDims(inverse).call(grad),)

    def permuted(self, axes: Axes, infos: Sequence[StructInfo]) -> Permuted | None:
        if not has_rank(infos, axes):
            return None
        moved = PermuteDims(tuple(moved_axis(axis, axes) for axis in self.order(len(axes))))
        return Permuted(moved, (axes,), (None,))


# ------------------------------------------------------------------------------------------- new shapes


@operator("relax.reshape")
class Reshape(Move):
    """The elements of x in the same order, in another shape of as many elements.

    In a tuple of sizes, 0 is the size of the same dimension of x, and a single -1 is the remaining size. (For an empty
    x, a 0 that cannot mean this is 0.) A shape value, such as R.shape([0, 4]), is taken literally; it may be dynamic.
    """

    view = True

    def prepare(self, arguments: Sequence[Any]) -> Sequence[Any]:
        x, shape, *rest = arguments
        return [x, _written_shape(x, shape), *rest]

    def infer_from_call(
        self, call: Call, builder: Any, x: TensorStructInfo, shape: ShapeStructInfo
    ) -> TensorStructInfo:
        require_sizes(shape, "in a tuple of sizes, -1 is what the others leave over")
        if x.dims is not None and shape.values is not None:
            before, after = product(x.dims), product(shape.values)
            remarks = {"x": f"{prim_text(before)} elements", "shape": f"{prim_text(after)} elements"}
            require_same_dim(before, after, OperatorError(SHAPES, "the numbers of elements differ", remarks=remarks))
        return shaped(call.args[1], shape, x.dtype)

    compute = topi.reshape
    reference = np.reshape

    def legalize(self, builder: Any, call: Call) -> RelaxExpr:
        """Lower to a kernel if the rank is known, otherwise to a runtime function."""
        x, shape = (known_struct_info(arg) for arg in call.args)
        ranked = isinstance(x, TensorStructInfo) and x.ndim != -1 and not x.dtype.is_void
        if ranked and isinstance(shape, ShapeStructInfo) and shape.ndim != -1:
            return Operator.legalize(self, builder, call)
        return self.packed_call("relax.run.reshape", call, builder)

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        gradient = reshaped(grad, operands[0])
        return None if gradient is None else (gradient, *[None] * (len(operands) - 1))


def _written_shape(x: Any, shape: Any) -> Any:
    """Convert a tuple of sizes (or one size) to a shape value, with 0s and -1 resolved; other values are unchanged."""
    sizes = cast("Sequence[Any]", shape if isinstance(shape, (tuple, list)) else (shape,))
    if not all(isinstance(size, (int, np.integer, PrimExpr)) for size in sizes):
        return cast("Any", shape)
    written = ShapeExpr(tuple(sizes))
    if not any(is_const(size, 0) or is_const(size, -1) for size in written.values):
        return written
    return ShapeExpr(_resolved(_dims_of(x), written.values))


def _dims_of(x: Any) -> Sequence[PrimExpr] | None:
    if isinstance(x, np.ndarray):
        sizes: tuple[int, ...] = cast("Any", x).shape
        return [const(size, "int64") for size in sizes]
    info = known_struct_info(x) if isinstance(x, RelaxExpr) else None
    return info.dims if isinstance(info, TensorStructInfo) else None


def _resolved(dims: Sequence[PrimExpr] | None, sizes: Sequence[PrimExpr]) -> Sequence[PrimExpr]:
    """Resolve 0s and -1 among sizes for a tensor of shape `dims`."""
    free = [d for d, size in enumerate(sizes) if is_const(size, -1)]
    if len(free) > 1:
        raise OperatorError(SHAPES, "only one size of shape may be -1", operand="shape")
    if dims is None:
        which, further = ("-1", "") if free else ("0", ", or R.shape([...]) for a size that is 0")
        raise OperatorError(
            SHAPES,
            f"the {which} in shape needs the shape of x, which is not known",
            hint=f"match_cast {{x}}, or write the size{further}",
        )
    empty = any(is_const(size, 0) for size in dims)
    result = list(sizes)
    for d, size in enumerate(sizes):
        if is_const(size, 0) and d < len(dims):
            result[d] = dims[d]
        elif is_const(size, 0) and not empty:
            raise OperatorError(SHAPES, f"size {d} of shape is 0, but x has no dimension {d} to take it from")
    if free:
        result[free[0]] = _left_over(dims, [size for d, size in enumerate(result) if d != free[0]])
    elif empty and prove_equal(product(result), product(dims)) is not Verdict.YES:
        return sizes
    return result


def _left_over(dims: Sequence[PrimExpr], other_sizes: Sequence[PrimExpr]) -> PrimExpr:
    """Size denoted by -1, given the other sizes. Equal factors cancel: n * 4 / n needs no division."""
    above, below = list(dims), list[PrimExpr]()
    for size in other_sizes:
        same = next((d for d, factor in enumerate(above) if prove_equal(factor, size) is Verdict.YES), None)
        if same is None:
            below.append(size)
        else:
            del above[same]
    total, rest = product(above), product(below)
    if is_const(product(other_sizes), 0):
        raise OperatorError(SHAPES, "the -1 in shape could be any size: the others have no elements")
    if isinstance(total, IntImm) and isinstance(rest, IntImm) and total.value % rest.value:
        raise OperatorError(SHAPES, f"the -1 in shape would be {total.value} / {rest.value}, which is no size")
    return simplify_dim(total // rest)


@operator("relax.flatten")
class Flatten(Move):
    """All elements of x in one dimension."""

    total = True
    view = True

    def infer(self, x: TensorStructInfo) -> TensorStructInfo:
        if x.ndim == 1:
            return x
        return tensor(None if x.dims is None else [product(x.dims)], x.dtype, 1)

    compute = topi.flatten
    reference = np.ravel

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        gradient = reshaped(grad, operands[0])
        return None if gradient is None else (gradient, *[None] * (len(operands) - 1))


@operator("relax.expand_dims")
class ExpandDims(Move):
    """x with new dimensions of size 1 at these indices of the result."""

    total = True
    view = True
    axis: tuple[int, ...]

    def infer(self, x: TensorStructInfo) -> TensorStructInfo:
        if x.ndim == -1:
            return tensor(None, x.dtype)
        ndim = x.ndim + len(self.axis)
        new = normalize_axes(self.axis, ndim, "axis", "x")
        if x.dims is None:
            return tensor(None, x.dtype, ndim)
        sizes = iter(x.dims)
        return tensor([1 if d in new else next(sizes) for d in range(ndim)], x.dtype)

    compute = topi.expand_dims
    reference = np.expand_dims

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        gradient = reshaped(grad, operands[0])
        return None if gradient is None else (gradient, *[None] * (len(operands) - 1))

    def permuted(self, axes: Axes, infos: Sequence[StructInfo]) -> Permuted | None:
        if not has_rank(infos, axes):
            return None
        new = normalize_axes(self.axis, len(axes) + len(self.axis))
        return Permuted(self, (axes,), (with_new(axes, new),))


def _ones(dims: Sequence[PrimExpr]) -> list[int] | None:
    """Return the dimensions of size 1, None if that is undecided of some."""
    verdicts = [prove_equal(size, const(1, "int64")) for size in dims]
    if Verdict.POSSIBLY in verdicts:
        return None
    return [d for d, verdict in enumerate(verdicts) if verdict is Verdict.YES]


@operator("relax.squeeze")
class Squeeze(Move):
    """x without the dimensions `axis`, which must have size 1; by default without all dimensions of size 1.

    By default the rank of the result is unknown if some size may be 1 or not: name the dimensions to keep it known.
    """

    view = True
    axis: tuple[int, ...] | None = None

    @property
    def rank_depends_on_sizes(self) -> bool:
        return self.axis is None

    def infer(self, x: TensorStructInfo) -> TensorStructInfo:
        if x.ndim == -1:
            return tensor(None, x.dtype)
        if self.axis is None:
            ones = None if x.dims is None else _ones(x.dims)
            kept = None if ones is None else [size for d, size in enumerate(x.dims or ()) if d not in ones]
            return tensor(kept, x.dtype, 0 if x.ndim == 0 else -1)
        dropped = normalize_axes(self.axis, x.ndim, "axis", "x")
        if x.dims is None:
            return tensor(None, x.dtype, x.ndim - len(dropped))
        for d in dropped:
            size = x.dims[d]
            remarks = {"x": f"dimension {d} is {prim_text(size)}"}
            require_same_dim(
                size, const(1, "int64"), OperatorError(SHAPES, f"dimension {d} of x must have size 1", remarks=remarks)
            )
        return tensor([size for d, size in enumerate(x.dims) if d not in dropped], x.dtype)

    def can_compute(self, call: Call) -> bool:
        info = known_struct_info(call.args[0])
        if self.axis is None and isinstance(info, TensorStructInfo) and (info.dims is None or _ones(info.dims) is None):
            return False
        return Move.can_compute(self, call)

    def compute(self, x: te.Tensor) -> te.Tensor:
        return topi.squeeze(x, _ones(x.shape) if self.axis is None else self.axis)

    def reference(self, x: Array) -> Array:
        return np.squeeze(x, self.axis)

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        gradient = reshaped(grad, operands[0])
        return None if gradient is None else (gradient, *[None] * (len(operands) - 1))

    def permuted(self, axes: Axes, infos: Sequence[StructInfo]) -> Permuted | None:
        if not has_rank(infos, axes) or self.axis is None:
            return None
        dropped = normalize_axes(self.axis, len(axes))
        return Permuted(Squeeze(tuple(moved_axis(axis, axes) for axis in dropped)), (axes,), (without(axes, dropped),))


@operator("relax.broadcast_to")
class BroadcastTo(Move):
    """x repeated along dimensions of size 1, and along new leading ones, to fill a shape."""

    def infer_from_call(
        self, call: Call, builder: Any, x: TensorStructInfo, shape: ShapeStructInfo
    ) -> TensorStructInfo:
        require_sizes(shape)
        if -1 not in (x.ndim, shape.ndim) and x.ndim > shape.ndim:
            raise OperatorError(
                SHAPES, f"x has {x.ndim} dimensions and cannot be broadcast to {shape.ndim}", operand="x"
            )
        if x.dims is not None and shape.values is not None:
            for d in range(1, len(x.dims) + 1):
                size, full, dimension = x.dims[-d], shape.values[-d], len(x.dims) - d
                message = (
                    f"dimension {dimension} of x is {prim_text(size)}, which does not broadcast to {prim_text(full)}"
                )
                hint = "a size must be 1 or stay as it is"
                require_stretch(size, full, OperatorError(SHAPES, message, operand="x", hint=hint))
        return shaped(call.args[1], shape, x.dtype)

    compute = topi.broadcast_to

    def reference(self, x: Array, shape: Sequence[int]) -> Array:
        return np.array(np.broadcast_to(x, tuple(shape)))

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        gradient = collapsed(grad, operands[0])
        return None if gradient is None else (gradient, None)

    def permuted(self, axes: Axes, infos: Sequence[StructInfo]) -> Permuted | None:
        shape = infos[1]
        if not has_rank(infos, axes) or not isinstance(shape, ShapeStructInfo) or shape.values is None:
            return None
        new = len(shape.values) - len(axes)
        result = (*range(new), *(new + axis for axis in axes))
        return Permuted(self, (axes, ShapeExpr([shape.values[axis] for axis in result])), (result,))
