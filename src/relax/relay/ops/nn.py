"""Neural network operators: ``nn.*``."""

from __future__ import annotations

import math
from typing import Any, Final

from ... import op
from ...expr import ShapeExpr, TupleGetItem
from ...expr import Tuple as RelaxTuple
from ...ir import RelaxExpr
from ...prim import IntImm
from ...tir.layout import parsed
from .declare import (
    ALWAYS,
    BROADCAST,
    ELEMWISE,
    FOLLOW,
    INJECTIVE,
    OUT_ELEMWISE_FUSABLE,
    attr,
    axis_of,
    declare,
    dims,
    dtype,
    number,
    optional_dtype,
    rank,
    scalar,
)

# -- products


def _dense(a: Any, x: RelaxExpr, weight: RelaxExpr) -> RelaxExpr:
    _require(a.units, dims(weight)[0], "nn.dense: units", "the first dimension of the weight")
    return op.matmul(x, op.permute_dims(weight), optional_dtype(a.out_dtype) or "")


def _require(value: Any, size: Any, name: str, where: str) -> None:
    """Check that an attribute that repeats a size equals it, if both are constants."""
    if value is not None and isinstance(size, IntImm) and size.value != int(value):
        raise ValueError(f"{name} is {value}, but {where} is {size.value}")


_UNITS = (attr("units", "int?", None), attr("out_dtype", "dtype?", None))
declare("nn.dense", 2, *_UNITS, pattern=OUT_ELEMWISE_FUSABLE, mixed=ALWAYS, means=_dense, operands="data weight")


def _turned(x: RelaxExpr, transposed: bool) -> RelaxExpr:
    if not transposed:
        return x
    count = rank(x)
    return op.permute_dims(x, [*range(count - 2), count - 1, count - 2])


def _matmul(a: Any, x: RelaxExpr, y: RelaxExpr) -> RelaxExpr:
    return op.matmul(_turned(x, a.transpose_a), _turned(y, a.transpose_b), optional_dtype(a.out_dtype) or "")


declare(
    "nn.matmul",
    2,
    *_UNITS,
    attr("transpose_a", "bool", False),
    attr("transpose_b", "bool", False),
    pattern=OUT_ELEMWISE_FUSABLE,
    mixed=ALWAYS,
    means=_matmul,
    operands="tensor_a tensor_b",
)
declare(
    "nn.batch_matmul", 2,
    attr("out_dtype", "dtype?", None), attr("transpose_a", "bool", False), attr("transpose_b", "bool", True),
    pattern=OUT_ELEMWISE_FUSABLE,
    mixed=ALWAYS, means=_matmul, operands="tensor_a tensor_b",
)  # fmt: skip


def _bias_add(a: Any, x: RelaxExpr, bias: RelaxExpr) -> RelaxExpr:
    behind = rank(x) - 1 - axis_of(a.axis, x)
    return op.add(x, op.expand_dims(bias, list(range(1, 1 + behind))) if behind else bias)


declare(
    "nn.bias_add", 2, attr("axis", "int", 1), pattern=BROADCAST, mixed=FOLLOW, means=_bias_add, operands="data bias"
)

# -- convolutions

_SPATIAL = {1: "W", 2: "HW", 3: "DHW"}


def _convolution(name: str, spatial: int, transposed: bool) -> None:
    letters = _SPATIAL[spatial]
    function = getattr(op.nn, name)

    def means(a: Any, x: RelaxExpr, weight: RelaxExpr) -> RelaxExpr:
        kernel = parsed(a.kernel_layout)
        if len(kernel) != rank(weight):
            raise ValueError(f"nn.{name}: the weight has {rank(weight)} dimensions, its layout {kernel} {len(kernel)}")
        sizes = kernel.extents(dims(weight))
        if a.kernel_size is not None:
            for letter, size in zip(letters, a.kernel_size, strict=True):
                _require(size, sizes[letter], f"nn.{name}: kernel_size", f"dimension {letter} of the weight")
        if a.channels is not None and not transposed:
            _require(a.channels, sizes["O"], f"nn.{name}: channels", "dimension O of the weight")
        more = {"output_padding": a.output_padding} if transposed else {}
        return function(
            x, weight, strides=a.strides, padding=a.padding, dilation=a.dilation, groups=a.groups,
            data_layout=a.data_layout, kernel_layout=a.kernel_layout, out_layout=a.out_layout,
            out_dtype=optional_dtype(a.out_dtype), **more,
        )  # fmt: skip

    per_axis, ones, zeros = f"ints[{spatial}]", (1,) * spatial, (0,) * spatial
    declare(
        f"nn.{name}", 2,
        attr("strides", per_axis, ones), attr("padding", "int|ints", zeros), attr("dilation", per_axis, ones),
        attr("groups", "int", 1), attr("channels", "int?", None), attr("kernel_size", f"{per_axis}?", None),
        attr("data_layout", "str", f"NC{letters}"),
        attr("kernel_layout", "str", f"IO{letters}" if transposed else f"OI{letters}"),
        attr("out_layout", "str", ""),
        *([attr("output_padding", per_axis, zeros)] if transposed else []),
        attr("out_dtype", "dtype?", None),
        pattern=OUT_ELEMWISE_FUSABLE, mixed=ALWAYS,
        means=means, operands="data weight",
    )  # fmt: skip


