"""A multilayer perceptron: two hidden layers of 128 and 64 units, and softmax."""

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
    batch_size: Any, num_classes: int = 10, image_shape: tuple[int, ...] = (1, 28, 28), dtype: str = "float32"
) -> Function:
    """The network as a function of %data and the parameters. `batch_size` may be ``relay.Any()``."""
    data = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    net: Any = nn.batch_flatten(data)
    for i, units in enumerate((128, 64)):
        net = nn.relu(layers.dense_add_bias(net, units=units, name=f"fc{i + 1}"))
    net = nn.softmax(layers.dense_add_bias(net, units=num_classes, name="fc3"))
    return Function(free_vars(net), net)


def get_workload(
    batch_size: Any, num_classes: int = 10, image_shape: tuple[int, ...] = (1, 28, 28), dtype: str = "float32"
) -> tuple[IRModule, dict[str, NDArray]]:
    """The module of the network, and random parameters."""
    return create_workload(get_net(batch_size, num_classes, image_shape, dtype))
