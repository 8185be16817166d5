"""Operators that rearrange a tensor's elements: permute, reshape, slice, split, join, repeat.

Where sizes that must agree are not known to, the kernel checks them when it runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, cast

import numpy as np

from .. import te, topi
from ..expr import Call, ShapeExpr, Var
from ..info.dims import simplify_dim
from ..info.text import prim_text
from ..ir import RelaxExpr
from ..prim import IntImm, PrimExpr, Verdict, const, is_const, prove_equal
from ..struct_info import (
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from ..topi.slicing import section_slices, slice_of
from .dims import (
    normalize_axes,
    normalize_axis,
    require_same_dim,
    require_stretch,
    same_dtype,
    tensor,
)
from .errors import AXES, OPERANDS, SHAPES, OperatorError
from .known import known_struct_info
from .operator import Array, Operator, operator


def product(dims: Sequence[PrimExpr]) -> PrimExpr:
    """The number of elements."""
    result: PrimExpr = const(1, "int64")
    for size in dims:
        result = result * size
    return simplify_dim(result)


def shaped(shape: RelaxExpr, info: ShapeStructInfo, dtype: str) -> TensorStructInfo:
    """A tensor whose shape is an operand: its values if known, or the variable that holds it."""
    if isinstance(shape, ShapeExpr):
        return TensorStructInfo(shape, dtype)
    if isinstance(shape, Var) and isinstance(shape.struct_info_, ShapeStructInfo):
        return TensorStructInfo(shape, dtype, None, info.ndim)
    return TensorStructInfo(None if info.values is None else ShapeExpr(info.values), dtype, None, info.ndim)


def require_sizes(shape: ShapeStructInfo, hint: str = "") -> None:
    """Complain of a size proved to be negative."""
    for size in shape.values or ():
        if isinstance(size, IntImm) and size.value < 0:
            message = f"a size must be ≥ 0, found {size.value}"
            raise OperatorError(SHAPES, message, operand="shape", hint=hint)


# ------------------------------------------------------------------------------- the order of dimensions


@operator("relax.permute_dims")
class PermuteDims(Operator):
    """Dimension d of the result is dimension axes[d] of x; without axes they are reversed."""

    total = True

    axes: tuple[int, ...] | None = None

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


# ------------------------------------------------------------------------------------------- new shapes


@operator("relax.reshape")
class Reshape(Operator):
    """The elements of x in the same order, in another shape of as many elements.

    In a tuple of sizes, 0 is the size of x in the same place, and one -1 is what is left over. (Of an x
    without elements, a 0 that cannot be meant so is 0.) A shape value, such as R.shape([0, 4]), means what it
    says; it may be known only at run time.
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
            found = {"x": f"{prim_text(before)} elements", "shape": f"{prim_text(after)} elements"}
            require_same_dim(
                before, after, OperatorError(SHAPES, "the numbers of elements differ", remarks=found)
            )
        return shaped(call.args[1], shape, x.dtype)

    compute = topi.reshape
    reference = np.reshape

    def legalize(self, builder: Any, call: Call) -> RelaxExpr:
        """A kernel, if it is known how many dimensions there are; else a function of the runtime."""
        x, shape = (known_struct_info(arg) for arg in call.args)
        ranked = isinstance(x, TensorStructInfo) and x.ndim != -1 and not x.dtype.is_void
        if ranked and isinstance(shape, ShapeStructInfo) and shape.ndim != -1:
            return Operator.legalize(self, builder, call)
        return self.packed_call("relax.run.reshape", call, builder)


