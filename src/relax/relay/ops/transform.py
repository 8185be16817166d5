"""Operators that move, select and create elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from ... import op
from ...expr import ShapeExpr
from ...ir import RelaxExpr
from ...prim import PrimExpr, const
from ..expr import Tuple as RelayTuple
from ..expr import Var as RelayVar
from ..types import TupleType
from .declare import BROADCAST, ELEMWISE, FOLLOW, INJECTIVE, attr, declare, dims, dtype, number, optional_dtype, rank

Dim = Any


def new_shape(old: Sequence[PrimExpr], codes: Sequence[Any]) -> list[Dim]:
    """The shape that `reshape`'s codes describe: 0 copies a dimension, -1 is inferred, -2 copies all that are left,
    -3 multiplies two, -4 splits one into the next two numbers, of which one may be -1.

    Raises ValueError where the codes ask for more dimensions than there are.
    """
    result: list[Dim] = []
    axis = 0
    pending = list(codes)
    while pending:
        code = pending.pop(0)
        code = code.value if hasattr(code, "value") else code
        if code == -2:
            result += old[axis:]
            axis = len(old)
            continue
        needed = 2 if code == -3 else 1
        if code in (0, -3, -4) and axis + needed > len(old):
            raise ValueError(f"reshape: code {code} asks for dimension {axis + needed - 1} of {len(old)}")
        if code == 0:
            result.append(old[axis])
        elif code == -3:
            result.append(old[axis] * old[axis + 1])
        elif code == -4:
            if len(pending) < 2:
                raise ValueError("reshape: -4 is followed by two numbers")
            result += _split(old[axis], pending.pop(0), pending.pop(0))
        else:
            result.append(code)
        axis += needed
    return result


def _split(size: PrimExpr, first: Any, second: Any) -> list[Dim]:
    first = first.value if hasattr(first, "value") else first
    second = second.value if hasattr(second, "value") else second
    if first == -1 and second == -1:
        raise ValueError("reshape: one of the two numbers behind -4 is not -1")
    if first == -1:
        return [size // const(second, "int64"), second]
    return [first, size // const(first, "int64") if second == -1 else second]


def _shape(values: Sequence[Any]) -> ShapeExpr:
    return ShapeExpr(values)


declare(
    "reshape", 1, attr("newshape", "any"), attr("allowzero", "bool", False),
    pattern=INJECTIVE,
    mixed=FOLLOW, means=lambda a, x: op.reshape(
        x, list(a.newshape) if a.allowzero else new_shape(dims(x), _listed(a.newshape))
    ),
)  # fmt: skip


declare(
    "contrib_reverse_reshape", 1, attr("newshape", "ints"),
    pattern=INJECTIVE,
    means=lambda a, x: op.reshape(x, new_shape(dims(x)[::-1], a.newshape[::-1])[::-1]),
)  # fmt: skip


def _listed(value: Any) -> list[Any]:
    return list(cast("list[Any]", value)) if isinstance(value, (tuple, list)) else [value]


declare(
    "reshape_like", 2,
    pattern=INJECTIVE,
    means=lambda a, x, like: op.reshape(x, _shape(dims(like))), operands="data shape_like",
)  # fmt: skip
declare(
    "transpose",
    1,
    attr("axes", "ints?", None),
    pattern=INJECTIVE,
    mixed=FOLLOW,
    means=lambda a, x: op.permute_dims(x, list(a.axes) if a.axes else None),
)


def _expand(a: Any, x: RelaxExpr) -> RelaxExpr:
    first = a.axis + rank(x) + 1 if a.axis < 0 else a.axis
    return op.expand_dims(x, list(range(first, first + a.num_newaxis)))


declare(
    "expand_dims", 1, attr("axis", "int"), attr("num_newaxis", "int", 1), pattern=BROADCAST, mixed=FOLLOW, means=_expand
)
declare(
    "squeeze", 1, attr("axis", "int|ints?", None),
    pattern=INJECTIVE,
    mixed=FOLLOW, means=lambda a, x: op.squeeze(x, a.axis),
)  # fmt: skip
declare(
    "concatenate",
    1,
    attr("axis", "int", 0),
    pattern=INJECTIVE,
    mixed=FOLLOW,
    means=lambda a, tensors: op.concat(tensors, a.axis),
)
declare(
    "stack",
    1,
    attr("axis", "int", 0),
    pattern=INJECTIVE,
    mixed=FOLLOW,
    means=lambda a, tensors: op.stack(tensors, a.axis),
)
declare(
    "split", 1, attr("indices_or_sections", "int|ints"), attr("axis", "int", 0),
    pattern=INJECTIVE,
    mixed=FOLLOW, means=lambda a, x: op.split(
        x, a.indices_or_sections, a.axis
    ),
    results=lambda a, _: (
        a.indices_or_sections if isinstance(a.indices_or_sections, int) else len(a.indices_or_sections) + 1
    ),
)  # fmt: skip
declare("reverse", 1, attr("axis", "int"), pattern=INJECTIVE, mixed=FOLLOW, means=lambda a, x: op.flip(x, a.axis))
declare(
    "reverse_sequence", 2, attr("seq_axis", "int", 1), attr("batch_axis", "int", 0),
    means=lambda a, x, lengths: op.reverse_sequence(x, lengths, a.seq_axis, a.batch_axis), operands="data seq_lengths",
)  # fmt: skip
declare(
    "repeat",
    1,
    attr("repeats", "int"),
    attr("axis", "int?", None),
    pattern=INJECTIVE,
    mixed=FOLLOW,
    means=lambda a, x: op.repeat(x, a.repeats, a.axis),
)
declare("tile", 1, attr("reps", "ints"), pattern=INJECTIVE, mixed=FOLLOW, means=lambda a, x: op.tile(x, list(a.reps)))
declare(
    "broadcast_to",
    1,
    attr("shape", "any"),
    pattern=BROADCAST,
    mixed=FOLLOW,
    means=lambda a, x: op.broadcast_to(x, _listed(a.shape)),
)
declare(
    "broadcast_to_like", 2,
    pattern=BROADCAST,
    means=lambda a, x, like: op.broadcast_to(x, _shape(dims(like))), operands="data broadcast_type",
)  # fmt: skip
declare("collapse_sum_like", 2, means=lambda a, x, like: op.collapse_sum_like(x, like), operands="data collapse_type")
declare("collapse_sum_to", 1, attr("shape", "any"), means=lambda a, x: op.collapse_sum_to(x, _listed(a.shape)))

# -- choosing

_MODES = {"clip": "clip", "wrap": "wrap", "fast": "fast"}


def _take(a: Any, x: RelaxExpr, indices: RelaxExpr) -> RelaxExpr:
    if a.batch_dims:
        raise ValueError("take: batch_dims other than 0 has no counterpart in Relax")
    if a.mode not in _MODES:
        raise ValueError(f'take: the mode is "clip", "wrap" or "fast", found {a.mode!r}')
    if a.axis is None and rank(x) != 1:
        x = op.reshape(x, [-1])
    return op.take(x, indices, 0 if a.axis is None else a.axis, _MODES[a.mode])


declare(
    "take",
    2,
    attr("axis", "int?", None),
    attr("batch_dims", "int", 0),
    attr("mode", "str", "clip"),
    pattern=INJECTIVE,
    mixed=FOLLOW,
    means=_take,
    operands="data indices",
)


def _strided_slice(a: Any, x: RelaxExpr) -> RelaxExpr:
    axes = list(range(len(a.begin))) if a.axes is None else list(a.axes)
    strides = list(a.strides) or [1]
    strides = strides * len(axes) if len(strides) == 1 else strides
    begin = list(a.begin) if len(a.begin) > 1 or len(axes) == 1 else list(a.begin) * len(axes)
    end = list(a.end)
    if a.slice_mode == "size":  # `end` holds sizes; a negative one means up to the end
        sizes = dims(x)
        ends = zip(begin, end, axes, strict=True)
        end = [sizes[axis] if size < 0 else first + size for first, size, axis in ends]
    elif a.slice_mode != "end":
        raise ValueError(f'strided_slice: the slice_mode is "end" or "size", found {a.slice_mode!r}')
    return op.strided_slice(x, axes, begin, end, strides)


declare(
    "strided_slice", 1,
    attr("begin", "ints"), attr("end", "ints"), attr("strides", "ints", (1,)), attr("slice_mode", "str", "end"),
    attr("axes", "ints?", None),
    pattern=INJECTIVE,
    mixed=FOLLOW, means=_strided_slice,
)  # fmt: skip
declare(
    "gather", 2, attr("axis", "int"),
    pattern=INJECTIVE,
    means=lambda a, x, indices: op.gather_elements(x, indices, a.axis), operands="data indices",
)  # fmt: skip


def _gather_nd(a: Any, x: RelaxExpr, indices: RelaxExpr) -> RelaxExpr:
    # Coordinates run along the first dimension in Relay, along the last in Relax.
    order = [*range(1, rank(indices)), 0]
    return op.gather_nd(x, op.permute_dims(indices, order), a.batch_dims)


declare(
    "gather_nd", 2, attr("batch_dims", "int", 0), attr("index_rank", "int?", None),
    pattern=INJECTIVE,
    means=_gather_nd, operands="data indices",
)  # fmt: skip
declare(
    "scatter_elements", 3, attr("axis", "int", 0), attr("reduction", "str", "update"),
    means=lambda a, x, indices, updates: op.scatter_elements(x, indices, updates, a.axis, a.reduction),
    operands="data indices updates",
)  # fmt: skip


def _scatter_nd(a: Any, x: RelaxExpr, indices: RelaxExpr, updates: RelaxExpr) -> RelaxExpr:
    order = [*range(1, rank(indices)), 0]
    return op.scatter_nd(x, op.permute_dims(indices, order), updates, a.mode)


def dense_from_sparse(indices: RelaxExpr, values: RelaxExpr, whole: RelaxExpr, count: int) -> RelaxExpr:
    """Scatter values into a tensor of rank `count`; each row of `indices` is one position."""
    if rank(indices) not in ((2,) if count != 1 else (0, 1, 2)):
        raise ValueError(f"the indices must have 2 dimensions for {count} dimensions of the result")
    if rank(indices) == 2:
        positions, number = indices, dims(indices)[0]
    else:
        number = dims(indices)[0] if rank(indices) else const(1, "int64")
        positions = op.reshape(indices, _shape([number, const(1, "int64")]))
    updates = op.broadcast_to(values, _shape([number])) if rank(values) == 0 else values
    return op.scatter_nd(whole, op.astype(positions, "int64"), updates, "update")


declare(
    "sparse_to_dense", 3, attr("output_shape", "any"),
    means=lambda a, indices, values, default: dense_from_sparse(
        indices, values, op.full(_listed(a.output_shape), default, dtype(default)), len(_listed(a.output_shape))
    ),
    operands="sparse_indices sparse_values default_value",
)  # fmt: skip
declare("scatter_nd", 3, attr("mode", "str", "update"), means=_scatter_nd, operands="data indices updates")


def _one_hot(a: Any, indices: RelaxExpr, on: RelaxExpr, off: RelaxExpr) -> RelaxExpr:
    return one_hot_of(a, indices, on, off, op.arange(a.depth, dtype=dtype(indices)))


def one_hot_of(a: Any, indices: RelaxExpr, on: RelaxExpr, off: RelaxExpr, classes: RelaxExpr) -> RelaxExpr:
    """One-hot encoding: `on` at the class index, `off` elsewhere; the class dimension is at ``a.axis``."""
    axis = rank(indices) if a.axis == -1 else a.axis
    if axis < rank(indices):
        classes = op.expand_dims(classes, list(range(1, 1 + rank(indices) - axis)))
    chosen = op.equal(op.expand_dims(indices, axis), classes)
    return op.where(chosen, op.astype(on, str(a.dtype)), op.astype(off, str(a.dtype)))


declare(
    "one_hot",
    3,
    attr("depth", "int"),
    attr("axis", "int", -1),
    attr("dtype", "dtype", "float32"),
    pattern=INJECTIVE,
    means=_one_hot,
    operands="indices on_value off_value",
)
declare(
    "trilu", 2, attr("upper", "bool", True),
    means=lambda a, x, k: (op.triu if a.upper else op.tril)(x, int(number(k))), operands="data k", constants=True,
)  # fmt: skip


# -- making

declare(
    "full", 1, attr("shape", "any"), attr("dtype", "dtype?", None),
    pattern=ELEMWISE,
    means=lambda a, value: op.full(_listed(a.shape), value, optional_dtype(a.dtype) or dtype(value)),
    operands="fill_value",
)  # fmt: skip
declare("full_like", 2, pattern=ELEMWISE, means=lambda a, x, value: op.full_like(x, value), operands="data fill_value")
for _name, _function in (("zeros", op.zeros), ("ones", op.ones)):
    declare(
        _name, 0, attr("shape", "any"), attr("dtype", "dtype", "float32"),
        pattern=ELEMWISE,
        means=lambda a, function=_function: function(_listed(a.shape), str(a.dtype)),
    )  # fmt: skip
declare(
    "arange", 3, attr("dtype", "dtype", "float32"),
    pattern=INJECTIVE,
    means=lambda a, start, stop, step: op.arange(number(start), number(stop), number(step), str(a.dtype)),
    operands="start stop step", constants=True,
)  # fmt: skip


def _tuple_length(tensors: Any) -> int | None:
    """Number of fields of a Relay operand: of a tuple as written, or of a variable with a tuple type."""
    if isinstance(tensors, RelayTuple):
        return len(tensors)
    annotation = tensors.type_annotation if isinstance(tensors, RelayVar) else None
    return len(annotation.fields) if isinstance(annotation, TupleType) else None


declare(
    "meshgrid",
    1,
    attr("indexing", "str", "ij"),
    pattern=INJECTIVE,
    means=lambda a, tensors: op.meshgrid(tensors, indexing=a.indexing),
    results=lambda a, operands: _tuple_length(operands[0]),
)
declare(
    "shape_of", 1, attr("dtype", "dtype", "int32"),
    means=lambda a, x: op.astype(op.shape_to_tensor(op.shape_of(x)), str(a.dtype)),
)  # fmt: skip
declare(
    "layout_transform", 1, attr("src_layout", "str"), attr("dst_layout", "str"),
    pattern=INJECTIVE,
    mixed=FOLLOW, means=lambda a, x: _permuted(x, a.src_layout, a.dst_layout),
)  # fmt: skip


def _permuted(x: RelaxExpr, source: str, target: str) -> RelaxExpr:
    if sorted(source) != sorted(target) or not source.isalpha():
        raise ValueError(f"layout_transform: {target} is no permutation of {source}")
    return op.permute_dims(x, [source.index(letter) for letter in target])
