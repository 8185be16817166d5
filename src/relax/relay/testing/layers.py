"""Network layers: operators whose parameters are variables named after the layer.

    layers.conv2d(data, channels=8, kernel_size=(3, 3), name="conv0")    # with the parameter %conv0_weight

The parameters are not annotated: type inference derives their types from the data.
"""

from __future__ import annotations

from typing import Any

from ..calls import operator_function
from ..expr import Expr, Var


def param(value: Expr | None, name: str, role: str) -> Expr:
    """Return the parameter, or a new variable ``<name>_<role>`` for None."""
    return Var(f"{name}_{role}") if value is None else value


def batch_norm_infer(
    data: Expr,
    gamma: Expr | None = None,
    beta: Expr | None = None,
    moving_mean: Expr | None = None,
    moving_var: Expr | None = None,
    *,
    name: str,
    **attrs: Any,
) -> Any:
    """Batch normalisation with moving statistics, as an expression of its first result."""
    parameters = (
        param(gamma, name, "gamma"),
        param(beta, name, "beta"),
        param(moving_mean, name, "moving_mean"),
        param(moving_var, name, "moving_var"),
    )
    return operator_function("nn.batch_norm")(data, *parameters, **attrs)[0]


def conv2d(data: Expr, weight: Expr | None = None, *, name: str, **attrs: Any) -> Any:
    """Convolution; `attrs` include `channels` and `kernel_size`."""
    return operator_function("nn.conv2d")(data, param(weight, name, "weight"), **attrs)


def conv2d_transpose(data: Expr, weight: Expr | None = None, *, name: str, **attrs: Any) -> Any:
    """Transposed convolution; `attrs` include `channels` and `kernel_size`."""
    return operator_function("nn.conv2d_transpose")(data, param(weight, name, "weight"), **attrs)


def dense_add_bias(
    data: Expr,
    weight: Expr | None = None,
    bias: Expr | None = None,
    units: int | None = None,
    *,
    name: str,
    **attrs: Any,
) -> Any:
    """Dense layer of `units` units with a bias."""
    product = operator_function("nn.dense")(data, param(weight, name, "weight"), units=units, **attrs)
    return operator_function("nn.bias_add")(product, param(bias, name, "bias"), axis=-1)


def conv_kernel_layout(data_layout: str, is_depthwise: bool = False) -> str:
    """Weight layout that matches a data layout, NCHW or NHWC. Raises KeyError."""
    return {"NCHW": "OIHW", "NHWC": "HWOI" if is_depthwise else "HWIO"}[data_layout]


def image_layout(shape: tuple[Any, ...], layout: str) -> tuple[Any, ...]:
    """Permute a shape (channels, height, width) to the layout NCHW or NHWC, without the batch."""
    sizes = dict(zip("CHW", shape, strict=True))
    return tuple(sizes[letter] for letter in layout if letter != "N")
