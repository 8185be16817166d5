"""Operators whose shape is an operand: ``dyn.*``.

    dyn.reshape(%x, %shape)        the elements of %x in the shape that the values of the vector %shape are

Each is the dynamic form of an operator with a shape attribute. A size vector has a static length, which is the rank of
the result; the result's dimensions are `Any`. `DynamicToStatic` replaces a call with a constant vector by the static
operator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from ... import op
from ...expr import Constant, ShapeExpr, TupleGetItem
from ...expr import Tuple as RelaxTuple
from ...ir import Op, RelaxExpr
from ...prim import IntImm
from ...runtime.records import dataclass
from ..operators import AttrField, operator_spec
from .declare import Meaning, Results, attr, axis_of, declare, dims, dtype, optional_dtype, rank
from .image import resize_attrs, resized
from .nn import UPSAMPLED_BY, upsampled
from .transform import dense_from_sparse, one_hot_of

STATIC: Final = "relay.static"
"""Op attribute key of a ``dyn`` operator's static form."""

_FAR: Final = 2**62
"""Upper bound beyond every dimension."""


@dataclass(frozen=True, slots=True)
class StaticForm:
    """Operator that replaces a ``dyn`` operator with constant operands.

    `attrs` maps the static operator's attributes to the operand positions they replace. Other operands, and attributes
    of equal names, are unchanged.
    """

    name: str
    attrs: Mapping[str, int]


def static_form(operator: Op) -> StaticForm | None:
    """Return the static form of a ``dyn`` operator, or None."""
    return operator.get_attr(STATIC)


def dynamic_form(operator: Op) -> Op | None:
    """Return the ``dyn`` operator whose static form is `op`, or None."""
    name = f"dyn.{operator.name}"
    return Op.get(name) if Op.exists(name) else None


def plain_attr(static: Op, name: str, data: Any) -> Any:
    """Convert a constant operand to the attribute of the static form."""
    spec = operator_spec(static)
    field = None if spec is None else spec.field(name)
    assert field is not None
    return data.item() if field.type in ("int", "float") and data.size == 1 else data.tolist()


def _dynamic(
    static: str,
    operands: str,
    attrs: Mapping[str, int],
    *fields: AttrField,
    means: Meaning,
    results: Results | None = None,
) -> None:
    """Declare the dynamic form of the operator `static`; see `StaticForm` for `attrs`."""
    count = len(operands.split())
    operator = declare(f"dyn.{static}", count, *fields, means=means, operands=operands, results=results)
    operator.set_attr(STATIC, StaticForm(static, attrs))


# -- sizes as vectors of int64


def _ints(values: Sequence[int]) -> RelaxExpr:
    return Constant(np.array(values, "int64"))


def _number(value: int) -> RelaxExpr:
    return Constant(np.array(value, "int64"))


def _length(vector: RelaxExpr, name: str) -> int:
    """Static length of a vector operand; raises ValueError if unknown."""
    shape = dims(vector)
    if len(shape) != 1 or not isinstance(shape[0], IntImm):
        raise ValueError(f"{name} must be a vector of a known number of elements")
    return shape[0].value


def _vector(operand: RelaxExpr, name: str) -> RelaxExpr:
    """Check that an operand is an integer vector."""
    _length(operand, name)
    return _whole(operand, name)


def _single(operand: RelaxExpr, name: str) -> RelaxExpr:
    """Convert an integer operand, a scalar or one-element vector, to a vector."""
    if rank(operand) != 0 and _length(operand, name) != 1:
        raise ValueError(f"{name} must be a scalar, or a vector of one element")
    return op.reshape(_whole(operand, name), [1])


def _whole(operand: RelaxExpr, name: str) -> RelaxExpr:
    if "int" not in dtype(operand):
        raise ValueError(f"{name} must be integers, found {dtype(operand)}")
    return op.astype(operand, "int64")


def _sizes(x: RelaxExpr) -> RelaxExpr:
    """Shape of an operand as a vector."""
    return op.shape_to_tensor(ShapeExpr(dims(x)))


def _shape(vector: RelaxExpr) -> RelaxExpr:
    """Shape from a vector of sizes; evaluation fails if one is negative."""
    return op.tensor_to_shape(vector)


def _counted(count: RelaxExpr) -> RelaxExpr:
    """Vector 0, 1, 2, … of the length given by a one-element vector."""
    return op.subtract(op.cumsum(op.ones(_shape(count), "int64"), 0), _number(1))


