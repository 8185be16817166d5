"""MobileNet (A. Howard et al., "MobileNets: efficient convolutional neural networks for mobile vision", 2017)."""

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

BLOCKS: Final = (
    (32, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2),
    *((512, 512, 1),) * 5,
    (512, 1024, 2), (1024, 1024, 1),
)  # fmt: skip
"""(Input channels, output channels, stride) of each block."""


def conv_block(
    data: Expr,
    name: str,
    channels: int,
    kernel_size: tuple[int, int] = (3, 3),
    strides: tuple[int, int] = (1, 1),
    padding: tuple[int, int] = (1, 1),
    epsilon: float = 1e-5,
    layout: str = "NCHW",
    groups: int = 1,
) -> Any:
    """Convolution, batch normalisation and relu."""
    conv = layers.conv2d(
        data, channels=channels, kernel_size=kernel_size, strides=strides, padding=padding, data_layout=layout,
        kernel_layout=layers.conv_kernel_layout(layout, groups > 1), groups=groups, name=f"{name}_conv",
    )  # fmt: skip
    return nn.relu(layers.batch_norm_infer(conv, epsilon=epsilon, axis=layout.index("C"), name=f"{name}_bn"))


def separable_conv_block(
    data: Expr,
    name: str,
    depthwise_channels: int,
    pointwise_channels: int,
    kernel_size: tuple[int, int] = (3, 3),
    downsample: bool = False,
    padding: tuple[int, int] = (1, 1),
    epsilon: float = 1e-5,
    layout: str = "NCHW",
    dtype: str = "float32",
) -> Any:
    """Depthwise convolution, and a pointwise one."""
    del dtype  # inferred
    strides = (2, 2) if downsample else (1, 1)
    net = conv_block(
        data, f"{name}_depthwise", depthwise_channels, kernel_size, strides, padding, epsilon, layout,
        groups=depthwise_channels,
    )  # fmt: skip
    return conv_block(net, f"{name}_pointwise", pointwise_channels, (1, 1), (1, 1), (0, 0), epsilon, layout)


def mobile_net(
    num_classes: int = 1000,
    data_shape: Sequence[Any] = (1, 3, 224, 224),
    dtype: str = "float32",
    alpha: float = 1.0,
    is_shallow: bool = False,
    layout: str = "NCHW",
) -> Function:
    """MobileNet with channels scaled by `alpha`; a shallow one omits the five equal blocks."""
    data = var("data", shape=data_shape, dtype=dtype)
    net = conv_block(data, "conv_block_1", int(32 * alpha), strides=(2, 2), layout=layout)
    blocks = [block for block in BLOCKS if not (is_shallow and block == (512, 512, 1))]
    for i, (inputs, outputs, stride) in enumerate(blocks):
        name = f"separable_conv_block_{i + 1}"
        channels = int(inputs * alpha), int(outputs * alpha)
        net = separable_conv_block(net, name, *channels, downsample=stride == 2, layout=layout)
    net = nn.batch_flatten(nn.global_avg_pool2d(net, layout=layout))
    net = nn.softmax(layers.dense_add_bias(net, units=num_classes, name="fc"))
    return Function(free_vars(net), net)


def get_workload(
    batch_size: Any = 1,
    num_classes: int = 1000,
    image_shape: tuple[int, int, int] = (3, 224, 224),
    dtype: str = "float32",
    layout: str = "NCHW",
) -> tuple[IRModule, dict[str, NDArray]]:
    """The module of the network, and random parameters. `image_shape` is channels, height, width."""
    shape = (batch_size, *layers.image_layout(image_shape, layout))
    return create_workload(mobile_net(num_classes, shape, dtype, layout=layout))
