"""Formulas of neural networks.

Narrow floats (16 and 8 bits) are computed in float32 and rounded once where a formula chains several roundings
(softmax, normalisation, convolution, attention).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ir.tvm_names import answer_missing
from ...runtime.rooms import load_when_used
from ._homes import HOMES

if TYPE_CHECKING:
    from ..activation import gelu, gelu_tanh, leaky_relu, prelu, relu, relu6, selu, silu, softplus
    from ..linalg import matmul
    from ..transform import flatten
    from .attention import attention, attention_var_len
    from .convolution import conv, conv2d, conv_transpose
    from .dense import bias_add, dense, dropout
    from .loss import cross_entropy_with_logits, nll_loss
    from .normalization import batch_norm, group_norm, instance_norm, layer_norm, lrn, rms_norm
    from .padding import pad, pad_by_mode, pixel_shuffle, pixel_unshuffle
    from .pooling import (
        Pooling,
        adaptive_avg_pool,
        avg_pool,
        avg_pool_backward,
        lp_pool,
        max_pool,
        max_pool_backward,
        max_pool_with_indices,
    )
    from .softmax import log_softmax, softmax
    from .windows import conv_extent, conv_transpose_extent, pad_pairs, per_axis, pool_extent, relaid, spatial_axes

__all__ = [
    "Pooling", "adaptive_avg_pool", "attention", "attention_var_len", "avg_pool", "avg_pool_backward", "batch_norm",
    "bias_add", "conv", "conv2d", "conv_extent", "conv_transpose", "conv_transpose_extent",
    "cross_entropy_with_logits", "dense", "dropout", "flatten", "gelu", "gelu_tanh", "group_norm", "instance_norm",
    "layer_norm", "leaky_relu", "log_softmax", "lp_pool", "lrn", "matmul", "max_pool", "max_pool_backward",
    "max_pool_with_indices", "nll_loss", "pad", "pad_by_mode", "pad_pairs", "per_axis", "pixel_shuffle",
    "pixel_unshuffle", "pool_extent", "prelu", "relaid", "relu", "relu6", "rms_norm", "selu", "silu", "softmax",
    "softplus", "spatial_axes",
]  # fmt: skip

load_when_used(__name__, HOMES)
answer_missing(__name__)
