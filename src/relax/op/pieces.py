"""Operators that join tensors, cut them, and reverse or repeat their elements."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from .. import te, topi
from ..expr import Call, PrimValue, ShapeExpr, Tuple, TupleGetItem
from ..info.dims import simplify_dim
from ..info.text import prim_text
from ..ir import DataType, RelaxExpr, StructInfo
from ..prim import IntImm, PrimExpr, const, prove
from ..struct_info import ObjectStructInfo, PrimStructInfo, ShapeStructInfo, TensorStructInfo, TupleStructInfo
from ..topi.slicing import section_slices, slice_of
from .base import Gradients, Term
from .dims import check_later, normalize_axes, normalize_axis, require_same_dim, same_dtype, tensor
from .errors import DTYPES, OPERANDS, SHAPES, OperatorError
from .facts import (
    Axes,
    Order,
    Permuted,
    fits,
    has_rank,
    have_rank,
    moved_axis,
    part_of,
    rank_of,
    scalars_of,
    tuple_of,
    with_new,
)
from .gradients import apply, dims_of, is_float, reshaped, tensor_info
from .known import known_struct_info
from .operator import Array, operator
from .shapes import ExpandDims, Move, Squeeze, product

# -------------------------------------------------------------------------------------- joining, cutting


def tensor_fields(tensors: TupleStructInfo, operand: str) -> list[TensorStructInfo]:
    """Fields of a tuple of tensors; a field of unknown kind counts as an unknown tensor."""
    fields: list[TensorStructInfo] = []
    for i, field in enumerate(tensors.fields):
        if isinstance(field, TensorStructInfo):
            fields.append(field)
        elif isinstance(field, ObjectStructInfo):
            fields.append(tensor(None, ""))
        else:
            raise OperatorError(OPERANDS, f"field {i} of {operand} must be a tensor", operand=operand)
    return fields


def count_of(info: PrimStructInfo | ObjectStructInfo, operand: str) -> PrimExpr | None:
    """Element count from a scalar, None if its value is unknown. Raises OperatorError for a negative one."""
    dtype = DataType(info.dtype) if isinstance(info, PrimStructInfo) else DataType("")
    if not (dtype.is_void or dtype.is_integer):
        raise OperatorError(DTYPES, f"{operand} must be an integer, found {dtype!s}", operand=operand)
    value = info.value if isinstance(info, PrimStructInfo) else None
    if value is None:
        return None
    if isinstance(value, IntImm) and value.value < 0:
        raise OperatorError(OPERANDS, f"{operand} must be 0 or more, found {value.value}", operand=operand)
    if not isinstance(value, IntImm) and not prove(value >= 0):
        check_later(value >= 0, f"{operand} must be 0 or more")
    return value.astype("int64")


@operator("relax.concat")
class Concat(Move):
    """Concatenation of the tensors of a tuple along an axis. They agree in all other dimensions.

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
            actual = ", ".join("?" if f.ndim == -1 else str(f.ndim) for f in fields)
            raise OperatorError(SHAPES, f"tensors must have one number of dimensions, found {actual}")
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

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        info = known_struct_info(operands[0])
        fields = tensor_fields(info, "tensors") if isinstance(info, TupleStructInfo) else []
        if not fields or any(field.dims is None for field in fields):
            return None
        axis = (self.axis or 0) % fields[0].ndim
        sizes = [field.dims[axis] for field in fields if field.dims]
        constants = [size.value for size in sizes if isinstance(size, IntImm)]
        if len(constants) == len(sizes):
            sections = Split(tuple(itertools.accumulate(constants[:-1])), axis).call(grad)
            return (Tuple([TupleGetItem(sections, i) for i in range(len(sizes))]),)
        begin: PrimExpr = IntImm("int64", 0)
        pieces: list[RelaxExpr] = []
        for size in sizes:
            end = begin + size
            pieces.append(apply("strided_slice", grad, [axis], [begin], [end], assume_inbound=True))
            begin = end
        return (Tuple(pieces),)

    def permuted(self, axes: Axes, infos: Sequence[StructInfo]) -> Permuted | None:
        if not have_rank(infos, axes) or not axes:
            return None
        return Permuted(Concat(moved_axis(self.axis or 0, axes)), (axes,), (axes,))

    def blocked(self, order: Order, infos: Sequence[StructInfo]) -> Permuted | None:
        tensors = infos[0].fields if isinstance(infos[0], TupleStructInfo) else ()
        if not have_rank(infos, order) or not all(fits(field, order) for field in tensors):
            return None
        return Permuted(Concat(moved_axis(self.axis or 0, order)), (order,), (order,))