for _count in _SPATIAL:
    _convolution(f"conv{_count}d", _count, False)
    _convolution(f"conv{_count}d_transpose", _count, True)

# -- pooling


def _pool(kind: str, spatial: int) -> None:
    function = getattr(op.nn, f"{kind}_pool{spatial}d")
    averages = kind == "avg"

    def means(a: Any, x: RelaxExpr) -> RelaxExpr:
        more = {"count_include_pad": a.count_include_pad} if averages else {}
        return function(
            x, pool_size=a.pool_size, strides=a.strides, padding=a.padding, dilation=a.dilation, ceil_mode=a.ceil_mode,
            layout=a.layout, out_layout=a.out_layout, **more,
        )  # fmt: skip

    per_axis, ones = f"ints[{spatial}]", (1,) * spatial
    declare(
        f"nn.{kind}_pool{spatial}d", 1,
        attr("pool_size", per_axis, ones), attr("strides", per_axis, ones), attr("dilation", per_axis, ones),
        attr("padding", "int|ints", (0,) * spatial), attr("layout", "str", f"NC{_SPATIAL[spatial]}"),
        attr("out_layout", "str", ""), attr("ceil_mode", "bool", False),
        *([attr("count_include_pad", "bool", False)] if averages else []),
        pattern=OUT_ELEMWISE_FUSABLE,
        mixed=FOLLOW,
        means=means,
    )  # fmt: skip


def _global_pool(kind: str, spatial: int) -> None:
    reduction = op.mean if kind == "avg" else op.max

    def means(a: Any, x: RelaxExpr) -> RelaxExpr:
        axes = parsed(a.layout)
        for letter in _SPATIAL[spatial]:
            if letter not in axes or axes.factor_of(letter) != -1:
                raise ValueError(f"the layout {axes} does not have the dimension {letter} as a whole")
        return reduction(x, [axes.index_of(letter) for letter in _SPATIAL[spatial]], True)

    layout = attr("layout", "str", f"NC{_SPATIAL[spatial]}")
    declare(
        f"nn.global_{kind}_pool{spatial}d",
        1,
        layout,
        attr("out_layout", "str", ""),
        pattern=OUT_ELEMWISE_FUSABLE,
        mixed=FOLLOW,
        means=means,
    )


def _adaptive_pool(spatial: int) -> None:
    function = getattr(op.nn, f"adaptive_avg_pool{spatial}d")
    declare(
        f"nn.adaptive_avg_pool{spatial}d", 1,
        attr("output_size", "int|ints", ()), attr("layout", "str", f"NC{_SPATIAL[spatial]}"),
        attr("out_layout", "str", ""),
        pattern=OUT_ELEMWISE_FUSABLE, mixed=FOLLOW,
        means=lambda a, x: function(x, None if a.output_size == () else a.output_size, a.layout, a.out_layout),
    )  # fmt: skip


for _count in _SPATIAL:
    for _kind in ("max", "avg"):
        _pool(_kind, _count)
        _global_pool(_kind, _count)
    _adaptive_pool(_count)

# -- normalisation


def _batch_norm(a: Any, x: RelaxExpr, *statistics: RelaxExpr) -> RelaxExpr:
    # Relay's batch_norm is in inference mode: the second and third results are its input statistics.
    result = op.nn.batch_norm(
        x, *statistics, axis=a.axis, epsilon=a.epsilon, center=a.center, scale=a.scale, training=False
    )
    return RelaxTuple([TupleGetItem(result, 0), statistics[2], statistics[3]])


_CENTRED = (attr("epsilon", "float", 1e-5), attr("center", "bool", True), attr("scale", "bool", True))
declare(
    "nn.batch_norm", 5, attr("axis", "int", 1), *_CENTRED,
    means=_batch_norm, operands="data gamma beta moving_mean moving_var", results=3,
)  # fmt: skip
declare(
    "nn.layer_norm", 3, attr("axis", "int", -1), *_CENTRED,
    means=lambda a, x, gamma, beta: op.nn.layer_norm(x, gamma, beta, [a.axis], a.epsilon, a.center, a.scale),
    operands="data gamma beta",
)  # fmt: skip
declare(
    "nn.instance_norm", 3, attr("axis", "int", 1), *_CENTRED,
    means=lambda a, x, gamma, beta: op.nn.instance_norm(
        x, gamma, beta, a.axis, _spatial_axes(x, a.axis), a.epsilon, a.center, a.scale
    ),
    operands="data gamma beta",
)  # fmt: skip
declare(
    "nn.group_norm", 3, attr("num_groups", "int"), attr("axis", "int", 1), *_CENTRED,
    means=lambda a, x, gamma, beta: op.nn.group_norm(
        x, gamma, beta, a.num_groups, a.axis, _spatial_axes(x, a.axis), a.epsilon, a.center, a.scale
    ),
    operands="data gamma beta",
)  # fmt: skip