def _checked(valid: RelaxExpr, sizes: RelaxExpr) -> RelaxExpr:
    """Shape from a vector of sizes; evaluation fails if `valid` is false."""
    return _shape(op.where(valid, sizes, _number(-1)))


def _every(conditions: RelaxExpr) -> RelaxExpr:
    return op.astype(op.min(op.astype(conditions, "int64")), "bool")


# -- shapes


def _reshape(a: Any, x: RelaxExpr, newshape: RelaxExpr) -> RelaxExpr:
    """Codes 0 and -1 mean the same as in `reshape`; others would change the rank."""
    count = _length(newshape, "newshape")
    sizes = _vector(newshape, "newshape")
    own = _sizes(x)
    if not a.allowzero and count:
        behind = max(0, count - rank(x))  # a 0 at these positions copies no dimension: an error
        copies = op.strided_slice(op.concat([own, _ints([-1] * behind)], 0), [0], [0], [count])
        left_over = op.equal(sizes, _number(-1))
        sizes = op.where(op.equal(sizes, _number(0)), copies, sizes)
    else:
        left_over = op.equal(sizes, _number(-1))
    product = op.prod(op.where(left_over, _number(1), sizes))
    once = op.less_equal(op.sum(op.astype(left_over, "int64")), _number(1))
    rest = op.floor_divide(op.prod(own), op.maximum(product, _number(1)))
    rest = op.where(op.logical_and(once, op.greater(product, _number(0))), rest, _number(-1))
    return op.reshape(x, _shape(op.where(left_over, rest, sizes)))


_dynamic(
    "reshape", "data newshape", {"newshape": 1}, attr("allowzero", "bool", False),
    means=_reshape,
)  # fmt: skip
_dynamic(
    "broadcast_to", "data shape", {"shape": 1},
    means=lambda a, x, shape: op.broadcast_to(x, _shape(_vector(shape, "shape"))),
)  # fmt: skip
_dynamic(
    "tile", "data reps", {"reps": 1},
    means=lambda a, x, reps: op.tile(x, _shape(_vector(reps, "reps"))),
)  # fmt: skip


def _squeeze(a: Any, x: RelaxExpr, axis: RelaxExpr) -> RelaxExpr:
    """Sort the dimensions with the removed ones last; these must be 1 and distinct."""
    del a
    count, kept = rank(x), rank(x) - _length(axis, "axis")
    if kept < 0:
        raise ValueError(f"axis names {count - kept} of {count} dimensions")
    if kept == count:
        return x
    axes = _vector(axis, "axis")
    inside = op.logical_and(op.greater_equal(axes, _number(-count)), op.less(axes, _number(count)))
    wrapped = op.where(op.less(axes, _number(0)), op.add(axes, _number(count)), axes)
    positions = _ints(range(count))
    chosen = op.equal(op.expand_dims(positions, 1), op.expand_dims(wrapped, 0))
    removed = op.max(op.astype(chosen, "int64"), 1)
    order = op.argsort(op.add(op.multiply(removed, _number(count)), positions), 0, False, "int64")
    sizes = op.take(_sizes(x), order, 0)
    ones = _every(op.equal(op.strided_slice(sizes, [0], [kept], [count]), _number(1)))
    different = op.equal(op.sum(removed), _number(count - kept))
    valid = op.logical_and(op.logical_and(ones, different), _every(inside))
    if kept:
        return op.reshape(x, _checked(valid, op.strided_slice(sizes, [0], [0], [kept])))
    # The result has no dimensions to encode the check in: broadcast a scalar instead.
    return op.reshape(op.broadcast_to(x, _checked(valid, _ints([1] * count))), [])


_dynamic("squeeze", "data axis", {"axis": 1}, means=_squeeze)


def _expand_dims(a: Any, x: RelaxExpr, axis: RelaxExpr) -> RelaxExpr:
    """Insert `num_newaxis` dimensions of size 1 into `x` at an axis that is known at run time only."""
    count, more = rank(x), a.num_newaxis
    given = _single(axis, "axis")
    first = op.where(op.less(given, _number(0)), op.add(given, _number(count + 1)), given)
    positions, own, ones = _ints(range(count + more)), _sizes(x), _ints([1] * more)
    before, behind = op.concat([own, ones], 0), op.concat([ones, own], 0)
    is_new = op.less(positions, op.add(first, _number(more)))
    sizes = op.where(op.less(positions, first), before, op.where(is_new, _number(1), behind))
    valid = op.logical_and(op.greater_equal(first, _number(0)), op.less_equal(first, _number(count)))
    return op.reshape(x, _checked(valid, sizes))


