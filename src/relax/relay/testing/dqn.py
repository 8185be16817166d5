"""The deep Q-network (V. Mnih et al., "Human-level control through deep reinforcement learning", 2015)."""

from __future__ import annotations

from typing import Any

from ...ir import IRModule
from ...runtime import NDArray
from .. import calls
from ..analysis import free_vars
from ..expr import Function, var
from . import layers
from .init import create_workload

nn = calls.Namespace("nn")


def get_net(
    batch_size: Any,
    num_actions: int = 18,
    image_shape: tuple[int, int, int] = (4, 84, 84),
    dtype: str = "float32",
    layout: str = "NCHW",
) -> Function:
    """Network from the last frames to action values. `image_shape` is (channels, height, width)."""
    shape = (batch_size, *layers.image_layout(image_shape, layout))
    net: Any = var("data", shape=shape, dtype=dtype)
    for i, (channels, size, stride) in enumerate(((32, 8, 4), (64, 4, 2), (64, 3, 1))):
        name = f"conv{i + 1}"
        net = layers.conv2d(
            net, channels=channels, kernel_size=(size, size), strides=(stride, stride), data_layout=layout,
            kernel_layout=layers.conv_kernel_layout(layout), name=name,
        )  # fmt: skip
        net = nn.relu(nn.bias_add(net, layers.param(None, name, "bias"), axis=layout.index("C")))
    net = nn.relu(layers.dense_add_bias(nn.batch_flatten(net), units=512, name="dense1"))
    net = layers.dense_add_bias(net, units=num_actions, name="dense2")
    return Function(free_vars(net), net)


def get_workload(
    batch_size: Any,
    num_actions: int = 18,
    image_shape: tuple[int, int, int] = (4, 84, 84),
    dtype: str = "float32",
    layout: str = "NCHW",
) -> tuple[IRModule, dict[str, NDArray]]:
    """Return the module of the network, and random parameters."""
    return create_workload(get_net(batch_size, num_actions, image_shape, dtype, layout))