def _spatial_axes(x: RelaxExpr, axis: int) -> list[int]:
    """Axes after the batch, except the channel axis."""
    channels = axis_of(axis, x)
    return [i for i in range(1, rank(x)) if i != channels]


def _l2_normalize(a: Any, x: RelaxExpr) -> RelaxExpr:
    squares = op.sum(op.multiply(x, x), a.axis, True)
    return op.divide(x, op.sqrt(op.maximum(squares, scalar(a.eps, x))))


declare("nn.l2_normalize", 1, attr("eps", "float"), attr("axis", "int|ints?", None), means=_l2_normalize)
declare(
    "nn.lrn", 1,
    attr("size", "int", 5), attr("axis", "int", 1), attr("bias", "float", 2.0), attr("alpha", "float", 1e-5),
    attr("beta", "float", 0.75),
    means=lambda a, x: op.nn.lrn(x, a.size, a.axis, a.alpha, a.beta, a.bias),
)  # fmt: skip

# -- activations and losses

declare("nn.relu", 1, pattern=ELEMWISE, mixed=FOLLOW, means=lambda a, x: op.nn.relu(x))
declare(
    "nn.leaky_relu",
    1,
    attr("alpha", "float", 0.25),
    pattern=ELEMWISE,
    mixed=FOLLOW,
    means=lambda a, x: op.nn.leakyrelu(x, a.alpha),
)
declare(
    "nn.prelu", 2, attr("axis", "int", 1),
    pattern=BROADCAST,
    mixed=FOLLOW, means=lambda a, x, alpha: op.nn.prelu(x, alpha, a.axis), operands="data alpha",
)  # fmt: skip
for _name in ("softmax", "fast_softmax"):
    declare(f"nn.{_name}", 1, attr("axis", "int", -1), means=lambda a, x: op.nn.softmax(x, a.axis))
declare("nn.log_softmax", 1, attr("axis", "int", -1), means=lambda a, x: op.nn.log_softmax(x, a.axis))


def _dropout(a: Any, x: RelaxExpr) -> RelaxExpr:
    # Inference mode: the unchanged data, and a mask of ones.
    return RelaxTuple([x, op.ones_like(x)])


declare("nn.dropout", 1, attr("rate", "float", 0.5), mixed=FOLLOW, means=_dropout)
declare("nn.cross_entropy_with_logits", 2, means=lambda a, x, y: _cross_entropy(x, y), operands="predictions targets")


declare("nn.cross_entropy", 2, means=lambda a, x, y: _cross_entropy(op.log(x), y), operands="predictions targets")


def _cross_entropy(predictions: RelaxExpr, targets: RelaxExpr) -> RelaxExpr:
    """Mean over the batch of -Σ prediction · target."""
    total = op.sum(op.multiply(predictions, targets))
    batch = op.astype(op.take(op.shape_to_tensor(op.shape_of(targets)), _zero(), 0), dtype(targets))
    return op.divide(op.negative(total), batch)


def _zero() -> RelaxExpr:
    return op.zeros([], "int64")


declare(
    "nn.nll_loss", 3, attr("reduction", "str", "mean"), attr("ignore_index", "int", -100),
    means=lambda a, x, targets, weights: op.nn.nll_loss(x, targets, weights, a.reduction, a.ignore_index),
    operands="predictions targets weights",
)  # fmt: skip

# -- shapes

declare("nn.batch_flatten", 1, pattern=ELEMWISE, mixed=FOLLOW, means=lambda a, x: op.nn.batch_flatten(x))


def _pad(a: Any, x: RelaxExpr, value: RelaxExpr) -> RelaxExpr:
    widths = [width for pair in a.pad_width for width in pair]
    if a.pad_mode == "constant":
        return op.nn.pad(x, widths, "constant", number(value))
    return op.nn.pad(x, widths, "replicate" if a.pad_mode == "edge" else a.pad_mode)


declare(
    "nn.pad", 2, attr("pad_width", "intss"), attr("pad_mode", "str", "constant"),
    pattern=INJECTIVE,
    mixed=FOLLOW, means=_pad, operands="data pad_value", constants=True,
)  # fmt: skip
declare(
    "nn.mirror_pad", 1, attr("pad_width", "intss"), attr("mode", "str", "SYMMETRIC"),
    pattern=INJECTIVE,
    means=lambda a, x: op.nn.pad(
        x, [width for pair in a.pad_width for width in pair],
        {"REFLECT": "reflect", "SYMMETRIC": "symmetric"}[a.mode],
    ),
)  # fmt: skip


