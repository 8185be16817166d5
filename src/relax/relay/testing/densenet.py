"""DenseNet (G. Huang et al., "Densely connected convolutional networks", 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ...ir import IRModule
from ...runtime import NDArray
from .. import calls
from ..analysis import free_vars
from ..calls import operator_function
from ..expr import Expr, Function, var
from . import layers
from .init import create_workload

nn = calls.Namespace("nn")

SIZES: Final = {
    121: (64, 32, (6, 12, 24, 16)),
    161: (96, 48, (6, 12, 36, 24)),
    169: (64, 32, (6, 12, 32, 32)),
    201: (64, 32, (6, 12, 48, 32)),
}
"""(Stem channels, growth rate, layers of each block) by number of layers."""


def _activated(data: Expr, name: str) -> Any:
    return nn.relu(layers.batch_norm_infer(data, epsilon=1e-5, name=name))


def dense_layer(data: Expr, growth_rate: int, bn_size: int, name: str) -> Any:
    """Concatenate the data with `growth_rate` channels computed from it."""
    net = _activated(data, f"{name}_batch_norm1")
    net = layers.conv2d(net, channels=bn_size * growth_rate, kernel_size=(1, 1), name=f"{name}_conv1")
    net = _activated(net, f"{name}_batch_norm2")
    net = layers.conv2d(net, channels=growth_rate, kernel_size=(3, 3), padding=(1, 1), name=f"{name}_conv2")
    return operator_function("concatenate")((data, net), axis=1)


def dense_net(
    num_init_features: int,
    growth_rate: int,
    block_config: Sequence[int],
    data_shape: Sequence[Any],
    data_dtype: str = "float32",
    bn_size: int = 4,
    classes: int = 1000,
) -> Function:
    """DenseNet with `block_config` layers per block; channels, height and width are halved between blocks."""
    net: Any = var("data", shape=data_shape, dtype=data_dtype)
    net = layers.conv2d(
        net, channels=num_init_features, kernel_size=(7, 7), strides=(2, 2), padding=(3, 3), name="conv1"
    )
    net = nn.max_pool2d(_activated(net, "batch_norm1"), pool_size=(3, 3), strides=(2, 2), padding=(1, 1))
    features = num_init_features
    for block, count in enumerate(block_config):
        for i in range(count):
            net = dense_layer(net, growth_rate, bn_size, f"block{block + 1}_layer{i + 1}")
        features += count * growth_rate
        if block < len(block_config) - 1:
            features //= 2
            net = _activated(net, f"transition{block + 1}_batch_norm")
            net = layers.conv2d(net, channels=features, kernel_size=(1, 1), name=f"transition{block + 1}_conv")
            net = nn.avg_pool2d(net, pool_size=(2, 2), strides=(2, 2))
    net = nn.batch_flatten(nn.global_avg_pool2d(_activated(net, "batch_norm_last")))
    net = layers.dense_add_bias(net, units=classes, name="dense1")
    return Function(free_vars(net), net)


def get_net(
    densenet_size: int = 121,
    classes: int = 1000,
    batch_size: Any = 4,
    image_shape: tuple[int, int, int] = (3, 224, 224),
    dtype: str = "float32",
) -> Function:
    """DenseNet of `densenet_size` layers. Raises ValueError for an unsupported size."""
    if densenet_size not in SIZES:
        raise ValueError(f"densenet: the size is {', '.join(map(str, SIZES))}; found {densenet_size}")
    return dense_net(*SIZES[densenet_size], (batch_size, *image_shape), dtype, classes=classes)


def get_workload(
    densenet_size: int = 121,
    classes: int = 1000,
    batch_size: Any = 4,
    image_shape: tuple[int, int, int] = (3, 224, 224),
    dtype: str = "float32",
) -> tuple[IRModule, dict[str, NDArray]]:
    """Return the module of the network, and random parameters."""
    return create_workload(get_net(densenet_size, classes, batch_size, image_shape, dtype))