def _joined(shapes: Sequence[Sequence[PrimExpr]], axis: int) -> list[PrimExpr]:
    """Shape of tensors joined along an axis. Raises OperatorError if they differ in another dimension."""
    if not shapes:
        return []
    dims = list(shapes[0])
    for i, shape in enumerate(shapes[1:], 1):
        for d, size in enumerate(shape):
            if d == axis:
                dims[d] = dims[d] + size
                continue
            dims[d] = require_same_dim(dims[d], size, partial(_pieces_differ, i, d, size, dims[d]))
    dims[axis] = simplify_dim(dims[axis])
    return dims


def _pieces_differ(i: int, d: int, size: PrimExpr, first: PrimExpr) -> OperatorError:
    message = f"dimension {d} of tensors[{i}] is {prim_text(size)}, and of tensors[0] {prim_text(first)}"
    return OperatorError(SHAPES, message, operand="tensors")


@operator("relax.stack")
class Stack(Move):
    """Tensors of a tuple, of one shape, stacked along a new axis."""

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

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        info = known_struct_info(operands[0])
        if not isinstance(info, TupleStructInfo):
            return None
        sections = Split(len(info.fields), self.axis).call(grad)
        squeeze = Squeeze((self.axis,))
        return (Tuple([squeeze.call(TupleGetItem(sections, i)) for i in range(len(info.fields))]),)

    def permuted(self, axes: Axes, infos: Sequence[StructInfo]) -> Permuted | None:
        if not have_rank(infos, axes):
            return None
        return Permuted(self, (axes,), (with_new(axes, [self.axis % (len(axes) + 1)]),))


MAX_SECTIONS = 65_536


