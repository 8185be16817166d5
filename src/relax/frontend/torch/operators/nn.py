"""Convolutions, pools, normalisations, padding."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from .... import op
from ....expr import ShapeExpr
from ....ir import RelaxExpr
from ....prim import IntImm, PrimExpr, simplify
from ..emitter import Dim, Emitter, as_dim, product
from ..registry import converter, register
from .statistics import batch_norm_in_training, statistics

Numbers = Any
"""A number for each spatial dimension, or one for all."""

_CONV = {1: op.nn.conv1d, 2: op.nn.conv2d, 3: op.nn.conv3d}
_CONV_TRANSPOSE = {1: op.nn.conv1d_transpose, 2: op.nn.conv2d_transpose, 3: op.nn.conv3d_transpose}
_MAX_POOL = {1: op.nn.max_pool1d, 2: op.nn.max_pool2d, 3: op.nn.max_pool3d}
_MAX_POOL_INDICES = {
    1: op.nn.max_pool1d_with_indices,
    2: op.nn.max_pool2d_with_indices,
    3: op.nn.max_pool3d_with_indices,
}
_AVG_POOL = {1: op.nn.avg_pool1d, 2: op.nn.avg_pool2d, 3: op.nn.avg_pool3d}


def each(values: Numbers, count: int) -> list[int]:
    """The numbers of an attribute, one for each spatial dimension."""
    given: Any = values
    numbers: list[int] = [given] if isinstance(given, int) else list(given)
    return numbers * count if len(numbers) == 1 else numbers


def in_batch(g: Emitter, x: RelaxExpr, spatial: int, function: Callable[[RelaxExpr], Any]) -> Any:
    """A function of (N, C, ...) data, of data that may have no N."""
    if g.ndim(x) == spatial + 2:
        return function(x)
    result = function(g.emit(op.expand_dims(x, [0])))
    if isinstance(result, list):
        fields: list[RelaxExpr] = result  # type: ignore[reportUnknownVariableType]
        return [op.squeeze(field, [0]) for field in fields]
    return op.squeeze(result, [0])


# ------------------------------------------------------------------------------------- convolutions


@converter("aten.conv1d", "aten.conv2d", "aten.conv3d")
def conv(
    g: Emitter,
    x: RelaxExpr,
    weight: RelaxExpr,
    bias: RelaxExpr | None = None,
    stride: Numbers = 1,
    padding: Any = 0,
    dilation: Numbers = 1,
    groups: int = 1,
) -> RelaxExpr:
    count = g.ndim(weight) - 2
    if isinstance(padding, str):
        padding = _same_padding(g, weight, each(dilation, count)) if padding == "same" else 0
    options: dict[str, Any] = {"strides": stride, "padding": padding, "dilation": dilation, "groups": groups}

    def convolved(data: RelaxExpr) -> RelaxExpr:
        return _with_bias(_CONV[count](data, weight, **options), bias, count)

    return in_batch(g, x, count, convolved)


def _same_padding(g: Emitter, weight: RelaxExpr, dilations: Sequence[int]) -> list[int]:
    """The padding of both sides with which the result has the sizes of the data; the odd one goes to the end."""
    sizes = [size.value for size in g.dims(weight)[2:] if isinstance(size, IntImm)]
    totals = [(size - 1) * dilation for size, dilation in zip(sizes, dilations, strict=True)]
    return [*(total // 2 for total in totals), *(total - total // 2 for total in totals)]


def _with_bias(x: RelaxExpr, bias: RelaxExpr | None, spatial: int) -> RelaxExpr:
    return x if bias is None else op.add(x, op.reshape(bias, [1, -1, *[1] * spatial]))


@converter("aten.conv_transpose1d", "aten.conv_transpose2d.input", "aten.conv_transpose3d.input")
def conv_transpose(
    g: Emitter,
    x: RelaxExpr,
    weight: RelaxExpr,
    bias: RelaxExpr | None = None,
    stride: Numbers = 1,
    padding: Numbers = 0,
    output_padding: Numbers = 0,
    groups: int = 1,
    dilation: Numbers = 1,
) -> RelaxExpr:
    count = g.ndim(weight) - 2

    def convolved(data: RelaxExpr) -> RelaxExpr:
        result = _CONV_TRANSPOSE[count](
            data,
            weight,
            strides=stride,
            padding=padding,
            output_padding=output_padding,
            dilation=dilation,
            groups=groups,
        )
        return _with_bias(result, bias, count)

    return in_batch(g, x, count, convolved)


@converter("aten.convolution")
def convolution(
    g: Emitter,
    x: RelaxExpr,
    weight: RelaxExpr,
    bias: RelaxExpr | None,
    stride: Numbers,
    padding: Numbers,
    dilation: Numbers,
    transposed: bool,
    output_padding: Numbers,
    groups: int,
) -> RelaxExpr:
    if transposed:
        return conv_transpose(g, x, weight, bias, stride, padding, output_padding, groups, dilation)
    return conv(g, x, weight, bias, stride, padding, dilation, groups)


# ------------------------------------------------------------------------------------- pools


def max_pool(count: int, with_indices: bool) -> Callable[..., Any]:
    """Return the converter of maximum pools of spatial dimensions."""

    def convert(
        g: Emitter,
        x: RelaxExpr,
        kernel_size: Numbers,
        stride: Numbers = None,
        padding: Numbers = 0,
        dilation: Numbers = 1,
        ceil_mode: bool = False,
    ) -> Any:
        is_indexed = with_indices and g.reads(1)

        def pooled(data: RelaxExpr) -> Any:
            result = (_MAX_POOL_INDICES if is_indexed else _MAX_POOL)[count](
                data,
                pool_size=kernel_size,
                strides=kernel_size if stride in (None, []) else stride,
                padding=padding,
                dilation=dilation,
                ceil_mode=ceil_mode,
            )
            if not is_indexed:
                return result
            values, positions = g.parts(result)
            area = g.tensor(product(g.dims(data)[2:]), "int64")  # indices count from the first channel of the batch
            return [values, g.emit(op.floor_mod(positions, area))]

        result = in_batch(g, x, count, pooled)
        return [result, None] if with_indices and not is_indexed else result

    return convert


def _avg_pool(count: int) -> Callable[..., RelaxExpr]:
    def convert(
        g: Emitter,
        x: RelaxExpr,
        kernel_size: Numbers,
        stride: Numbers = None,
        padding: Numbers = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> RelaxExpr:
        def pooled(data: RelaxExpr) -> RelaxExpr:
            return _AVG_POOL[count](
                data,
                pool_size=kernel_size,
                strides=kernel_size if stride in (None, []) else stride,
                padding=padding,
                ceil_mode=ceil_mode,
                count_include_pad=count_include_pad,
            )

        if divisor_override is not None:
            return _sum_pool(g, x, count, kernel_size, stride, padding, ceil_mode, divisor_override)
        return in_batch(g, x, count, pooled)

    return convert


def _sum_pool(
    g: Emitter,
    x: RelaxExpr,
    count: int,
    kernel_size: Numbers,
    stride: Numbers,
    padding: Numbers,
    ceil_mode: bool,
    divisor: int,
) -> RelaxExpr:
    """The sums of the windows of an average pool, each over one number: with pads counted, sum = mean x window."""
    if divisor == 0:
        raise g.error("divisor_override is 0", hint="pass another divisor, or none")
    if ceil_mode:
        g.unsupported("a pool with a divisor_override in ceil_mode", "pad the tensor before")
    means = _avg_pool(count)(g, x, kernel_size, stride, padding, False, True)
    window = math.prod(each(kernel_size, count))
    return op.multiply(g.emit(means), g.const(window / divisor, g.out_dtype))


for _count in (1, 2, 3):
    register(f"aten.max_pool{_count}d.default", max_pool(_count, False))
    register(f"aten.max_pool{_count}d_with_indices", max_pool(_count, True))
    register(f"aten.avg_pool{_count}d", _avg_pool(_count))


# ------------------------------------------------------------------------------------- normalisations


def _weights(g: Emitter, x: RelaxExpr | None, like: Sequence[Dim], value: int, dtype: str) -> RelaxExpr:
    """A scale or shift; as many times `value` where a module has none."""
    return op.full(ShapeExpr([as_dim(dim) for dim in like]), g.const(value, dtype), dtype) if x is None else x


@converter("aten.layer_norm.default", "aten.native_layer_norm")
def layer_norm(
    g: Emitter,
    x: RelaxExpr,
    normalized_shape: Sequence[Dim],
    weight: RelaxExpr | None = None,
    bias: RelaxExpr | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Any:
    dtype, axes = str(g.dtype(x)), list(range(-len(normalized_shape), 0))
    gamma = _weights(g, weight, normalized_shape, 1, dtype)
    beta = _weights(g, bias, normalized_shape, 0, dtype)
    result = op.nn.layer_norm(x, gamma, beta, axes, float(eps), center=bias is not None, scale=weight is not None)
    if not isinstance(g.value, (list, tuple)):
        return result
    return [result, *statistics(g, x, list(range(g.ndim(x) - len(normalized_shape), g.ndim(x))), eps)]


@converter("aten.rms_norm.default")
def rms_norm(
    g: Emitter, x: RelaxExpr, normalized_shape: Sequence[Dim], weight: RelaxExpr | None = None, eps: Any = None
) -> RelaxExpr:
    dtype = str(g.dtype(x))
    gamma = _weights(g, weight, normalized_shape, 1, dtype)
    epsilon = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float64": 2.0**-52}.get(dtype, 2.0**-23)
    return op.nn.rms_norm(x, gamma, list(range(-len(normalized_shape), 0)), epsilon if eps is None else float(eps))


@converter("aten.group_norm.default")
def group_norm(
    g: Emitter,
    x: RelaxExpr,
    num_groups: int,
    weight: RelaxExpr | None = None,
    bias: RelaxExpr | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> RelaxExpr:
    return _grouped(g, x, num_groups, weight, bias, eps)


@converter("aten.native_group_norm")
def native_group_norm(
    g: Emitter, x: RelaxExpr, weight: Any, bias: Any, n: Dim, c: Dim, hw: Dim, group: int, eps: float
) -> Any:
    elements = product(g.dims(x)[2:])
    for name, number, size in (("N", n, g.dims(x)[0]), ("C", c, _channels(g, x)), ("HxW", hw, elements)):
        if g.is_true(as_dim(number).equal(size)) is False:
            raise g.error(f"{name} is {number}, the size of the input {size}", hint="pass the sizes of the input")
    channels = [g.dims(x)[0], as_dim(group), product([_channels(g, x), elements]) // as_dim(group)]
    result = g.emit(_grouped(g, x, group, weight, bias, eps))
    return [result, *statistics(g, x, [2], eps, channels)]


def _channels(g: Emitter, x: RelaxExpr) -> PrimExpr:
    """The number of channels of (N, C, …) data. Raises DiagnosticError for data without channels."""
    if g.ndim(x) < 2:
        raise g.error(f"data of {g.ndim(x)} dimensions have no channels", hint="pass data of the shape (N, C, ...)")
    return g.dims(x)[1]


def _grouped(g: Emitter, x: RelaxExpr, groups: int, weight: Any, bias: Any, eps: float) -> RelaxExpr:
    dtype, channels = str(g.dtype(x)), _channels(g, x)
    gamma, beta = (_weights(g, parameter, [channels], value, dtype) for parameter, value in ((weight, 1), (bias, 0)))
    flat = g.ndim(x) == 2  # the mean of each group is over its channels alone
    data = g.reshape(x, [*g.dims(x), 1]) if flat else x
    axes = list(range(2, g.ndim(data)))
    given = {"center": bias is not None, "scale": weight is not None}
    result = op.nn.group_norm(data, gamma, beta, groups, 1, axes, float(eps), **given)
    return op.squeeze(result, [2]) if flat else result


@converter(
    "aten.batch_norm",
    "aten.native_batch_norm",
    "aten._native_batch_norm_legit",
    "aten._native_batch_norm_legit_functional",
    "aten._native_batch_norm_legit_no_training",
    "aten.cudnn_batch_norm",
)
def batch_norm(
    g: Emitter, x: RelaxExpr, weight: Any, bias: Any, running_mean: Any, running_var: Any, *options: Any
) -> Any:
    """(input, weight, bias, mean, var, [training,] momentum, eps, …)."""
    if options and options[0] is True and isinstance(g.value, (list, tuple)):
        return batch_norm_in_training(g, x, weight, bias, running_mean, running_var, *options[1:])
    if options and options[0] is True:
        g.unsupported("a batch norm in the mode train", "call eval() before torch.export.export")
    eps = options[2] if options and options[0] is False else options[1]
    if running_mean is None or running_var is None:
        g.unsupported("a batch norm without running statistics")
    dtype, channels = str(g.dtype(x)), _channels(g, x)
    gamma, beta = (_weights(g, parameter, [channels], value, dtype) for parameter, value in ((weight, 1), (bias, 0)))
    normed = op.nn.batch_norm(x, gamma, beta, running_mean, running_var, axis=1, epsilon=float(eps))
    result = g.parts(normed)[0]
    return [result, None, None] if isinstance(g.value, (list, tuple)) else result


@converter("aten._native_batch_norm_legit.no_stats")
def batch_norm_of_batch(
    g: Emitter, x: RelaxExpr, weight: Any, bias: Any, training: bool, momentum: float, eps: float
) -> Any:
    """The statistics are those of the batch, as a module without running ones has them in any mode."""
    _channels(g, x)  # which it has
    return batch_norm_in_training(g, x, weight, bias, None, None, momentum, eps)


@converter("aten.instance_norm")
def instance_norm(
    g: Emitter,
    x: RelaxExpr,
    weight: Any = None,
    bias: Any = None,
    running_mean: Any = None,
    running_var: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Any:
    if (running_mean is None) != (running_var is None):
        raise g.error("one of running_mean and running_var is None", hint="pass both of them, or none")
    if not use_input_stats:
        return batch_norm(g, x, weight, bias, running_mean, running_var, False, momentum, eps)
    dtype, channels = str(g.dtype(x)), _channels(g, x)
    gamma, beta = (_weights(g, parameter, [channels], value, dtype) for parameter, value in ((weight, 1), (bias, 0)))
    return op.nn.instance_norm(x, gamma, beta, 1, list(range(2, g.ndim(x))), float(eps))


# ------------------------------------------------------------------------------------- padding, patches


@converter("aten.pad")
def pad(g: Emitter, x: RelaxExpr, pad: Sequence[Dim], mode: str = "constant", value: Any = None) -> RelaxExpr:
    """Widths come in pairs from the last dimension on."""
    widths: list[Dim] = [0] * (2 * g.ndim(x))
    for pair in range(len(pad) // 2):
        axis = g.ndim(x) - 1 - pair
        widths[2 * axis : 2 * axis + 2] = pad[2 * pair : 2 * pair + 2]
    if all(isinstance(width, int) and width == 0 for width in widths):
        return x
    return op.nn.pad(x, widths, mode, 0 if value is None else value)


@converter("aten.constant_pad_nd")
def constant_pad(g: Emitter, x: RelaxExpr, widths: Sequence[Dim], value: Any = 0) -> RelaxExpr:
    return pad(g, x, widths, "constant", value)


def _padding(mode: str) -> Callable[..., RelaxExpr]:
    def convert(g: Emitter, x: RelaxExpr, widths: Sequence[Dim]) -> RelaxExpr:
        return pad(g, x, widths, mode)

    return convert


for _count in (1, 2, 3):
    register(f"aten.reflection_pad{_count}d", _padding("reflect"))
    register(f"aten.replication_pad{_count}d", _padding("replicate"))


@converter("aten.im2col")
def im2col(
    g: Emitter, x: RelaxExpr, kernel_size: Numbers, dilation: Numbers, padding: Numbers, stride: Numbers
) -> RelaxExpr:
    """(N, C · kernel, windows): for each place of the kernel the elements of all windows."""
    kernel, dilations, strides = each(kernel_size, 2), each(dilation, 2), each(stride, 2)
    high, wide = each(padding, 2)
    if high < 0 or wide < 0:
        raise g.error(f"the padding {padding} is negative", hint="pass numbers from 0 on")
    data = g.emit(pad(g, x, [wide, wide, high, high]))
    n, c, h, w = g.dims(data)
    counts = [
        simplify((size - (k - 1) * d - 1) // s + 1)
        for size, k, d, s in zip((h, w), kernel, dilations, strides, strict=True)
    ]
    rows: list[RelaxExpr] = []
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            begin = [as_dim(i * dilations[0]), as_dim(j * dilations[1])]
            ends = [
                simplify(first + (count - 1) * s + 1) for first, count, s in zip(begin, counts, strides, strict=True)
            ]
            window = g.emit(op.strided_slice(data, [2, 3], begin, ends, strides, assume_inbound=True))
            rows.append(g.reshape(window, [n, c, 1, *counts]))
    joined = g.emit(op.concat(rows, axis=2))
    return g.reshape(joined, [n, simplify(c * len(rows)), simplify(counts[0] * counts[1])])


@converter("aten.col2im")
def col2im(
    g: Emitter,
    x: RelaxExpr,
    output_size: Sequence[Dim],
    kernel_size: Numbers,
    dilation: Numbers,
    padding: Numbers,
    stride: Numbers,
) -> RelaxExpr:
    return op.vision.col2im(
        x,
        ShapeExpr([as_dim(size) for size in output_size]),
        block_shape=each(kernel_size, 2),
        strides=each(stride, 2),
        padding=each(padding, 2) * 2,
        dilation=each(dilation, 2),
    )
