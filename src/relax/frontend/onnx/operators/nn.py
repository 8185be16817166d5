"""Neural networks: convolutions, pools, normalisations, padding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .... import op
from ....expr import ShapeExpr
from ....ir import DataType
from ....prim import IntImm, PrimExpr, const, intrin, simplify
from ..emitter import LARGEST, Emitter
from ..registry import converter, register
from ..values import Dims, Ints, Tensor, Value
from .activation import product

CONVOLUTIONS = {1: op.nn.conv1d, 2: op.nn.conv2d, 3: op.nn.conv3d}
_CONV_TRANSPOSE = {1: op.nn.conv1d_transpose, 2: op.nn.conv2d_transpose, 3: op.nn.conv3d_transpose}
_MAX_POOL = {1: op.nn.max_pool1d, 2: op.nn.max_pool2d, 3: op.nn.max_pool3d}
_MAX_POOL_INDICES = {
    1: op.nn.max_pool1d_with_indices,
    2: op.nn.max_pool2d_with_indices,
    3: op.nn.max_pool3d_with_indices,
}
_AVG_POOL = {1: op.nn.avg_pool1d, 2: op.nn.avg_pool2d, 3: op.nn.avg_pool3d}
_LP_POOL = {1: op.nn.lp_pool1d, 2: op.nn.lp_pool2d, 3: op.nn.lp_pool3d}


def _spatial(g: Emitter, x: Tensor, functions: dict[int, Any]) -> tuple[int, Any]:
    """The number of spatial dimensions of (N, C, ...) data, and the function for it."""
    count = g.ndim(x) - 2
    if count not in functions:
        g.unsupported(f"{count} spatial dimensions (1, 2 and 3 are)")
    return count, functions[count]


def _filled(g: Emitter, name: str, values: Ints, count: int, default: int = 1) -> Ints:
    """The numbers of an attribute, `count` of them; the default where it is left out.

    Pads may be negative, other numbers are at least the default.
    """
    least = -LARGEST if name == "pads" else default
    return g.within(g.fitting(values, count, name), name, least) if values else (default,) * count


def _kernel(g: Emitter, kernel_shape: Ints, count: int) -> Ints:
    """The sizes of a pool's window."""
    return g.within(g.fitting(kernel_shape, count, "kernel_shape"), "kernel_shape")