@operator("relax.split")
class Split(Move):
    """x cut along an axis, as a tuple.

    A number of sections yields `sections` parts of size ⌈size / sections⌉, the last ones smaller or empty if it does
    not divide evenly. A list of indices cuts there: a negative one counts from the end, one beyond the end cuts there.
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
        sections = section_slices(x.dims[axis], cut)
        return TupleStructInfo(tuple(tensor([*before, section.size, *after], x.dtype) for section in sections))

    def for_all_sizes(self, call: Call) -> RelaxExpr:
        """Each part is a slice."""
        x = call.args[0]
        dims = dims_of(x)
        if dims is None:
            return call
        axis = normalize_axis(self.axis, len(dims), "axis", "x")
        sections = section_slices(dims[axis], self.indices_or_sections)
        return Tuple([
            apply("strided_slice", x, [axis], [section.begin], [section.begin + section.size], assume_inbound=True)
            for section in sections
        ])  # fmt: skip

    compute = topi.split

    def reference(self, x: Array) -> tuple[Array, ...]:
        cut, size = self.indices_or_sections, x.shape[self.axis]
        if isinstance(cut, int):
            length = -(-size // cut)
            cut = tuple(min(length * k, size) for k in range(1, cut))
        return tuple(np.split(x, cut, self.axis))

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        return (Concat(self.axis).call(grad),)

    def permuted(self, axes: Axes, infos: Sequence[StructInfo]) -> Permuted | None:
        if not has_rank(infos, axes):
            return None
        cut = self.indices_or_sections
        count = cut if isinstance(cut, int) else len(cut) + 1
        return Permuted(Split(cut, moved_axis(self.axis, axes)), (axes,), (axes,) * count)

    def blocked(self, order: Order, infos: Sequence[StructInfo]) -> Permuted | None:
        x = infos[0]
        if not isinstance(x, TensorStructInfo) or not has_rank(infos, order):
            return None
        pieces = self.infer(x).fields
        if not all(fits(info, order) for info in (x, *pieces)):
            return None
        cut, factor = self.indices_or_sections, part_of(order, self.axis % rank_of(order))
        if not isinstance(cut, int):
            if any(index % factor for index in cut):
                return None
            cut = tuple(index // factor for index in cut)
        return Permuted(Split(cut, moved_axis(self.axis, order)), (order,), (order,) * len(pieces))


@operator("relax.strided_slice")
class StridedSlice(Move):
    """``x[begin:end:stride]`` along each of the axes; the other dimensions whole.

    As in NumPy, a negative bound counts from the end and one out of range is cut off; a negative stride goes backwards.
    Strides are constants, or symbolic sizes; one that is 0 is an error. `assume_inbound` promises that the bounds lie
    within x.
    """

    size_operands = (2, 3)

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
        steps: list[int | PrimExpr] = [1] * len(chosen)
        if strides is not None:
            steps = [_stride(value) for value in _scalars(strides, "strides")]
        begins, ends = _scalars(begin, "begin"), _scalars(end, "end")
        for name, given in (("begin", begins), ("end", ends), ("strides", steps)):
            if len(given) != len(chosen):
                raise OperatorError(
                    OPERANDS, f"{name} must have one number per axis: {len(chosen)}, found {len(given)}", operand=name
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
        steps = None if strides is None else [_stride(step) for step in strides]
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

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        """Gradient with respect to data: zeros with `grad` scattered into the slice, axis by axis; for strides of at
        least 1.
        """
        x, *bounds = operands
        if not is_float(x):
            return (None,) * len(operands)
        dims, sizes = dims_of(x), dims_of(result)
        values = [scalars_of(known_struct_info(bound) or ObjectStructInfo()) for bound in bounds]
        present = [value for value in values if value is not None]
        if dims is None or sizes is None or len(present) < len(values):
            return None
        axes, begins, ends, *strides = present
        steps = strides[0] if strides else [IntImm("int64", 1)] * len(axes)
        if not all(isinstance(step, IntImm) and step.value > 0 for step in steps):
            return None
        dtype, shape = tensor_info(x).dtype, list(sizes)
        for axis, b, e, step in zip(axes, begins, ends, steps, strict=True):
            d = _constant(axis, "axes") % len(dims)
            shape[d] = dims[d]
            zeros = apply("zeros", ShapeExpr(tuple(shape)), dtype=dtype)
            grad = apply("slice_scatter", zeros, grad, *map(PrimValue, (b, e, step)), axis=d)
        return (grad, *[None] * len(bounds))

    def permuted(self, axes: Axes, infos: Sequence[StructInfo]) -> Permuted | None:
        chosen = scalars_of(infos[1]) or []
        if not has_rank(infos, axes) or not all(isinstance(axis, IntImm) for axis in chosen):
            return None
        moved = tuple_of(moved_axis(_constant(axis, "axes"), axes) for axis in chosen)
        return Permuted(self, (axes, moved, *[None] * (len(infos) - 2)), (axes,))


def _scalars(values: TupleStructInfo, operand: str) -> list[PrimExpr | None]:
    """Integers of a tuple, None for each unknown one. Raises OperatorError if it holds anything else."""
    result: list[PrimExpr | None] = []
    for field in values.fields:
        if isinstance(field, PrimStructInfo) and not field.dtype.is_float:
            result.append(field.value)
        elif isinstance(field, ObjectStructInfo):
            result.append(None)
        else:
            raise OperatorError(OPERANDS, f"{operand} must be a tuple of integers", operand=operand)
    return result


def _stride(value: PrimExpr | None) -> int | PrimExpr:
    """A stride: a constant, or a dynamic size, which is checked at run time not to be 0."""
    if value is None or isinstance(value, IntImm) or not prove(value >= 0):
        return _constant(value, "strides")
    if not prove(value > 0):
        check_later(value > 0, "a stride must not be 0")
    return value


def _constant(value: PrimExpr | None, operand: str) -> int:
    if isinstance(value, IntImm):
        return value.value
    raise OperatorError(OPERANDS, f"{operand} must be constants", operand=operand)


@operator("relax.dynamic_strided_slice")
class DynamicStridedSlice(Move):
    """``x[begin:end:stride]`` along each dimension; the bounds are integer tensors with one element per dimension.

    Bounds have the meaning of strided_slice. The result's dimensions are known only at run time; match_cast names them.
    """

    packed: ClassVar[str | None] = "relax.run.dynamic_strided_slice"

    def infer(
        self, x: TensorStructInfo, begin: TensorStructInfo, end: TensorStructInfo, strides: TensorStructInfo
    ) -> TensorStructInfo:
        for name, bounds in (("begin", begin), ("end", end), ("strides", strides)):
            self.require_dtype(bounds, name, "int", "uint")
            if bounds.ndim not in (-1, 1):
                message = f"{name} must have one dimension, found {bounds.ndim}"
                raise OperatorError(SHAPES, message, operand=name)
            if x.ndim != -1 and bounds.dims is not None:
                count = prim_text(bounds.dims[0])
                message = f"{name} must have one element for each of {x.ndim} dimensions, found {count}"
                error = OperatorError(SHAPES, message, operand=name)
                require_same_dim(bounds.dims[0], const(x.ndim, "int64"), error)
        return tensor(None, x.dtype, x.ndim)

    def reference(self, x: Array, begin: Array, end: Array, strides: Array) -> Array:
        if not np.all(strides):
            raise ValueError("a stride must not be 0")
        bounds = zip(begin, end, strides, strict=True)
        return np.array(x[tuple(slice(int(b), int(e), int(s)) for b, e, s in bounds)])


# --------------------------------------------------------------------------------- repeating, reversing


@operator("relax.flip")
class Flip(Move):
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

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        return (Flip(self.axis).call(grad),)

    def permuted(self, axes: Axes, infos: Sequence[StructInfo]) -> Permuted | None:
        if not has_rank(infos, axes):
            return None
        return Permuted(Flip(tuple(moved_axis(a, axes) for a in self.axis)), (axes,), (axes,))


@operator("relax.repeat")
class Repeat(Move):
    """Each element `repeats` times in a row, along an axis; without axis, of data flattened."""

    axis: int | None = None

    def infer(self, data: TensorStructInfo, repeats: PrimStructInfo) -> TensorStructInfo:
        count = count_of(repeats, "repeats")
        if self.axis is None:
            if data.dims is None or count is None:
                return tensor(None, data.dtype, 1)
            return tensor([simplify_dim(product(data.dims) * count)], data.dtype)
        axis = self.require_axis(self.axis, data)
        if data.dims is None or axis is None or count is None:
            return tensor(None, data.dtype, data.ndim)
        dims = list(data.dims)
        dims[axis] = simplify_dim(dims[axis] * count)
        return tensor(dims, data.dtype)

    compute = topi.repeat

    def reference(self, data: Array, repeats: int) -> Array:
        return np.repeat(data, repeats, self.axis)

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        data, repeats = operands
        dims, info = dims_of(data), known_struct_info(repeats)
        if dims is None or not isinstance(info, PrimStructInfo) or info.value is None:
            return None
        count = info.value.astype("int64")
        axis = len(dims) - 1 if self.axis is None else self.axis % len(dims)
        shape = ShapeExpr((*dims[: axis + 1], count, *dims[axis + 1 :]))  # flattened, rows follow each other as well
        return (apply("sum", apply("reshape", grad, shape), axis=axis + 1), None)


@operator("relax.meshgrid")
class MeshGrid(Move):
    """Coordinate grids: vector i of a tuple varies along dimension i of a grid with one dimension per vector.

    The indexing "xy" exchanges the first two dimensions. A scalar is a vector of one element.
    """

    total = True

    indexing: Literal["ij", "xy"] = "ij"

    def infer(self, tensors: TupleStructInfo) -> TupleStructInfo:
        fields = tensor_fields(tensors, "tensors")
        if not fields:
            raise OperatorError(OPERANDS, "tensors must hold at least one tensor", operand="tensors")
        dims: list[PrimExpr] | None = []
        for i, field in enumerate(fields):
            if field.ndim > 1:
                message = f"tensors[{i}] must have one dimension, found {field.ndim}"
                raise OperatorError(SHAPES, message, operand="tensors")
            if field.dims is None:
                dims = None
            elif dims is not None:
                dims.append(field.dims[0] if field.dims else const(1, "int64"))
        if self.indexing == "xy" and dims is not None:
            dims[:2] = dims[:2][::-1]
        return TupleStructInfo(tuple(tensor(dims, field.dtype, len(fields)) for field in fields))

    compute = topi.meshgrid

    def reference(self, tensors: Sequence[Array]) -> tuple[Array, ...]:
        return tuple(np.ascontiguousarray(grid) for grid in np.meshgrid(*tensors, indexing=self.indexing))


@operator("relax.tile")
class Tile(Move):
    """data repeated repeats[d] times along dimension d; missing dimensions are new, missing counts are 1.

    The counts are a shape, static or dynamic.
    """

    def infer(self, data: TensorStructInfo, repeats: ShapeStructInfo) -> TensorStructInfo:
        counts = repeats.values
        for count in counts or ():
            if isinstance(count, IntImm) and count.value < 0:
                message = f"repeats must be numbers of 0 or more, found {count.value}"
                raise OperatorError(OPERANDS, message, operand="repeats")
        if -1 in (data.ndim, repeats.ndim):
            return tensor(None, data.dtype)
        ndim = max(data.ndim, repeats.ndim)
        if data.dims is None or counts is None:
            return tensor(None, data.dtype, ndim)
        one = const(1, "int64")
        sizes = [*[one] * (ndim - data.ndim), *data.dims]
        filled = [*[one] * (ndim - len(counts)), *counts]
        dims = [simplify_dim(size * count) for size, count in zip(sizes, filled, strict=True)]
        return tensor(dims, data.dtype)

    def compute(self, data: Any, repeats: Sequence[PrimExpr]) -> Any:
        return topi.tile(data, repeats)

    def reference(self, data: Array, repeats: Sequence[int]) -> Array:
        return np.tile(data, repeats)

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        data, repeats = operands
        dims, info = dims_of(data), known_struct_info(repeats)
        counts = info.values if isinstance(info, ShapeStructInfo) else None
        if dims is None or counts is None:
            return None
        ndim, one = max(len(dims), len(counts)), const(1, "int64")
        sizes = [*[one] * (ndim - len(dims)), *dims]
        filled = [*[one] * (ndim - len(counts)), *counts]
        shape = ShapeExpr(tuple(size for pair in zip(filled, sizes, strict=True) for size in pair))
        summed = apply("sum", apply("reshape", grad, shape), axis=list(range(0, 2 * ndim, 2)))
        return (reshaped(summed, data), None)