_dynamic(
    "expand_dims", "data axis", {"axis": 1}, attr("num_newaxis", "int", 1),
    means=_expand_dims,
)  # fmt: skip

# -- choosing


def _strided_slice(a: Any, x: RelaxExpr, begin: RelaxExpr, end: RelaxExpr, strides: RelaxExpr) -> RelaxExpr:
    named = _length(begin, "begin")
    axes = list(range(named)) if a.axes is None else [axis_of(axis, x) for axis in a.axes]
    if len(axes) != named or named > rank(x):
        raise ValueError(f"begin has {named} elements for {len(axes)} of {rank(x)} dimensions")

    def for_all(bounds: RelaxExpr, name: str, default: int) -> RelaxExpr:
        """Expand bounds per axis to all dimensions; a single bound applies to all axes."""
        count = _length(bounds, name)
        if count not in (1, named):
            raise ValueError(f"{name} has {count} elements, begin {named}")
        positions = [(axes.index(d) if count > 1 else 0) if d in axes else count for d in range(rank(x))]
        return op.take(op.concat([_vector(bounds, name), _ints([default])], 0), _ints(positions), 0)

    first, last, steps = for_all(begin, "begin", 0), for_all(end, "end", _FAR), for_all(strides, "strides", 1)
    if a.slice_mode == "size":
        last = op.where(op.less(last, _number(0)), _number(_FAR), op.add(first, last))
        steps = _ints([1] * rank(x))
    elif a.slice_mode != "end":
        raise ValueError(f'the slice_mode is "end" or "size", found {a.slice_mode!r}')
    return op.dynamic_strided_slice(x, first, last, steps)


_dynamic(
    "strided_slice", "data begin end strides", {"begin": 1, "end": 2, "strides": 3},
    attr("slice_mode", "str", "end"), attr("axes", "ints?", None),
    means=_strided_slice,
)  # fmt: skip


def _topk(a: Any, x: RelaxExpr, k: RelaxExpr) -> RelaxExpr:
    """Sort all elements and take the first k. k below 1 means all; k above their number is an error."""
    count = rank(x)
    axis = axis_of(a.axis, x)
    own, is_axis = _sizes(x), Constant(np.arange(count) == axis)
    given = _single(k, "k")
    most = op.strided_slice(own, [0], [axis], [axis + 1])
    sizes = op.where(is_axis, op.where(op.less(given, _number(1)), most, given), own)
    ranked = op.topk(x, -1, a.axis, a.ret_type, not a.is_ascend, str(a.dtype))
    zeros, ones = _ints([0] * count), _ints([1] * count)

    def first(values: RelaxExpr) -> RelaxExpr:
        return op.reshape(op.dynamic_strided_slice(values, zeros, sizes, ones), _shape(sizes))

    if a.ret_type != "both":
        return first(ranked)
    return RelaxTuple([first(TupleGetItem(ranked, i)) for i in range(2)])


_dynamic(
    "topk", "data k", {"k": 1},
    attr("axis", "int", -1), attr("ret_type", "str", "both"), attr("is_ascend", "bool", False),
    attr("dtype", "dtype", "int32"),
    means=_topk, results=lambda a, _: 2 if a.ret_type == "both" else None,
)  # fmt: skip
_dynamic(
    "one_hot", "indices on_value off_value depth", {"depth": 3},
    attr("axis", "int", -1), attr("dtype", "dtype", "float32"),
    means=lambda a, indices, on, off, depth: one_hot_of(
        a, indices, on, off, op.astype(_counted(_single(depth, "depth")), dtype(indices))
    ),
)  # fmt: skip

# -- making

_dynamic(
    "full", "fill_value shape", {"shape": 1}, attr("dtype", "dtype?", None),
    means=lambda a, value, shape: op.full(
        _shape(_vector(shape, "shape")), value, optional_dtype(a.dtype) or dtype(value)
    ),
)  # fmt: skip
for _name, _function in (("zeros", op.zeros), ("ones", op.ones)):
    _dynamic(
        _name, "shape", {"shape": 0}, attr("dtype", "dtype", "float32"),
        means=lambda a, shape, function=_function: function(_shape(_vector(shape, "shape")), str(a.dtype)),
    )  # fmt: skip