def _written_shape(x: Any, shape: Any) -> Any:
    """A tuple of sizes (or one size) as a shape value, with its 0s and -1 replaced; anything else as it is."""
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
    """Sizes with their 0s and -1 replaced by what they mean for a tensor of shape `dims`."""
    free = [d for d, size in enumerate(sizes) if is_const(size, -1)]
    if len(free) > 1:
        raise OperatorError(SHAPES, "only one size of shape may be -1", operand="shape")
    if dims is None:
        which, further = ("-1", "") if free else ("0", ", or R.shape([...]) for a size that is 0")
        raise OperatorError(
            SHAPES,
            f"the {which} in shape needs the shape of x, which is not known",
            hint=f"match_cast x, or write the size{further}",
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


def _left_over(dims: Sequence[PrimExpr], others: Sequence[PrimExpr]) -> PrimExpr:
    """What -1 stands for beside the other sizes. Equal sizes cancel, so that nothing is divided by n in n * 4 / n."""
    above, below = list(dims), list[PrimExpr]()
    for size in others:
        same = next((d for d, known in enumerate(above) if prove_equal(known, size) is Verdict.YES), None)
        if same is None:
            below.append(size)
        else:
            del above[same]
    total, rest = product(above), product(below)
    if is_const(product(others), 0):
        raise OperatorError(SHAPES, "the -1 in shape could be any size: the others have no elements")
    if isinstance(total, IntImm) and isinstance(rest, IntImm) and total.value % rest.value:
        raise OperatorError(
            SHAPES, f"the -1 in shape would be {total.value} / {rest.value}, which is no size"
        )
    return simplify_dim(total // rest)


@operator("relax.flatten")
class Flatten(Operator):
    """All elements of x in one dimension."""

    total = True
    view = True

    def infer(self, x: TensorStructInfo) -> TensorStructInfo:
        if x.ndim == 1:
            return x
        return tensor(None if x.dims is None else [product(x.dims)], x.dtype, 1)

    compute = topi.flatten
    reference = np.ravel


@operator("relax.expand_dims")
class ExpandDims(Operator):
    """x with new dimensions of size 1 at these places of the result."""

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


@operator("relax.squeeze")
class Squeeze(Operator):
    """x without these dimensions, which must have size 1; without axis, all that are known to have it."""

    view = True
    axis: tuple[int, ...] | None = None

    def infer(self, x: TensorStructInfo) -> TensorStructInfo:
        if x.ndim == -1:
            return tensor(None, x.dtype)
        if self.axis is None:
            kept = None if x.dims is None else [size for size in x.dims if not is_const(size, 1)]
            return tensor(kept, x.dtype, 0 if x.ndim == 0 else -1)
        dropped = normalize_axes(self.axis, x.ndim, "axis", "x")
        if x.dims is None:
            return tensor(None, x.dtype, x.ndim - len(dropped))
        for d in dropped:
            size = x.dims[d]
            found = {"x": f"dimension {d} is {prim_text(size)}"}
            require_same_dim(
                size,
                const(1, "int64"),
                OperatorError(SHAPES, f"dimension {d} of x must have size 1", remarks=found),
            )
        return tensor([size for d, size in enumerate(x.dims) if d not in dropped], x.dtype)

    compute = topi.squeeze

    def reference(self, x: Array) -> Array:
        return np.squeeze(x, self.axis)


@operator("relax.broadcast_to")
class BroadcastTo(Operator):
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
                size, full, place = x.dims[-d], shape.values[-d], len(x.dims) - d
                message = f"dimension {place} of x is {prim_text(size)}, which does not broadcast to {prim_text(full)}"
                hint = "a size must be 1 or stay as it is"
                require_stretch(size, full, OperatorError(SHAPES, message, operand="x", hint=hint))
        return shaped(call.args[1], shape, x.dtype)

    compute = topi.broadcast_to

    def reference(self, x: Array, shape: Sequence[int]) -> Array:
        return np.array(np.broadcast_to(x, tuple(shape)))


# -------------------------------------------------------------------------------------- joining, cutting


def tensor_fields(tensors: TupleStructInfo, operand: str) -> list[TensorStructInfo]:
    """The fields of a tuple of tensors; one of unknown kind as a tensor of which nothing is known."""
    fields: list[TensorStructInfo] = []
    for i, field in enumerate(tensors.fields):
        if isinstance(field, TensorStructInfo):
            fields.append(field)
        elif isinstance(field, ObjectStructInfo):
            fields.append(tensor(None, ""))
        else:
            raise OperatorError(OPERANDS, f"field {i} of {operand} must be a tensor", operand=operand)
    return fields


@operator("relax.concat")
class Concat(Operator):
    """The tensors of a tuple one after the other along an axis. They agree in all other dimensions.

    With an axis of None they must have one dimension.
    """

    total = True

    axis: int | None = 0
    kernel: ClassVar[str] = "concatenate"

    def infer(self, tensors: TupleStructInfo) -> TensorStructInfo:
        fields = tensor_fields(tensors, "tensors")
        if not fields:
            raise OperatorError(OPERANDS, "tensors must hold at least one tensor", operand="tensors")
        dtype = fields[0].dtype
        for i, field in enumerate(fields):
            dtype = same_dtype(dtype, field.dtype, ("tensors[0]", f"tensors[{i}]"))
        ranks = {field.ndim for field in fields if field.ndim != -1}
        if len(ranks) > 1:
            found = ", ".join("?" if f.ndim == -1 else str(f.ndim) for f in fields)
            raise OperatorError(SHAPES, f"tensors must have one number of dimensions, found {found}")
        if not ranks:
            return tensor(None, dtype)
        (ndim,) = ranks
        if self.axis is None and ndim != 1:
            message = f"tensors must have one dimension where axis is None, found {ndim}"
            raise OperatorError(SHAPES, message, hint="give an axis, or flatten them with R.flatten")
        axis = normalize_axis(self.axis or 0, ndim, "axis", "tensors")
        shapes = [field.dims for field in fields]
        dims = _joined([shape for shape in shapes if shape is not None], axis)
        return tensor(None if None in shapes else dims, dtype, ndim)

    def compute(self, tensors: Sequence[te.Tensor]) -> te.Tensor:
        return topi.concatenate(tensors, self.axis or 0)

    def reference(self, tensors: Sequence[Array]) -> Array:
        return np.concatenate(list(tensors), self.axis or 0)


def _joined(shapes: Sequence[Sequence[PrimExpr]], axis: int) -> list[PrimExpr]:
    """The shape of tensors joined along an axis. Raises OperatorError if they differ elsewhere."""
    if not shapes:
        return []
    dims = list(shapes[0])
    for i, shape in enumerate(shapes[1:], 1):
        for d, size in enumerate(shape):
            if d == axis:
                dims[d] = dims[d] + size
                continue
            message = (
                f"dimension {d} of tensors[{i}] is {prim_text(size)}, and of tensors[0] {prim_text(dims[d])}"
            )
            dims[d] = require_same_dim(dims[d], size, OperatorError(SHAPES, message, operand="tensors"))
    dims[axis] = simplify_dim(dims[axis])
    return dims


@operator("relax.stack")
class Stack(Operator):
    """The tensors of a tuple, of one shape, along a new axis."""

    total = True

    axis: int = 0

    def infer(self, tensors: TupleStructInfo) -> TensorStructInfo:
        fields = tensor_fields(tensors, "tensors")
        if not fields:
            raise OperatorError(OPERANDS, "tensors must hold at least one tensor", operand="tensors")
        expand = ExpandDims((self.axis,))
        return Concat(self.axis).infer(TupleStructInfo(tuple(expand.infer(field) for field in fields)))

    compute = topi.stack

    def reference(self, tensors: Sequence[Array]) -> Array:
        return np.stack(list(tensors), self.axis)


MAX_SECTIONS = 65_536


@operator("relax.split")
class Split(Operator):
    """x cut along an axis, as a tuple.

    A number of sections gives so many of size ⌈size / sections⌉, the last ones smaller or empty when it does not
    divide evenly. A list of indices cuts there: a negative one counts from the end, one beyond the end cuts there.
    """

    indices_or_sections: int | tuple[int, ...]
    axis: int = 0

    def infer(self, x: TensorStructInfo) -> TupleStructInfo:
        cut = self.indices_or_sections
        if isinstance(cut, int):
            self.require_attribute(cut > 0, "indices_or_sections", "a positive number, or a list of indices")
            # Each section is a field of the result's struct info: a number beyond all use would fill the memory.
            self.require_attribute(cut <= MAX_SECTIONS, "indices_or_sections", f"at most {MAX_SECTIONS}")
        axis = self.require_axis(self.axis, x, "x")
        count = cut if isinstance(cut, int) else len(cut) + 1
        if x.dims is None or axis is None:
            return TupleStructInfo((tensor(None, x.dtype, x.ndim),) * count)
        before, after = x.dims[:axis], x.dims[axis + 1 :]
        parts = section_slices(x.dims[axis], cut)
        return TupleStructInfo(tuple(tensor([*before, part.size, *after], x.dtype) for part in parts))

    compute = topi.split

    def reference(self, x: Array) -> tuple[Array, ...]:
        cut, size = self.indices_or_sections, x.shape[self.axis]
        if isinstance(cut, int):
            length = -(-size // cut)
            cut = tuple(min(length * k, size) for k in range(1, cut))
        return tuple(np.split(x, cut, self.axis))


@operator("relax.strided_slice")
class StridedSlice(Operator):
    """``x[begin:end:stride]`` along each of the axes; the other dimensions whole.

    As in NumPy, a negative bound counts from the end and one out of range is cut off; a negative stride goes backwards.
    `assume_inbound` promises that the bounds lie within x.
    """

    assume_inbound: bool = False

    def infer(
        self,
        x: TensorStructInfo,
        axes: TupleStructInfo,
        begin: TupleStructInfo,
        end: TupleStructInfo,
        strides: TupleStructInfo | None = None,
    ) -> TensorStructInfo:
        chosen = [_constant(value, "axes") for value in _scalars(axes, "axes")]
        steps = [1] * len(chosen)
        if strides is not None:
            steps = [_constant(value, "strides") for value in _scalars(strides, "strides")]
        begins, ends = _scalars(begin, "begin"), _scalars(end, "end")
        for name, given in (("begin", begins), ("end", ends), ("strides", steps)):
            if len(given) != len(chosen):
                raise OperatorError(
                    OPERANDS,
                    f"{name} must have one number per axis: {len(chosen)}, found {len(given)}",
                    operand=name,
                )
        if 0 in steps:
            raise OperatorError(OPERANDS, "a stride must not be 0", operand="strides")
        if x.ndim == -1:
            return tensor(None, x.dtype)
        where = normalize_axes(chosen, x.ndim, "axes", "x")
        if x.dims is None or None in begins or None in ends:
            return tensor(None, x.dtype, x.ndim)
        dims = list(x.dims)
        for axis, b, e, step in zip(where, begins, ends, steps, strict=True):
            dims[axis] = slice_of(dims[axis], b, e, step, self.assume_inbound).size
        return tensor(dims, x.dtype)

    def compute(self, x: Any, axes: Any, begin: Any, end: Any, strides: Any = None) -> Any:
        steps = None if strides is None else [int(step) for step in strides]
        return topi.strided_slice(x, begin, end, steps, [int(axis) for axis in axes], self.assume_inbound)

    def reference(
        self,
        x: Array,
        axes: Sequence[int],
        begin: Sequence[int],
        end: Sequence[int],
        strides: Sequence[int] | None = None,
    ) -> Array:
        index = [slice(None)] * x.ndim
        for axis, b, e, step in zip(axes, begin, end, strides or [1] * len(axes), strict=True):
            index[axis] = slice(b, e, step)
        return np.ascontiguousarray(x[tuple(index)]) if x.ndim else x


def _scalars(values: TupleStructInfo, operand: str) -> list[PrimExpr | None]:
    """The integers of a tuple, None for one not known. Raises OperatorError if it holds anything else."""
    result: list[PrimExpr | None] = []
    for field in values.fields:
        if isinstance(field, PrimStructInfo) and not field.dtype.is_float:
            result.append(field.value)
        elif isinstance(field, ObjectStructInfo):
            result.append(None)
        else:
            raise OperatorError(OPERANDS, f"{operand} must be a tuple of integers", operand=operand)
    return result


def _constant(value: PrimExpr | None, operand: str) -> int:
    if isinstance(value, IntImm):
        return value.value
    raise OperatorError(OPERANDS, f"{operand} must be constants", operand=operand)


# --------------------------------------------------------------------------------- repeating, reversing


@operator("relax.flip")
class Flip(Operator):
    """x with the order of elements reversed along these axes."""

    total = True

    axis: tuple[int, ...]

    def infer(self, data: TensorStructInfo) -> TensorStructInfo:
        if data.ndim != -1:
            normalize_axes(self.axis, data.ndim, "axis", "data")
        return data

    compute = topi.flip

    def reference(self, data: Array) -> Array:
        return np.ascontiguousarray(np.flip(data, self.axis))


@operator("relax.repeat")
class Repeat(Operator):
    """Each element `repeats` times in a row, along an axis; without axis, of data flattened."""

    repeats: int
    axis: int | None = None

    def infer(self, data: TensorStructInfo) -> TensorStructInfo:
        self.require_attribute(self.repeats >= 0, "repeats", "0 or more")
        if self.axis is None:
            size = None if data.dims is None else [simplify_dim(product(data.dims) * self.repeats)]
            return tensor(size, data.dtype, 1)
        axis = self.require_axis(self.axis, data)
        if data.dims is None or axis is None:
            return tensor(None, data.dtype, data.ndim)
        dims = list(data.dims)
        dims[axis] = simplify_dim(dims[axis] * self.repeats)
        return tensor(dims, data.dtype)

    compute = topi.repeat

    def reference(self, data: Array) -> Array:
        return np.repeat(data, self.repeats, self.axis)


@operator("relax.tile")
class Tile(Operator):
    """data side by side, repeats[d] times along dimension d; missing dimensions are new, missing counts 1."""

    total = True

    repeats: tuple[int, ...]

    def infer(self, data: TensorStructInfo) -> TensorStructInfo:
        self.require_attribute(min(self.repeats, default=0) >= 0, "repeats", "numbers of 0 or more")
        if data.ndim == -1:
            return tensor(None, data.dtype)
        ndim = max(data.ndim, len(self.repeats))
        if data.dims is None:
            return tensor(None, data.dtype, ndim)
        one = const(1, "int64")
        sizes = [*[one] * (ndim - data.ndim), *data.dims]
        counts = [*[1] * (ndim - len(self.repeats)), *self.repeats]
        dims = [simplify_dim(size * count) for size, count in zip(sizes, counts, strict=True)]
        return tensor(dims, data.dtype)

    def compute(self, data: Any) -> Any:
        return topi.tile(data, self.repeats)

    def reference(self, data: Array) -> Array:
        return np.tile(data, self.repeats)