_METHODS = {
    "nearest_neighbor": "nearest_neighbor", "bilinear": "linear", "bicubic": "cubic", "trilinear": "linear",
}  # fmt: skip
UPSAMPLED_BY: Final = {
    "HW": (
        attr("layout", "str", "NCHW"), attr("method", "str", "nearest_neighbor"),
        attr("align_corners", "bool", False),
    ),
    "DHW": (
        attr("layout", "str", "NCDHW"), attr("method", "str", "nearest_neighbor"),
        attr("coordinate_transformation_mode", "str", "half_pixel"),
    ),
}  # fmt: skip
"""Attributes of upsampling, by the dimensions that are enlarged."""


def upsampled(a: Any, x: RelaxExpr, letters: str, size: RelaxExpr) -> RelaxExpr:
    """Resize the dimensions of an image named by `letters`, as the upsampling attributes say."""
    method = _METHODS[a.method]
    nearest = method == "nearest_neighbor"
    if letters == "DHW":
        mode = a.coordinate_transformation_mode
    else:
        mode = "align_corners" if a.align_corners else ("asymmetric" if nearest else "half_pixel")
    rounding = "round" if mode == "align_corners" and letters == "DHW" else "floor"
    if letters == "HW":
        return op.image.resize2d(
            x, size, layout=a.layout, method=method, coordinate_transformation_mode=mode,
            rounding_method=rounding if nearest else "round",
        )  # fmt: skip
    return op.image.resize(
        x, size, axes=[a.layout.index(letter) for letter in letters], method=method,
        coordinate_transformation_mode=mode, rounding_method=rounding if nearest else "round", cubic_alpha=-0.5,
    )  # fmt: skip


def _upsampling(a: Any, x: RelaxExpr, letters: str) -> RelaxExpr:
    sizes = dict(zip(a.layout, dims(x), strict=True))
    scaled = [_scaled(sizes[letter], a[f"scale_{letter.lower()}"]) for letter in letters]
    return upsampled(a, x, letters, ShapeExpr(scaled))


def _scaled(size: Any, scale: float) -> Any:
    """Rounded product of a dimension and a scale. Raises ValueError if it is not computable."""
    if isinstance(size, IntImm):
        return math.floor(size.value * scale + 0.5)
    if scale != int(scale):
        raise ValueError("the scales of dimensions that are not known must be whole numbers")
    return size * int(scale)


for _letters, _name in (("HW", "nn.upsampling"), ("DHW", "nn.upsampling3d")):
    declare(
        _name, 1,
        *(attr(f"scale_{_letter.lower()}", "float", 1.0) for _letter in _letters), *UPSAMPLED_BY[_letters],
        pattern=INJECTIVE,
        means=lambda a, x, letters=_letters: _upsampling(a, x, letters),
    )  # fmt: skip


def _depth_to_space(a: Any, x: RelaxExpr) -> RelaxExpr:
    n, c, h, w = _nchw(x, a.layout, "nn.depth_to_space")
    size = a.block_size
    if a.mode == "DCR":
        sizes, order = [n, size, size, c // (size * size), h, w], [0, 3, 4, 1, 5, 2]
    else:
        sizes, order = [n, c // (size * size), size, size, h, w], [0, 1, 4, 2, 5, 3]
    turned = op.permute_dims(op.reshape(x, sizes), order)
    return op.reshape(turned, [n, c // (size * size), h * size, w * size])


def _space_to_depth(a: Any, x: RelaxExpr) -> RelaxExpr:
    n, c, h, w = _nchw(x, a.layout, "nn.space_to_depth")
    size = a.block_size
    blocked = op.reshape(x, [n, c, h // size, size, w // size, size])
    return op.reshape(op.permute_dims(blocked, [0, 3, 5, 1, 2, 4]), [n, c * size * size, h // size, w // size])


def _nchw(x: RelaxExpr, layout: str, name: str) -> tuple[Any, ...]:
    if layout != "NCHW":
        raise ValueError(f"{name}: only the layout NCHW has a counterpart in Relax, found {layout}")
    return dims(x)


_BLOCKS = (attr("block_size", "int"), attr("layout", "str", "NCHW"))
declare(
    "nn.depth_to_space", 1, *_BLOCKS, attr("mode", "str", "DCR"), pattern=INJECTIVE, mixed=FOLLOW, means=_depth_to_space
)
declare(
    "nn.space_to_depth", 1, *_BLOCKS, attr("mode", "str", "DCR"), pattern=INJECTIVE, mixed=FOLLOW, means=_space_to_depth
)