_dynamic(
    "sparse_to_dense", "sparse_indices output_shape sparse_values default_value", {"output_shape": 1},
    means=lambda a, indices, shape, values, default: dense_from_sparse(
        indices, values, op.full(_shape(_vector(shape, "output_shape")), default, dtype(default)),
        _length(shape, "output_shape"),
    ),
)  # fmt: skip

# -- images and their borders


def _pad(a: Any, x: RelaxExpr, pad_width: RelaxExpr, value: RelaxExpr) -> RelaxExpr:
    """Pad one dimension after another, with constants or the dimension's own elements."""
    count = rank(x)
    shape = dims(pad_width)
    if len(shape) != 2 or [getattr(size, "value", None) for size in shape] != [count, 2]:
        raise ValueError(f"pad_width must be of shape ({count}, 2)")
    if a.pad_mode not in ("constant", "edge", "reflect"):
        raise ValueError(f'the pad_mode is "constant", "edge" or "reflect", found {a.pad_mode!r}')
    widths = op.reshape(_whole(pad_width, "pad_width"), [2 * count])
    sizes, padded = _sizes(x), x
    for d in range(count):
        before, after = (op.strided_slice(widths, [0], [2 * d + i], [2 * d + i + 1]) for i in (0, 1))
        here = Constant(np.arange(count) == d)
        if a.pad_mode == "constant":
            sides = [op.full(_shape(op.where(here, w, sizes)), value, dtype(x)) for w in (before, after)]
            padded = op.concat([sides[0], padded, sides[1]], d)
        else:
            size = op.strided_slice(_sizes(x), [0], [d], [d + 1])
            padded = op.take(padded, _border(a.pad_mode, before, size, after), d)
        sizes = op.where(here, op.add(sizes, op.add(before, after)), sizes)
    return padded


def _border(mode: str, before: RelaxExpr, size: RelaxExpr, after: RelaxExpr) -> RelaxExpr:
    """Indices of the source elements along a padded dimension."""
    ones = [op.ones(_shape(count), "int64") for count in (before, size, after)]
    positions = op.subtract(op.subtract(op.cumsum(op.concat(ones, 0), 0), _number(1)), before)
    last = op.subtract(size, _number(1))
    if mode == "edge":
        return op.minimum(op.maximum(positions, _number(0)), last)
    period = op.maximum(op.multiply(last, _number(2)), _number(1))
    turned = op.floor_mod(positions, period)
    return op.minimum(turned, op.subtract(period, turned))


_dynamic(
    "nn.pad", "data pad_width pad_value", {"pad_width": 1}, attr("pad_mode", "str", "constant"),
    means=_pad,
)  # fmt: skip


def _scaled(x: RelaxExpr, layout: str, letters: str, scales: Sequence[RelaxExpr]) -> RelaxExpr:
    """Shape of the dimensions multiplied by scales and rounded."""
    for scale in scales:
        if rank(scale) != 0 and _length(scale, "the scale") != 1:
            raise ValueError("the scales must be scalars")
    sizes = dict(zip(layout, dims(x), strict=True))
    own = op.shape_to_tensor(ShapeExpr([sizes[letter] for letter in letters]))
    factors = op.concat([op.reshape(op.astype(scale, "float64"), [1]) for scale in scales], 0)
    half = Constant(np.array(0.5))
    return _shape(op.astype(op.floor(op.add(op.multiply(op.astype(own, "float64"), factors), half)), "int64"))


def _upsampling(letters: str) -> None:
    def means(a: Any, x: RelaxExpr, *scales: RelaxExpr) -> RelaxExpr:
        return upsampled(a, x, letters, _scaled(x, a.layout, letters, scales))

    names = [f"scale_{letter.lower()}" for letter in letters]
    _dynamic(
        "nn.upsampling" if letters == "HW" else "nn.upsampling3d", " ".join(["data", *names]),
        {name: i for i, name in enumerate(names, 1)}, *UPSAMPLED_BY[letters],
        means=means,
    )  # fmt: skip


for _letters in UPSAMPLED_BY:
    _upsampling(_letters)


def _resize2d(a: Any, x: RelaxExpr, size: RelaxExpr, roi: RelaxExpr) -> RelaxExpr:
    if _length(size, "size") != 2:
        raise ValueError("size must have 2 elements")
    return resized(a, x, "HW", _shape(_vector(size, "size")), op.astype(roi, "float32"))


_dynamic(
    "image.resize2d", "data size roi", {"size": 1, "roi": 2}, *resize_attrs("NCHW"),
    means=_resize2d,
)  # fmt: skip
