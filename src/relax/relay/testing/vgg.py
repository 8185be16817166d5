"""VGG (K. Simonyan and A. Zisserman, "Very deep convolutional networks for large-scale image recognition", 2014)."""

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

LAYERS: Final = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
"""Convolutions of each stage by number of layers."""
FILTERS: Final = (64, 128, 256, 512, 512)


def get_feature(internal_layer: Expr, layers_: Sequence[int], filters: Sequence[int], batch_norm: bool = False) -> Any:
    """Stages of `layers_` convolutions with `filters` channels each, and max pooling."""
    net: Any = internal_layer
    for stage, (count, channels) in enumerate(zip(layers_, filters, strict=True)):
        for i in range(count):
            name = f"conv{stage + 1}_{i + 1}"
            net = layers.conv2d(net, channels=channels, kernel_size=(3, 3), padding=(1, 1), name=name)
            net = nn.bias_add(net, layers.param(None, name, "bias"))
            if batch_norm:
                net = layers.batch_norm_infer(net, name=f"bn{stage + 1}_{i + 1}")
            net = nn.relu(net)
        net = nn.max_pool2d(net, pool_size=(2, 2), strides=(2, 2))
    return net


def get_classifier(input_data: Expr, num_classes: int, units: int = 4096) -> Any:
    """Two dense layers with dropout, and a dense layer for the classes."""
    net: Any = nn.batch_flatten(input_data)
    for name in ("fc6", "fc7"):
        net = nn.relu(layers.dense_add_bias(net, units=units, name=name))
        net = nn.dropout(net, rate=0.5)
    return layers.dense_add_bias(net, units=num_classes, name="fc8")


def get_net(
    batch_size: Any,
    image_shape: tuple[int, int, int],
    num_classes: int,
    dtype: str,
    num_layers: int = 11,
    batch_norm: bool = False,
) -> Function:
    """VGG of `num_layers` layers. Raises ValueError for an unsupported number."""
    if num_layers not in LAYERS:
        raise ValueError(f"vgg: the number of layers is {', '.join(map(str, LAYERS))}; found {num_layers}")
    data = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    net = get_feature(data, LAYERS[num_layers], FILTERS, batch_norm)
    net = nn.softmax(get_classifier(net, num_classes))
    return Function(free_vars(net), net)


def get_workload(
    batch_size: Any,
    num_classes: int = 1000,
    image_shape: tuple[int, int, int] = (3, 224, 224),
    dtype: str = "float32",
    num_layers: int = 11,
    batch_norm: bool = False,
) -> tuple[IRModule, dict[str, NDArray]]:
    """The module of the network, and random parameters."""
    return create_workload(get_net(batch_size, image_shape, num_classes, dtype, num_layers, batch_norm))
