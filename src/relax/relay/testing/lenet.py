"""LeNet with max pooling (Y. LeCun et al., "Gradient-based learning applied to document recognition", 1998)."""

from __future__ import annotations

from typing import Any

from ...ir import IRModule
from ...runtime import NDArray
from .. import calls
from ..analysis import free_vars
from ..calls import operator_function
from ..expr import Function, var
from . import layers
from .init import create_workload

nn = calls.Namespace("nn")


def get_net(
    batch_size: Any = 1, num_classes: int = 10, image_shape: tuple[int, int, int] = (1, 28, 28), dtype: str = "float32"
) -> Function:
    """The network as a function of %data and the parameters."""
    tanh = operator_function("tanh")
    net: Any = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    for i, channels in enumerate((20, 50)):
        net = layers.conv2d(net, channels=channels, kernel_size=(5, 5), name=f"conv{i + 1}")
        net = nn.bias_add(net, layers.param(None, f"conv{i + 1}", "bias"))
        net = nn.max_pool2d(tanh(net), pool_size=(2, 2), strides=(2, 2))
    net = tanh(layers.dense_add_bias(nn.batch_flatten(net), units=500, name="fc1"))
    net = nn.softmax(layers.dense_add_bias(net, units=num_classes, name="fc2"))
    return Function(free_vars(net), net)


def get_workload(
    batch_size: Any = 1, num_classes: int = 10, image_shape: tuple[int, int, int] = (1, 28, 28), dtype: str = "float32"
) -> tuple[IRModule, dict[str, NDArray]]:
    """The module of the network, and random parameters."""
    return create_workload(get_net(batch_size, num_classes, image_shape, dtype))
