"""Residual networks (K. He et al., "Identity mappings in deep residual networks", 2016), of 18 to 269 layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ...ir import IRModule
from ...runtime import NDArray
from .. import calls
from ..analysis import free_vars
from ..expr import Expr, Function, var
from . import layers
from .init import create_workload

nn = calls.Namespace("nn")

UNITS: Final = {
    18: (2, 2, 2, 2),
    34: (3, 4, 6, 3),
    50: (3, 4, 6, 3),
    101: (3, 4, 23, 3),
    152: (3, 8, 36, 3),
    200: (3, 24, 36, 3),
    269: (3, 30, 48, 8),
}
"""Units of each stage by number of layers, for images larger than 32."""


def residual_unit(
    data: Expr,
    num_filter: int,
    stride: tuple[int, int],
    dim_match: bool,
    name: str,
    bottle_neck: bool = True,
    data_layout: str = "NCHW",
    kernel_layout: str = "OIHW",
) -> Any:
    """Residual unit: normalised and activated data through two or three convolutions, added to the data.

    Unless `dim_match`, the shortcut is a 1×1 convolution.
    """
    axis = data_layout.index("C")

    def convolution(x: Expr, channels: int, size: int, strides: tuple[int, int], number: str) -> Any:
        return layers.conv2d(
            x, channels=channels, kernel_size=(size, size), strides=strides, padding=(size // 2, size // 2),
            data_layout=data_layout, kernel_layout=kernel_layout, name=f"{name}_{number}",
        )  # fmt: skip

    narrow = num_filter // 4
    steps = (
        [(narrow, 1, (1, 1)), (narrow, 3, stride), (num_filter, 1, (1, 1))]
        if bottle_neck
        else [(num_filter, 3, stride), (num_filter, 3, (1, 1))]
    )
    net: Any = data
    shortcut: Any = data
    for i, (channels, size, strides) in enumerate(steps):
        net = layers.batch_norm_infer(net, epsilon=2e-5, axis=axis, name=f"{name}_bn{i + 1}")
        net = nn.relu(net)
        if i == 0 and not dim_match:
            shortcut = convolution(net, num_filter, 1, stride, "sc")
        net = convolution(net, channels, size, strides, f"conv{i + 1}")
    return net + shortcut


def resnet(
    units: Sequence[int],
    num_stages: int,
    filter_list: Sequence[int],
    num_classes: int,
    data_shape: Sequence[Any],
    bottle_neck: bool = True,
    layout: str = "NCHW",
    dtype: str = "float32",
) -> Function:
    """Residual network of `num_stages` stages, with `units` and `filter_list` per stage; the first filter is the
    stem's.
    """
    axis = layout.index("C")
    kernel_layout = layers.conv_kernel_layout(layout)
    options: dict[str, Any] = {"data_layout": layout, "kernel_layout": kernel_layout}
    sizes = dict(zip(layout, data_shape, strict=True))
    net: Any = var("data", shape=data_shape, dtype=dtype)
    net = layers.batch_norm_infer(net, epsilon=2e-5, axis=axis, scale=False, name="bn_data")
    if int(sizes["H"]) <= 32:
        net = layers.conv2d(net, channels=filter_list[0], kernel_size=(3, 3), padding=(1, 1), name="conv0", **options)
    else:
        net = layers.conv2d(
            net, channels=filter_list[0], kernel_size=(7, 7), strides=(2, 2), padding=(3, 3), name="conv0", **options
        )  # fmt: skip
        net = nn.relu(layers.batch_norm_infer(net, epsilon=2e-5, axis=axis, name="bn0"))
        net = nn.max_pool2d(net, pool_size=(3, 3), strides=(2, 2), padding=(1, 1), layout=layout)
    for stage, (count, filters) in enumerate(zip(units[:num_stages], filter_list[1 : num_stages + 1], strict=True)):
        for unit in range(count):
            stride = (2, 2) if unit == 0 and stage > 0 else (1, 1)
            name = f"stage{stage + 1}_unit{unit + 1}"
            net = residual_unit(net, filters, stride, unit > 0, name, bottle_neck, layout, kernel_layout)
    net = nn.relu(layers.batch_norm_infer(net, epsilon=2e-5, axis=axis, name="bn1"))
    net = nn.batch_flatten(nn.global_avg_pool2d(net, layout=layout))
    net = nn.softmax(layers.dense_add_bias(net, units=num_classes, name="fc1"))
    return Function(free_vars(net), net)


def get_net(
    batch_size: Any,
    num_classes: int,
    num_layers: int = 50,
    image_shape: tuple[int, int, int] = (3, 224, 224),
    layout: str = "NCHW",
    dtype: str = "float32",
    **kwargs: Any,
) -> Function:
    """Residual network of `num_layers` layers; `image_shape` is channels, height, width in the order of the layout.

    For images of up to 28 there are three stages of ``(num_layers - 2) / 6`` or ``/ 9`` units. Raises ValueError for an
    unsupported number of layers.
    """
    height = image_shape[layout.index("H") - 1]
    if height <= 28:
        bottle_neck = num_layers >= 164 and (num_layers - 2) % 9 == 0
        if not bottle_neck and ((num_layers - 2) % 6 or num_layers >= 164):
            raise ValueError(f"resnet: no network of {num_layers} layers for images of {height}")
        units: tuple[int, ...] = ((num_layers - 2) // (9 if bottle_neck else 6),) * 3
        filters = [16, 64, 128, 256] if bottle_neck else [16, 16, 32, 64]
    else:
        if num_layers not in UNITS:
            raise ValueError(f"resnet: the number of layers is {', '.join(map(str, UNITS))}; found {num_layers}")
        bottle_neck = num_layers >= 50
        units = UNITS[num_layers]
        filters = [64, 256, 512, 1024, 2048] if bottle_neck else [64, 64, 128, 256, 512]
    shape = (batch_size, *image_shape)
    return resnet(units, len(units), filters, num_classes, shape, bottle_neck, layout, dtype, **kwargs)


def get_workload(
    batch_size: Any = 1,
    num_classes: int = 1000,
    num_layers: int = 18,
    image_shape: tuple[int, int, int] = (3, 224, 224),
    layout: str = "NCHW",
    dtype: str = "float32",
    **kwargs: Any,
) -> tuple[IRModule, dict[str, NDArray]]:
    """The module of the network, and random parameters."""
    return create_workload(get_net(batch_size, num_classes, num_layers, image_shape, layout, dtype, **kwargs))
