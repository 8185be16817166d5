"""Operators on nn.Tensors: TVM's `relax.frontend.nn.op`, and under their own names all of `relax.op` and `relax.op.nn`.

    op.relu(op.matmul(x, w))
    op.cos(x)               relax.op.cos for Tensors: what is not listed here has the operator's own parameters

Each emits a binding into the function under construction and takes `name`, that of the bound variable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..tensor import wrap_nested as wrap_nested
from .elementwise import (
    add,
    divide,
    equal,
    exp,
    floor,
    greater,
    greater_equal,
    less,
    less_equal,
    log,
    max,
    maximum,
    min,
    minimum,
    multiply,
    negative,
    not_equal,
    relu,
    relu6,
    sigmoid,
    silu,
    sqrt,
    square,
    subtract,
    sum,
    tanh,
)
from .kernels import debug_func, extern, print_, tensor_expr_op, tensor_ir_inplace_op, tensor_ir_op
from .layers import (
    ccl_allgather,
    ccl_allreduce,
    ccl_broadcast_from_worker0,
    conv1d,
    conv1d_transpose,
    conv2d,
    conv3d,
    gelu,
    get_timestep_embedding,
    group_norm,
    interpolate,
    layer_norm,
    matmul,
    prelu,
    rms_norm,
    scaled_dot_product_attention,
    softmax,
    softplus,
)
from .layout import (
    arange,
    argsort,
    astype,
    broadcast_to,
    chunk,
    concat,
    cumsum,
    empty,
    full,
    ones,
    pad,
    permute,
    permute_dims,
    repeat,
    reshape,
    sort,
    split,
    squeeze,
    take,
    topk,
    tril,
    triu,
    unsqueeze,
    where,
    zeros,
)
from .lift import lifted, operator_names
from .sampling import multinomial_from_uniform, renormalize_top_p_top_k_prob, sample_top_p_top_k_from_sorted_prob

__all__ = [
    "add", "arange", "argsort", "astype", "broadcast_to", "ccl_allgather", "ccl_allreduce",
    "ccl_broadcast_from_worker0", "chunk", "concat", "conv1d", "conv1d_transpose", "conv2d", "conv3d", "cumsum",
    "debug_func", "divide", "empty", "equal", "exp", "extern", "floor", "full", "gelu", "get_timestep_embedding",
    "greater", "greater_equal", "group_norm", "interpolate", "layer_norm", "less", "less_equal", "log", "matmul", "max",
    "maximum", "min", "minimum", "multinomial_from_uniform", "multiply", "negative", "not_equal", "ones", "pad",
    "permute", "permute_dims", "prelu", "print_", "relu", "relu6", "renormalize_top_p_top_k_prob", "repeat", "reshape",
    "rms_norm", "sample_top_p_top_k_from_sorted_prob", "scaled_dot_product_attention", "sigmoid", "silu", "softmax",
    "softplus", "sort", "split", "sqrt", "square", "squeeze", "subtract", "sum", "take", "tanh", "tensor_expr_op",
    "tensor_ir_inplace_op", "tensor_ir_op", "topk", "tril", "triu", "unsqueeze", "where", "zeros",
]  # fmt: skip

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...

else:

    def __getattr__(name: str) -> Any:
        if name.startswith("_") or name not in operator_names():
            raise AttributeError(f"relax.frontend.nn.op has no operator {name!r}, and neither has relax.op")
        function = globals()[name] = lifted(name)
        return function

    def __dir__() -> list[str]:
        return sorted({*__all__, *operator_names()})
