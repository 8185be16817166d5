"""Generator of DCGAN (A. Radford et al., "Unsupervised representation learning with deep convolutional generative
adversarial networks", 2015): noise vectors to images.
"""

from __future__ import annotations

from typing import Any

from ...ir import IRModule
from ...runtime import NDArray
from .. import calls
from ..analysis import free_vars
from ..calls import operator_function
from ..expr import Expr, Function, var
from . import layers
from .init import create_workload

nn = calls.Namespace("nn")


def deconv2d(data: Expr, channels: int, layout: str, name: str) -> Any:
    """Transposed convolution that doubles height and width."""
    return layers.conv2d_transpose(
        data, channels=channels, kernel_size=(4, 4), strides=(2, 2), padding=(1, 1), data_layout=layout,
        kernel_layout={"NCHW": "IOHW", "NHWC": "HWOI"}[layout], name=name,
    )  # fmt: skip


def get_net(
    batch_size: Any,
    random_len: int = 100,
    oshape: tuple[int, int, int] = (3, 64, 64),
    ngf: int = 128,
    code: Expr | None = None,
    layout: str = "NCHW",
    dtype: str = "float32",
) -> Function:
    """Network from `random_len` numbers to images of `oshape` (channels, 64, 64).

    Channel counts are multiples of `ngf`.

    Raises ValueError for images of another size.
    """
    if tuple(oshape[1:]) != (64, 64):
        raise ValueError(f"dcgan: the images are 64 x 64, found {oshape[1]} x {oshape[2]}")
    axis = layout.index("C")
    data = var("data", shape=(batch_size, random_len), dtype=dtype) if code is None else code
    dense: Any = nn.dense(data, layers.param(None, "dense", "weight"), units=4 * 4 * ngf * 8)
    net = operator_function("reshape")(nn.relu(dense), newshape=(-1, *layers.image_layout((ngf * 8, 4, 4), layout)))
    for i, scale in enumerate((4, 2, 1)):
        name = f"g{i + 2}"
        net = deconv2d(net, ngf * scale, layout, f"{name}_deconv")
        net = nn.relu(layers.batch_norm_infer(net, axis=axis, name=f"{name}_batch_norm"))
    net = operator_function("tanh")(deconv2d(net, oshape[0], layout, "g5_deconv"))
    return Function(free_vars(net), net)


def get_workload(
    batch_size: Any,
    oshape: tuple[int, int, int] = (3, 64, 64),
    ngf: int = 128,
    random_len: int = 100,
    layout: str = "NCHW",
    dtype: str = "float32",
) -> tuple[IRModule, dict[str, NDArray]]:
    """Return the module of the network, and random parameters."""
    return create_workload(get_net(batch_size, random_len, oshape, ngf, layout=layout, dtype=dtype))