def _window_pads(
    g: Emitter, sizes: Dims, auto_pad: str, pads: Ints, window: Sequence[PrimExpr | int], strides: Ints, dilations: Ints
) -> tuple[PrimExpr | int, ...]:
    """The padding before, then after the data along each spatial dimension, as `auto_pad` says."""
    count = len(sizes)
    if auto_pad == "NOTSET":
        return _filled(g, "pads", pads, 2 * count, 0)
    if auto_pad == "VALID":
        return (0,) * (2 * count)
    if auto_pad not in ("SAME_UPPER", "SAME_LOWER"):
        raise g.error(f"auto_pad must be NOTSET, VALID, SAME_UPPER or SAME_LOWER, found {auto_pad!r}", code="E6003")
    before: list[PrimExpr] = []
    after: list[PrimExpr] = []
    g.fitting(window, count, "kernel_shape")
    for size, kernel, stride, dilation in zip(sizes, window, strides, dilations, strict=True):
        span = (kernel - 1) * dilation + 1
        windows = (size + (stride - 1)) // stride if stride != 1 else size
        total = simplify(intrin.max((windows - 1) * stride + span - size, const(0, "int64")))
        less = simplify(total // 2)
        more = simplify(total - less)
        before.append(less if auto_pad == "SAME_UPPER" else more)
        after.append(more if auto_pad == "SAME_UPPER" else less)
    return (*before, *after)


def _padded(x: Tensor, pads: Sequence[PrimExpr | int], value: float) -> tuple[Tensor, tuple[int, ...]]:
    """The data and the padding left for the operator: pads that are not numbers are added to the data first."""
    numbers = tuple(pad.value if isinstance(pad, IntImm) else pad for pad in pads)
    if all(isinstance(pad, int) for pad in numbers):
        return x, tuple(pad for pad in numbers if isinstance(pad, int))
    count = len(pads) // 2
    widths: list[Any] = [0, 0, 0, 0]
    for axis in range(count):
        widths += [numbers[axis], numbers[axis + count]]
    return op.nn.pad(x, widths, "constant", value), (0,) * len(pads)


def _with_bias(x: Tensor, bias: Tensor | None, spatial: int) -> Tensor:
    return x if bias is None else op.add(x, op.reshape(bias, [1, -1, *[1] * spatial]))


@converter("Conv")
def conv(
    g: Emitter,
    X: Tensor,
    W: Tensor,
    B: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Ints = (),
    group: int = 1,
    kernel_shape: Ints = (),
    pads: Ints = (),
    strides: Ints = (),
) -> Tensor:
    data, padding, attributes = conv_windows(
        g, X, W, auto_pad, dilations=dilations, kernel_shape=kernel_shape, pads=pads, strides=strides
    )
    count, function = _spatial(g, X, CONVOLUTIONS)
    return _with_bias(function(data, W, padding=padding, groups=group, **attributes), B, count)


def conv_windows(
    g: Emitter,
    X: Tensor,
    W: Tensor,
    auto_pad: str,
    *,
    dilations: Ints,
    kernel_shape: Ints,
    pads: Ints,
    strides: Ints,
    filling: int = 0,
) -> tuple[Tensor, tuple[int, ...], dict[str, Any]]:
    """The data of a convolution, the padding left for the operator, and its strides and dilation.

    Data whose padding is not 0 but `filling` are padded here.
    """
    count, _ = _spatial(g, X, CONVOLUTIONS)
    strides, dilations = _filled(g, "strides", strides, count), _filled(g, "dilations", dilations, count)
    window = _window(g, W, count, kernel_shape)
    around = _window_pads(g, g.dims(X)[2:], auto_pad, pads, window, strides, dilations)
    data, padding = _padded(X, around, float(filling))
    if filling and any(padding):
        widths = [width for d in range(count) for width in (padding[d], padding[d + count])]
        data, padding = op.nn.pad(X, [0, 0, 0, 0, *widths], "constant", filling), (0,) * len(padding)
    return data, padding, {"strides": strides, "dilation": dilations}


def _window(g: Emitter, W: Tensor, count: int, kernel_shape: Ints) -> Sequence[PrimExpr | int]:
    """The sizes of the kernels: numbers where the weights or `kernel_shape` tell them."""
    sizes = g.dims(W)[2:]
    numbers = tuple(size.value for size in sizes if isinstance(size, IntImm))
    if len(numbers) < count:
        return _kernel(g, kernel_shape, count) if kernel_shape else sizes
    if kernel_shape and tuple(kernel_shape) != numbers:
        message = f"kernel_shape is {list(kernel_shape)}, the weights have kernels of {list(numbers)}"
        raise g.error(message, code="E6003", hint="leave kernel_shape out, or give it the sizes of the weights")
    return numbers


@converter("ConvTranspose")
def conv_transpose(
    g: Emitter,
    X: Tensor,
    W: Tensor,
    B: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Ints = (),
    group: int = 1,
    kernel_shape: Ints = (),
    output_padding: Ints = (),
    output_shape: Ints = (),
    pads: Ints = (),
    strides: Ints = (),
) -> Tensor:
    count, function = _spatial(g, X, _CONV_TRANSPOSE)
    strides, dilations = _filled(g, "strides", strides, count), _filled(g, "dilations", dilations, count)
    extra = _filled(g, "output_padding", output_padding, count, 0)
    window = _window(g, W, count, kernel_shape)
    sizes = g.dims(X)[2:]
    crops: Sequence[PrimExpr | int] = _filled(g, "pads", pads, 2 * count, 0)
    if output_shape or auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        goals = [const(size, "int64") for size in g.within(output_shape[-count:], "output_shape")]
        goals = (
            g.fitting(goals, count, "output_shape")
            if goals
            else [size * stride for size, stride in zip(sizes, strides, strict=True)]
        )
        spans = [(kernel - 1) * dilation + 1 for kernel, dilation in zip(window, dilations, strict=True)]
        crops = _crops(sizes, goals, spans, strides, extra, auto_pad == "SAME_UPPER")
    known = [crop.value if isinstance(crop, IntImm) else crop for crop in crops]
    # The operator cuts off known numbers; what remains is added, or cut off where it is negative, afterwards.
    inside = [max(crop, 0) if isinstance(crop, int) else 0 for crop in known]
    result = function(
        X,
        W,
        strides=strides,
        padding=inside,
        output_padding=[min(more, stride - 1) for more, stride in zip(extra, strides, strict=True)],
        dilation=dilations,
        groups=group,
    )
    rest: list[PrimExpr | int] = [0, 0, 0, 0]
    for axis in range(count):
        late = extra[axis] - min(extra[axis], strides[axis] - 1)
        before, after = (inside[at] - known[at] for at in (axis, axis + count))
        rest += [before, after + late]
    if any(isinstance(width, PrimExpr) or width for width in rest):
        result = op.nn.pad(result, [simplify(width) if isinstance(width, PrimExpr) else width for width in rest])
    return _with_bias(result, B, count)


def _crops(
    sizes: Dims, goals: Sequence[PrimExpr], spans: Sequence[PrimExpr | int], strides: Ints, extra: Ints, upper: bool
) -> list[PrimExpr]:
    """The elements cut off before and after the result so that it has the sizes asked for; negative ones are added."""
    before: list[PrimExpr] = []
    after: list[PrimExpr] = []
    for axis, size in enumerate(sizes):
        total = simplify(strides[axis] * (size - 1) + extra[axis] + spans[axis] - goals[axis])
        half = simplify(total // 2)
        before.append(half if upper else simplify(total - half))
        after.append(simplify(total - half) if upper else half)
    return [*before, *after]


# ------------------------------------------------------------------------------------- pools


@converter("MaxPool")
def max_pool(
    g: Emitter,
    X: Tensor,
    *,
    kernel_shape: Ints,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Ints = (),
    pads: Ints = (),
    storage_order: int = 0,
    strides: Ints = (),
) -> Any:
    with_indices = len(g.outputs) > 1 and bool(g.outputs[1])
    count, function = _spatial(g, X, _MAX_POOL_INDICES if with_indices else _MAX_POOL)
    kernel_shape = _kernel(g, kernel_shape, count)
    strides, dilations = _filled(g, "strides", strides, count), _filled(g, "dilations", dilations, count)
    around = _window_pads(g, g.dims(X)[2:], auto_pad, pads, kernel_shape, strides, dilations)
    dtype = g.dtype(X)
    data, padding = _padded(X, around, float("-inf") if dtype.is_float else dtype.min_value)
    data = g.emit(data)
    pooled = function(
        data, pool_size=kernel_shape, strides=strides, padding=padding, dilation=dilations, ceil_mode=bool(ceil_mode)
    )
    if not with_indices:
        return pooled
    values, indices = g.parts(pooled)
    if data is X and not storage_order:
        return (values, indices)
    before = (0,) * count if data is X else around[:count]
    return (values, _relocated(g, indices, g.dims(data)[2:], before, dilations, g.dims(X)[2:], bool(storage_order)))


def _relocated(
    g: Emitter,
    indices: Tensor,
    padded: Dims,
    before: Sequence[PrimExpr | int],
    dilations: Ints,
    sizes: Dims,
    column_major: bool,
) -> Tensor:
    """Convert flat indices into padded (N, C, H, W) data to those into the data, of spatial dimensions `sizes`.

    If `column_major`, the spatial dimensions of the data are counted the other way round. A window of the padding value
    alone has its first maximum in the padding; the first element of the data in the window takes its place.
    """
    area = g.scalar(simplify(product(padded)))
    position = g.emit(op.floor_mod(indices, area))
    result = op.multiply(op.floor_divide(indices, area), g.scalar(simplify(product(sizes))))
    for axis, (pad, dilation) in enumerate(zip(before, dilations, strict=True)):
        inner = g.scalar(simplify(product(padded[axis + 1 :])))
        place = op.floor_divide(position, inner)
        position = g.emit(op.floor_mod(position, inner))
        if not (isinstance(pad, int) and pad == 0):
            place = g.emit(op.subtract(place, g.scalar(pad if isinstance(pad, PrimExpr) else const(pad, "int64"))))
            first = op.floor_mod(place, g.const(dilation, "int64"))
            place = op.where(op.less(place, g.const(0, "int64")), first, place)
        step = product(sizes[:axis] if column_major else sizes[axis + 1 :])
        result = op.add(result, op.multiply(place, g.scalar(simplify(step))))
    return result


@converter("AveragePool")
def average_pool(
    g: Emitter,
    X: Tensor,
    *,
    kernel_shape: Ints,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: Ints = (),
    pads: Ints = (),
    strides: Ints = (),
) -> Tensor:
    count, function = _spatial(g, X, _AVG_POOL)
    kernel_shape = _kernel(g, kernel_shape, count)
    strides, dilations = _filled(g, "strides", strides, count), _filled(g, "dilations", dilations, count)
    around = _window_pads(g, g.dims(X)[2:], auto_pad, pads, kernel_shape, strides, dilations)
    data, padding = _padded(X, around, 0.0)

    def averaged(x: Tensor, include: bool) -> Tensor:
        return function(
            x,
            pool_size=kernel_shape,
            strides=strides,
            padding=padding,
            dilation=dilations,
            ceil_mode=bool(ceil_mode),
            count_include_pad=include,
        )

    if data is X or count_include_pad:
        return averaged(data, bool(count_include_pad))
    # The data are padded already: the share of each window that lies within them is an average, too.
    ones = op.ones(ShapeExpr([*[const(1, "int64")] * 2, *g.dims(X)[2:]]), str(g.dtype(X)))
    inside, _ = _padded(ones, around, 0.0)
    return op.divide(averaged(data, True), averaged(inside, True))


def _over_space(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def convert(g: Emitter, X: Tensor) -> Tensor:
        return function(X, axis=list(range(2, g.ndim(X))), keepdims=True)

    return convert


register("GlobalAveragePool", _over_space(op.mean))
register("GlobalMaxPool", _over_space(op.max))


@converter("GlobalLpPool")
def global_lp_pool(g: Emitter, X: Tensor, *, p: int = 2) -> Tensor:
    g.within([p], "p")
    total = op.sum(_power(g, op.abs(X), p), axis=list(range(2, g.ndim(X))), keepdims=True)
    return _root(g, total, p)


@converter("LpPool", since=2)
def lp_pool(
    g: Emitter,
    X: Tensor,
    *,
    kernel_shape: Ints,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Ints = (),
    p: int = 2,
    pads: Ints = (),
    strides: Ints = (),
) -> Tensor:
    count, function = _spatial(g, X, _LP_POOL)
    kernel_shape = _kernel(g, kernel_shape, count)
    strides, dilations = _filled(g, "strides", strides, count), _filled(g, "dilations", dilations, count)
    around = _window_pads(g, g.dims(X)[2:], auto_pad, pads, kernel_shape, strides, dilations)
    data, padding = _padded(X, around, 0.0)
    return function(
        data,
        p=p,
        pool_size=kernel_shape,
        strides=strides,
        padding=padding,
        dilation=dilations,
        ceil_mode=bool(ceil_mode),
    )


def _power(g: Emitter, x: Tensor, p: int) -> Tensor:
    if p == 1:
        return x
    return op.multiply(x, x) if p == 2 else op.power(x, g.const(p, g.dtype(x)))


def _root(g: Emitter, x: Tensor, p: int) -> Tensor:
    if p == 1:
        return x
    return op.sqrt(x) if p == 2 else op.power(x, g.const(1.0 / p, g.dtype(x)))


@converter("MaxUnpool")
def max_unpool(
    g: Emitter,
    X: Tensor,
    I: Tensor,
    output_shape: Dims | None = None,
    *,
    kernel_shape: Ints,
    pads: Ints = (),
    strides: Ints = (),
) -> Tensor:
    count = g.ndim(X) - 2
    kernel_shape = _kernel(g, kernel_shape, count)
    strides, around = _filled(g, "strides", strides, count), _filled(g, "pads", pads, 2 * count, 0)
    dims = g.dims(X)
    natural = [(dims[2 + i] - 1) * strides[i] - around[i] - around[i + count] + kernel_shape[i] for i in range(count)]
    shape = [*dims[:2], *map(simplify, natural)]
    flat = op.reshape(op.zeros(ShapeExpr(shape), g.dtype(X)), [-1])
    placed = op.scatter_elements(flat, op.reshape(I, [-1]), op.reshape(X, [-1]))
    small = op.reshape(placed, shape)
    if output_shape is None:
        return small
    widths: list[Any] = []
    for goal, size in zip(g.fitting(output_shape, len(shape), "output_shape"), shape, strict=True):
        widths += [0, simplify(goal - size)]
    return op.nn.pad(small, widths)


# ------------------------------------------------------------------------------------- normalisation


@converter("BatchNormalization")
def batch_normalization(
    g: Emitter,
    X: Tensor,
    scale: Tensor,
    B: Tensor,
    input_mean: Tensor,
    input_var: Tensor,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    is_test: int = 1,
    spatial: int = 1,
    training_mode: int = 0,
) -> Any:
    if not spatial:
        g.unsupported("BatchNormalization with spatial = 0")
    if not is_test:
        g.unsupported("BatchNormalization with is_test = 0")
    training = bool(training_mode)
    if not training and any(g.outputs[1:]):
        g.unsupported("the training outputs of an old BatchNormalization")
    dtype = g.dtype(X)
    parameters = [
        op.astype(parameter, str(dtype)) if g.dtype(parameter) != dtype else parameter
        for parameter in (scale, B, input_mean, input_var)
    ]
    result, *moments = g.parts(
        op.nn.batch_norm(X, *parameters, axis=1, epsilon=epsilon, momentum=1.0 - momentum, training=training)
    )
    if not training:
        return result
    kinds = [str(g.dtype(parameter)) for parameter in (input_mean, input_var)]
    return (result, *(op.astype(moment, kind) for moment, kind in zip(moments, kinds, strict=True)))


@converter("InstanceNormalization", since=6)
def instance_normalization(g: Emitter, X: Tensor, scale: Tensor, B: Tensor, *, epsilon: float = 1e-5) -> Tensor:
    return op.nn.instance_norm(X, scale, B, channel_axis=1, axes=list(range(2, g.ndim(X))), epsilon=epsilon)


def _last_axes(g: Emitter, X: Tensor, axis: int) -> list[int]:
    ndim = g.ndim(X)
    return list(range(g.axis(axis, ndim), ndim))


def _fits(g: Emitter, parameter: Tensor, X: Tensor, axes: Sequence[int]) -> bool:
    """True if a parameter has the dtype of the data, and the sizes of the axes: none of its own is 1 and broadcasts."""
    sizes, expected = g.dims(parameter), [g.dims(X)[axis] for axis in axes]
    return (
        len(sizes) == len(expected)
        and g.dtype(parameter) == g.dtype(X)
        and all(
            g.is_true(size.equal(goal)) or g.is_true(size.equal(1)) is False
            for size, goal in zip(sizes, expected, strict=True)
        )
    )


@converter("LayerNormalization")
def layer_normalization(
    g: Emitter,
    X: Tensor,
    Scale: Tensor,
    B: Tensor | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Any:
    axes = _last_axes(g, X, axis)
    if not any(g.outputs[1:]) and _fits(g, Scale, X, axes) and (B is None or _fits(g, B, X, axes)):
        shift = op.zeros_like(Scale) if B is None else B
        return op.nn.layer_norm(X, Scale, shift, axes=axes, epsilon=epsilon, center=B is not None)
    stash = g.numbers(stash_type)
    if not DataType(stash).is_float:
        raise g.error(f"stash_type must be a type of floats, found {stash}", code="E6003")
    x = g.emit(g.cast(X, stash))
    mean = g.emit(op.mean(x, axis=axes, keepdims=True))
    centred = g.emit(op.subtract(x, mean))
    variance = op.mean(op.square(centred), axis=axes, keepdims=True)
    inverse = g.emit(op.divide(g.const(1, stash), op.sqrt(op.add(variance, g.const(epsilon, stash)))))
    result = _scaled(g, X, op.multiply(centred, inverse), Scale)
    return (result if B is None else op.add(result, g.cast(_stretching(g, B, X), str(g.dtype(X))))), mean, inverse


def _scaled(g: Emitter, X: Tensor, normalized: Tensor, scale: Tensor) -> Tensor:
    """Normalised data in the dtype of `X`, times a scale that broadcasts."""
    dtype = str(g.dtype(X))
    return g.emit(op.multiply(g.emit(g.cast(g.emit(normalized), dtype)), g.cast(_stretching(g, scale, X), dtype)))


def _stretching(g: Emitter, parameter: Tensor, X: Tensor) -> Tensor:
    """The parameter, stretched to the shape of the data: broadcasting does not enlarge these."""
    return op.broadcast_to(parameter, ShapeExpr(g.dims(X)))


@converter("RMSNormalization", "SimplifiedLayerNormalization")
@converter("SimplifiedLayerNormalization", domain="com.microsoft")
def rms_normalization(
    g: Emitter, X: Tensor, scale: Tensor, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Any:
    axes = _last_axes(g, X, axis)
    if any(g.outputs[1:]) or not _fits(g, scale, X, axes):
        return NotImplemented
    return op.nn.rms_norm(X, scale, axes=axes, epsilon=epsilon)


@converter("GroupNormalization", since=21)
def group_normalization(
    g: Emitter, X: Tensor, scale: Tensor, bias: Tensor, *, num_groups: int, epsilon: float = 1e-5, stash_type: int = 1
) -> Tensor:
    axes = list(range(2, g.ndim(X)))
    return op.nn.group_norm(X, scale, bias, num_groups=num_groups, channel_axis=1, axes=axes, epsilon=epsilon)


@converter("LRN")
def lrn(g: Emitter, X: Tensor, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Tensor:
    return op.nn.lrn(X, size=size, axis=1, alpha=alpha, beta=beta, bias=bias)


@converter("LpNormalization")
def lp_normalization(g: Emitter, x: Tensor, *, axis: int = -1, p: int = 2) -> Tensor:
    g.within([p], "p")
    norm = g.emit(_root(g, op.sum(_power(g, op.abs(x), p), axis=axis, keepdims=True), p))
    zero = g.const(0, g.dtype(x))
    return op.where(op.equal(norm, zero), op.zeros_like(x), op.divide(x, norm))


# ------------------------------------------------------------------------------------- padding


@converter("Pad", since=2)
def pad(
    g: Emitter,
    data: Tensor,
    pads: Value,
    constant_value: Value | None = None,
    axes: Value | None = None,
    *,
    mode: str = "constant",
    value: float = 0.0,
) -> Tensor:
    ndim = g.ndim(data)
    if axes is not None and g.elements(axes) is None:
        pads, axes = _spread(g, g.tensor(pads), g.tensor(axes), ndim), None
    return _pad(
        g, data, g.sizes(pads, "pads"), constant_value, g.axes(axes and g.ints(axes, "axes"), ndim), mode, value
    )


def _spread(g: Emitter, pads: Tensor, axes: Tensor, ndim: int) -> Tensor:
    """The pads of all dimensions, from those of the dimensions that a tensor names."""
    count, nothing = g.dims(axes)[0], op.zeros(ShapeExpr([ndim]), "int64")
    positions = op.floor_mod(op.astype(axes, "int64"), g.const(ndim, "int64"))
    halves = [op.strided_slice(pads, [0], [begin], [end]) for begin, end in ((0, count), (count, count * 2))]
    return g.emit(op.concat([op.scatter_elements(nothing, positions, half) for half in halves], axis=0))


def _pad(
    g: Emitter, data: Tensor, pads: Dims, constant_value: Value | None, axes: Ints, mode: str, value: float
) -> Tensor:
    ndim = g.ndim(data)
    if len(pads) != 2 * len(axes):
        raise g.error(f"pads must have {2 * len(axes)} elements, found {len(pads)}", code="E6003")
    widths: list[Any] = [0] * (2 * ndim)
    for index, axis in enumerate(axes):
        widths[2 * axis], widths[2 * axis + 1] = pads[index], pads[index + len(axes)]
    if mode not in ("constant", "reflect", "edge", "wrap"):
        raise g.error(f"mode must be constant, reflect, edge or wrap, found {mode!r}", code="E6003")
    dtype = g.dtype(data)
    filling: Any = value if constant_value is None else _pad_value(g, constant_value)
    if filling is None:
        return _pad_with(g, data, widths, g.tensor(constant_value))
    if not dtype.is_float and not np.isfinite(filling):
        raise g.error(f"the value of the padding is {filling}, which {dtype} cannot hold", code="E6003")
    if dtype.is_bool:
        whole = op.nn.pad(op.astype(data, "uint8"), widths, mode, int(bool(filling)))
        return op.astype(whole, "bool")
    return op.nn.pad(data, widths, mode, float(filling) if dtype.is_float else int(filling))


def _pad_value(g: Emitter, value: Value) -> Any:
    elements = g.elements(value)
    if elements is not None:
        numbers = elements.numbers()
        return None if numbers is None else g.fitting(numbers.reshape(-1), 1, "constant_value")[0].item()
    data = getattr(value, "data", None)
    return None if data is None else g.fitting(data.reshape(-1), 1, "constant_value")[0].item()


def _pad_with(g: Emitter, data: Tensor, widths: list[Any], value: Tensor) -> Tensor:
    """Padding with a value that only the run tells: chosen where a mask, padded too, says that there is no data."""
    inside = op.nn.pad(op.ones(ShapeExpr(g.dims(data)), "uint8"), widths)
    padded = op.nn.pad(data, widths)
    return op.where(op.astype(inside, "bool"), padded, op.reshape(value, []))
