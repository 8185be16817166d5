"""Inception-v3 (C. Szegedy et al., "Rethinking the Inception architecture for computer vision", 2016).

A block concatenates branches. A branch is a sequence of convolutions (channels, kernel height, kernel width), which
keep the image size unless the block halves it.
"""

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

Kernel = tuple[int, int, int]
Branch = tuple[Kernel, ...]


def convolution(data: Expr, kernel: Kernel, name: str, stride: int = 1, padding: tuple[int, int] | None = None) -> Any:
    """Convolution, batch normalisation and relu; by default it keeps the image size."""
    channels, height, width = kernel
    net = layers.conv2d(
        data, channels=channels, kernel_size=(height, width), strides=(stride, stride),
        padding=(height // 2, width // 2) if padding is None else padding, name=f"{name}_conv",
    )  # fmt: skip
    return nn.relu(layers.batch_norm_infer(net, epsilon=2e-5, name=f"{name}_batchnorm"))


def _row(data: Expr, kernels: Sequence[Kernel], name: str, halves: bool = False) -> Any:
    net: Any = data
    for i, kernel in enumerate(kernels):
        last = halves and i == len(kernels) - 1
        net = convolution(net, kernel, f"{name}_{i}", 2 if last else 1, (0, 0) if last else None)
    return net


def same_size(data: Expr, branches: Sequence[Branch], pool: str, projection: int, name: str, forked: int = 0) -> Any:
    """Block that keeps the size: branches, and pooling with a 1×1 convolution.

    The last `forked` branches end in parallel 1×3 and 3×1 convolutions.
    """
    outputs: list[Any] = []
    for i, branch in enumerate(branches):
        fork = i >= len(branches) - forked
        net = _row(data, branch[:-1] if fork else branch, f"{name}_branch{i}")
        if fork:
            channels = branch[-1][0]
            outputs += [convolution(net, (channels, h, w), f"{name}_branch{i}_{h}x{w}") for h, w in ((1, 3), (3, 1))]
        else:
            outputs.append(net)
    more = {"count_include_pad": True} if pool == "avg" else {}
    pooled = getattr(nn, f"{pool}_pool2d")(data, pool_size=(3, 3), strides=(1, 1), padding=(1, 1), **more)
    outputs.append(convolution(pooled, (projection, 1, 1), f"{name}_projection"))
    return operator_function("concatenate")(outputs, axis=1)


def half_size(data: Expr, branches: Sequence[Branch], name: str) -> Any:
    """Block that halves the size: branches ending in stride 2, and max pooling."""
    outputs = [_row(data, branch, f"{name}_branch{i}", halves=True) for i, branch in enumerate(branches)]
    outputs.append(nn.max_pool2d(data, pool_size=(3, 3), strides=(2, 2)))
    return operator_function("concatenate")(outputs, axis=1)


_A: Final[tuple[Branch, ...]] = (((64, 1, 1),), ((48, 1, 1), (64, 5, 5)), ((64, 1, 1), (96, 3, 3), (96, 3, 3)))
_B: Final[tuple[Branch, ...]] = (((384, 3, 3),), ((64, 1, 1), (96, 3, 3), (96, 3, 3)))
_D: Final[tuple[Branch, ...]] = (((192, 1, 1), (320, 3, 3)), ((192, 1, 1), (192, 1, 7), (192, 7, 1), (192, 3, 3)))
_E: Final[tuple[Branch, ...]] = (((320, 1, 1),), ((384, 1, 1), (384, 0, 0)), ((448, 1, 1), (384, 3, 3), (384, 0, 0)))


def _c(channels: int) -> tuple[Branch, ...]:
    c = channels
    return (
        ((192, 1, 1),),
        ((c, 1, 1), (c, 1, 7), (192, 7, 1)),
        ((c, 1, 1), (c, 7, 1), (c, 1, 7), (c, 7, 1), (192, 1, 7)),
    )


def get_net(batch_size: Any, num_classes: int, image_shape: tuple[int, int, int], dtype: str) -> Function:
    """Inception-v3 network; images are 299 × 299, and at least 75 × 75."""
    net: Any = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    net = convolution(net, (32, 3, 3), "conv", 2, (0, 0))
    net = convolution(net, (32, 3, 3), "conv_1", 1, (0, 0))
    net = convolution(net, (64, 3, 3), "conv_2")
    net = nn.max_pool2d(net, pool_size=(3, 3), strides=(2, 2))
    net = convolution(net, (80, 1, 1), "conv_3")
    net = convolution(net, (192, 3, 3), "conv_4", 1, (0, 0))
    net = nn.max_pool2d(net, pool_size=(3, 3), strides=(2, 2))
    for i, projection in enumerate((32, 64, 64)):
        net = same_size(net, _A, "avg", projection, f"mixed_{i}")
    net = half_size(net, _B, "mixed_3")
    for i, channels in enumerate((128, 160, 160, 192)):
        net = same_size(net, _c(channels), "avg", 192, f"mixed_{i + 4}")
    net = half_size(net, _D, "mixed_8")
    net = same_size(net, _E, "avg", 192, "mixed_9", forked=2)
    net = same_size(net, _E, "max", 192, "mixed_10", forked=2)
    net = nn.batch_flatten(nn.global_avg_pool2d(net))
    net = nn.softmax(layers.dense_add_bias(net, units=num_classes, name="fc1"))
    return Function(free_vars(net), net)


def get_workload(
    batch_size: Any = 1,
    num_classes: int = 1000,
    image_shape: tuple[int, int, int] = (3, 299, 299),
    dtype: str = "float32",
) -> tuple[IRModule, dict[str, NDArray]]:
    """Return the module of the network, and random parameters."""
    return create_workload(get_net(batch_size, num_classes, image_shape, dtype))
