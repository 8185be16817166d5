"""SqueezeNet (F. Iandola et al., "SqueezeNet: AlexNet-level accuracy with 50x fewer parameters", 2016)."""

from __future__ import annotations

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

STEM: Final = {"1.0": (96, 7), "1.1": (64, 3)}
"""Channels and kernel size of the first convolution, by version."""
FIRES: Final = {"1.0": ((16, 16, 32), (32, 48, 48, 64), (64,)), "1.1": ((16, 16), (32, 32), (48, 48, 64, 64))}
"""Squeezed channels of the fire modules between poolings, by version; each expands to eight times as many."""


def convolution(data: Expr, channels: int, size: int, name: str, stride: int = 1, padding: int = 0) -> Any:
    """A convolution with bias and relu."""
    net = layers.conv2d(
        data, channels=channels, kernel_size=(size, size), strides=(stride, stride), padding=(padding, padding),
        name=name,
    )  # fmt: skip
    return nn.relu(nn.bias_add(net, layers.param(None, name, "bias")))


def fire(data: Expr, squeeze: int, name: str) -> Any:
    """Fire module: a 1×1 squeeze, expanded by parallel 1×1 and 3×3 convolutions."""
    squeezed = convolution(data, squeeze, 1, f"{name}_conv1x1")
    left = convolution(squeezed, squeeze * 4, 1, f"{name}_expand1x1")
    right = convolution(squeezed, squeeze * 4, 3, f"{name}_expand3x3", padding=1)
    return operator_function("concatenate")((left, right), axis=1)


def get_net(batch_size: Any, image_shape: tuple[int, int, int], num_classes: int, version: str, dtype: str) -> Function:
    """SqueezeNet of version "1.0" or "1.1". Raises ValueError for another version."""
    if version not in STEM:
        raise ValueError(f"squeezenet: the version is {', '.join(STEM)}; found {version!r}")
    channels, size = STEM[version]
    net: Any = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    net = convolution(net, channels, size, "conv1", stride=2, padding=3 if version == "1.0" else 0)
    number = 2
    for group in FIRES[version]:
        net = nn.max_pool2d(net, pool_size=(3, 3), strides=(2, 2))
        for squeeze in group:
            net = fire(net, squeeze, f"fire{number}")
            number += 1
    net = convolution(nn.dropout(net, rate=0.5), num_classes, 1, "conv10")
    net = nn.softmax(nn.batch_flatten(nn.global_avg_pool2d(net)))
    return Function(free_vars(net), net)


def get_workload(
    batch_size: Any = 1,
    num_classes: int = 1000,
    version: str = "1.0",
    image_shape: tuple[int, int, int] = (3, 224, 224),
    dtype: str = "float32",
) -> tuple[IRModule, dict[str, NDArray]]:
    """The module of the network, and random parameters."""
    return create_workload(get_net(batch_size, image_shape, num_classes, version, dtype))
