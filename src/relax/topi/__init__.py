"""Formulas of operators as tensor expressions, with the names of TVM's topi."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ir.tvm_names import answer_missing
from ..runtime.rooms import load_when_used
from ._homes import HOMES

if TYPE_CHECKING:
    from . import grid, image, nn, recurrent, vision
    from .blocks import dequantize_blocks, dynamic_quantize, quantized_expert_matmul, quantized_matmul, quantized_take
    from .broadcast import (
        add,
        bitwise_and,
        bitwise_or,
        bitwise_xor,
        broadcast_shape,
        broadcast_size,
        broadcast_to,
        broadcast_with,
        divide,
        equal,
        floor_divide,
        floor_mod,
        greater,
        greater_equal,
        left_shift,
        less,
        less_equal,
        log_add_exp,
        logical_and,
        logical_or,
        logical_xor,
        maximum,
        minimum,
        mod,
        multiply,
        not_equal,
        read_broadcast,
        right_shift,
        same_size,
        subtract,
    )
    from .collapse import collapse_sum_like, collapse_sum_to
    from .contraction import einsum, outer
    from .fast import fast_tanh
    from .grad import nll_loss_backward, take_backward
    from .indexing import gather_elements, gather_nd, index_tensor, one_hot, reverse_sequence
    from .layout import layout_transform
    from .linalg import matmul
    from .math import (
        abs,
        acos,
        acosh,
        asin,
        asinh,
        atan,
        atanh,
        bitwise_not,
        cast,
        ceil,
        clip,
        cos,
        cosh,
        erf,
        erfc,
        exp,
        floor,
        identity,
        isfinite,
        isinf,
        isnan,
        log,
        logical_not,
        negative,
        reinterpret,
        round,
        rsqrt,
        sigmoid,
        sign,
        sin,
        sinh,
        sqrt,
        square,
        tan,
        tanh,
        trunc,
    )
    from .matrices import as_size, cosine_window, eye, tril, triu
    from .order import bucketize, median
    from .powers import power
    from .qdq import dequantize, quantize
    from .random import normal, uniform
    from .reduction import argmax, argmin, cummax, cummin, cumprod, cumsum, max, mean, min, prod, std, sum, variance
    from .sampling import multinomial_from_uniform
    from .scatter import index_put, scatter_elements, scatter_nd, slice_scatter
    from .sorting import argsort, sort, topk
    from .ternary import ewise_fma
    from .transform import (
        arange,
        arange_size,
        concatenate,
        expand_dims,
        flatten,
        flip,
        full,
        full_like,
        meshgrid,
        repeat,
        reshape,
        split,
        squeeze,
        stack,
        strided_slice,
        take,
        tile,
        transpose,
        where,
    )

__all__ = [
    "abs", "acos", "acosh", "add", "arange", "arange_size", "argmax", "argmin", "argsort", "as_size", "asin",
    "asinh", "atan", "atanh", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "broadcast_shape",
    "broadcast_size", "broadcast_to", "broadcast_with", "bucketize", "cast", "ceil", "clip", "collapse_sum_like",
    "collapse_sum_to", "concatenate", "cos", "cosh", "cosine_window", "cummax", "cummin", "cumprod", "cumsum",
    "dequantize", "dequantize_blocks", "divide", "dynamic_quantize", "einsum", "equal", "erf", "erfc", "ewise_fma",
    "exp", "expand_dims", "eye", "fast_tanh", "flatten", "flip", "floor", "floor_divide", "floor_mod", "full",
    "full_like", "gather_elements", "gather_nd", "greater", "greater_equal", "grid", "identity", "image", "index_put",
    "index_tensor", "isfinite", "isinf", "isnan", "layout_transform", "left_shift", "less", "less_equal", "log",
    "log_add_exp", "logical_and", "logical_not", "logical_or", "logical_xor", "matmul", "max", "maximum", "mean",
    "median", "meshgrid", "min", "minimum", "mod", "multinomial_from_uniform", "multiply", "negative",
    "nll_loss_backward", "nn", "normal", "not_equal", "one_hot", "outer", "power", "prod", "quantize",
    "quantized_expert_matmul", "quantized_matmul", "quantized_take", "read_broadcast", "recurrent", "reinterpret",
    "repeat", "reshape",
    "reverse_sequence", "right_shift", "round", "rsqrt", "same_size", "scatter_elements", "scatter_nd", "sigmoid",
    "sign", "sin", "sinh", "slice_scatter", "sort", "split", "sqrt", "square", "squeeze", "stack", "std",
    "strided_slice", "subtract", "sum", "take", "take_backward", "tan", "tanh", "tile", "topk", "transpose", "tril",
    "triu", "trunc", "uniform", "variance", "vision", "where",
]  # fmt: skip

load_when_used(__name__, HOMES)
answer_missing(__name__)
