"""Products of matrices, and attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .... import op
from ....ir import RelaxExpr
from ..emitter import Emitter
from ..registry import converter
from .shape import repeat_interleave


@converter("aten.matmul", "aten.mm.default", "aten.bmm.default", "aten.mv", "aten.dot")
def matmul(g: Emitter, a: RelaxExpr, b: RelaxExpr) -> RelaxExpr:
    return op.matmul(a, b)


@converter("aten.linear")
def linear(g: Emitter, x: RelaxExpr, weight: RelaxExpr, bias: RelaxExpr | None = None) -> RelaxExpr:
    product = op.matmul(x, op.permute_dims(weight) if g.ndim(weight) > 1 else weight)
    return product if bias is None else op.add(product, bias)


def _sum(g: Emitter, bias: RelaxExpr, product: RelaxExpr, beta: Any, alpha: Any) -> RelaxExpr:
    """beta · bias + alpha · product; a bias times 0 does not count."""
    scaled = product if alpha == 1 else op.multiply(product, g.tensor(alpha, g.out_dtype))
    if beta == 0:
        return scaled
    return op.add(scaled, bias if beta == 1 else op.multiply(bias, g.tensor(beta, g.out_dtype)))


@converter("aten.addmm.default", "aten.baddbmm", "aten.addmv")
def addmm(
    g: Emitter, bias: RelaxExpr, a: RelaxExpr, b: RelaxExpr, *, beta: Any = 1, alpha: Any = 1
) -> RelaxExpr:
    return _sum(g, bias, op.matmul(a, b), beta, alpha)


@converter("aten.outer")
def outer(g: Emitter, a: RelaxExpr, b: RelaxExpr) -> RelaxExpr:
    return op.multiply(op.expand_dims(a, [1]), b)


@converter("aten.einsum")
def einsum(g: Emitter, equation: str, tensors: Sequence[RelaxExpr], *, path: Any = None) -> RelaxExpr:
    return op.einsum(tuple(tensors), equation.replace(" ", ""))


@converter("aten.scaled_dot_product_attention")
def attention(
    g: Emitter,
    query: RelaxExpr,
    key: RelaxExpr,
    value: RelaxExpr,
    attn_mask: RelaxExpr | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> RelaxExpr:
    """Heads stand before the sequence in torch, and behind it in Relax; any dimensions before them are the batch."""
    if dropout_p:
        g.unsupported("attention with dropout", "call eval() on the module before torch.export")
    lead = g.dims(query)[:-3]
    parts = [_batched(g, part) for part in (query, key, value)]
    if enable_gqa:
        heads = g.dims(parts[0])[1]
        parts = [parts[0], *(_widened(g, part, heads) for part in parts[1:])]
    bias = None if attn_mask is None else _bias(g, attn_mask, str(g.dtype(query)), len(lead))
    q, k, v = (g.emit(op.permute_dims(part, (0, 2, 1, 3))) for part in parts)
    causal = "TopLeft" if is_causal else None
    attended = g.emit(op.nn.attention(q, k, v, bias, scale=scale, causal_mask=causal))
    result = g.emit(op.permute_dims(attended, (0, 2, 1, 3)))
    if len(lead) == 1:
        return result
    return g.reshape(result, [*g.dims(query)[:-2], *g.dims(result)[-2:]])


def _batched(g: Emitter, x: RelaxExpr) -> RelaxExpr:
    """(batch, heads, length, size): a missing batch or head is 1, several dimensions of the batch become one."""
    dims = g.dims(x)
    if len(dims) == 4:
        return x
    if len(dims) < 4:
        return g.reshape(x, [*[1] * (4 - len(dims)), *dims])
    count = dims[0]
    for dim in dims[1:-3]:
        count = count * dim
    return g.reshape(x, [count, *dims[-3:]])


def _widened(g: Emitter, x: RelaxExpr, heads: Any) -> RelaxExpr:
    """Keys or values of fewer heads, each repeated for the queries of its group."""
    own = g.dims(x)[1]
    if g.same_size(own, heads):
        return x
    return g.emit(repeat_interleave(g, x, heads // own, 1))


def _bias(g: Emitter, mask: RelaxExpr, dtype: str, lead: int) -> RelaxExpr:
    """The bias of the scores: a mask of bool is 0 where it is True, else -inf."""
    if lead > 1:
        g.unsupported("attention with a mask and more than one dimension of the batch")
    if g.dtype(mask).is_bool:
        mask = g.emit(op.where(mask, g.const(0, dtype), g.const(float("-inf"), dtype)))
    dims = g.dims(mask)
    return g.reshape(g.cast(mask, dtype), [*[1] * (4 - len(dims)), *dims])
